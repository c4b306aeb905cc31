package engine

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"time"

	"github.com/abidehq/abide/internal/roster"
	"github.com/abidehq/abide/store"
)

// drain has the engine claim nothing more, because an operator has asked for it. What is under way goes on. The
// channel is closed when it has ended.
func (e *Engine) drain() (ended <-chan struct{}) {
	e.StopClaiming()
	e.Client.drained.Store(true)
	e.log.Info("worker drained by an operator, it claims nothing until its program is started again", "worker", e.cfg.WorkerName)
	if e.cfg.Drained != nil {
		e.cfg.Drained(e.idle)
	}
	go func() {
		e.loops.Wait()
		e.work.Wait()
		close(e.idle)
	}()
	return e.idle
}

// Drained is closed when an operator has drained the engine and what was under way has ended. The engine is
// still a client.
func (e *Engine) Drained() <-chan struct{} { return e.idle }

// Listed is closed when the engine has reported to the roster for the first time, or could not.
func (e *Engine) Listed() <-chan struct{} { return e.roster.First() }

// DrainWorker asks a worker to claim nothing more. It returns [ErrNotFound] if no live worker has that ID, and
// [ErrState] if it cannot be drained.
func (c *Client) DrainWorker(ctx context.Context, id string) error {
	stats, err := c.store.Stats(ctx)
	if err != nil {
		return wrap("drain worker", err)
	}
	err = roster.Drain(ctx, c.store, id, stats.Now)
	switch {
	case errors.Is(err, roster.ErrUndrainable):
		return fmt.Errorf("abide: drain worker %s: %w: %w", id, err, ErrState)
	case errors.Is(err, store.ErrNotFound):
		return fmt.Errorf("abide: drain worker %s: no live worker has that ID: %w", id, ErrNotFound)
	}
	return wrap("drain worker", err)
}

// Held is a turn or an activity that a worker has leased.
type Held struct {
	Ref   Ref
	Route string // of the orchestration, or the name of the activity

	Activity bool
	Until    time.Time // when the lease ends unless it is renewed
}

// maxLeases is how many leases are looked at for those of one worker.
const maxLeases = store.MaxPage

// Held returns the turns and activities that a worker has leased, those whose leases end first at first. With
// more than maxLeases leases on the store it returns those among the first of them.
func (c *Client) Held(ctx context.Context, worker string) ([]Held, error) {
	var held []Held
	for _, queue := range []string{queueTurns, QueueActivities} {
		leases, err := c.store.Leases(ctx, store.LeaseQuery{Queue: queue, Limit: maxLeases})
		if err != nil {
			return nil, wrap("leases of worker", err)
		}
		for i := range leases {
			l := &leases[i]
			if _, id := roster.ParseOwner(l.Owner); id != worker || worker == "" {
				continue
			}
			h := Held{Ref: refOf(l.Key), Route: l.Route, Until: l.Until}
			if queue == QueueActivities {
				h.Activity, h.Ref.ID = true, instanceOfTask(l.Key)
			}
			held = append(held, h)
		}
	}
	return held, nil
}

// instanceOfTask returns the ID of the instance whose activity a key is: see taskKey.
func instanceOfTask(key store.Key) string {
	id := key.Name
	for range 2 {
		if at := strings.LastIndexByte(id, '/'); at >= 0 {
			id = id[:at]
		}
	}
	return id
}
