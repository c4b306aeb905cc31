package engine

import (
	"context"
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/abidehq/abide/history"
	"github.com/abidehq/abide/store"
)

func TestHeartbeatTimeout(t *testing.T) {
	inBubble(t, func(r *rig) {
		start := time.Now()
		r.flow("flow", calling(history.Activity{MaxAttempts: 1, Heartbeat: time.Minute}))
		r.act("act", func(ctx context.Context, task *Task) ([]byte, *history.Failure) {
			for range 10 { // it is alive for a while
				if err := task.Heartbeat(nil); err != nil {
					return nil, failure("heartbeat: %v", err)
				}
				<-time.After(50 * time.Second)
			}
			return hang(ctx, task)
		})
		r.serve()
		r.begin("i", "flow", "")
		info := r.until("i", Failed)
		want(r, "type", info.Failure.Type, TypeTimeout)
		want(r, "took", time.Since(start), 9*50*time.Second+time.Minute)
	})
}

func TestHeartbeatDetailsSurvive(t *testing.T) {
	inBubble(t, func(r *rig) {
		var seen []string
		r.flow("flow", calling(history.Activity{MaxAttempts: 4, Heartbeat: time.Minute}))
		r.act("act", func(ctx context.Context, task *Task) ([]byte, *history.Failure) {
			details, err := task.Details()
			r.must(err)
			seen = append(seen, string(details))
			if task.Attempt == 4 {
				return details, nil
			}
			for i := range 5 {
				r.must(task.Heartbeat(fmt.Appendf(nil, "%d/%d", task.Attempt, i)))
			}
			r.must(task.Heartbeat(nil)) // keeps what there is
			if task.Attempt == 2 {
				return hang(ctx, task) // until it is not heard of
			}
			return nil, failure("no")
		})
		r.serve()
		r.begin("i", "flow", "")
		want(r, "result", r.result("i"), "3/4")
		want(r, "details", strings.Join(seen, " "), " 1/4 2/4 3/4")
		want(r, "records that are left", r.records(kindHeartbeat), 0)
	})
}

// TestHeartbeatDetailsSurviveACrash: they are durable, a second later at most.
func TestHeartbeatDetailsSurviveACrash(t *testing.T) {
	inBubble(t, func(r *rig) {
		release := make(chan struct{})
		r.flow("flow", calling(history.Activity{}))
		r.act("act", func(_ context.Context, task *Task) ([]byte, *history.Failure) {
			if task.Attempt > 1 {
				details, err := task.Details()
				r.must(err)
				return details, nil
			}
			r.must(task.Heartbeat([]byte("first")))
			r.must(task.Heartbeat([]byte("too soon to be kept")))
			<-time.After(heartbeatEvery)
			r.must(task.Heartbeat([]byte("second")))
			<-release
			return nil, nil
		})
		lost := r.serve()
		r.begin("i", "flow", "")
		r.pass(10 * time.Second)
		lost.keeper.Stop() // as a process that is lost
		lost.stopClaiming()
		r.serve()
		want(r, "result", r.result("i"), "second")
		close(release)
		r.must(lost.Close(r.Context()))
	})
}

func TestHeartbeatDetailsHaveALimit(t *testing.T) {
	inBubble(t, func(r *rig) {
		r.flow("flow", calling(history.Activity{}))
		r.act("act", func(_ context.Context, task *Task) ([]byte, *history.Failure) {
			r.must(task.Heartbeat(make([]byte, MaxPayload)))
			r.wantErr(task.Heartbeat(make([]byte, MaxPayload+1)), ErrInvalid, "heartbeat", fmt.Sprint(MaxPayload+1), fmt.Sprint(MaxPayload))
			return nil, nil
		})
		r.serve()
		r.begin("i", "flow", "")
		r.result("i")
	})
}

// hooked is a store that calls a function before it reads a record of a heartbeat, once.
type hooked struct {
	store.Store
	before func()
}

func (s *hooked) Get(ctx context.Context, key store.RecordKey) (store.Record, error) {
	if before := s.before; key.Kind == kindHeartbeat && before != nil {
		s.before = nil
		before()
	}
	return s.Store.Get(ctx, key)
}

// TestHeartbeatSavedAfterItsTaskIsDeleted: another process takes the task back, with the
// record of its heartbeats, while one is being saved. The record does not stay.
func TestHeartbeatSavedAfterItsTaskIsDeleted(t *testing.T) {
	inBubble(t, func(r *rig) {
		saved := 0
		r.flow("flow", calling(history.Activity{}))
		hook := &hooked{Store: r.tape}
		r.act("act", func(ctx context.Context, task *Task) ([]byte, *history.Failure) {
			hook.before = func() {
				r.must(r.tape.Commit(ctx, &store.Tx{
					Delete:        []store.MessageRef{{Key: task.claim.Key, ID: idTask}},
					DeleteRecords: []store.DeleteRecord{{Key: heartbeatKey(task.claim.Key), Expect: store.AnyVersion}},
				}))
			}
			r.must(task.Heartbeat([]byte("details")))
			saved = r.records(kindHeartbeat)
			<-ctx.Done()
			return nil, failure("stopped")
		})
		r.serve(func(c *Config) { c.Store = hook })
		r.begin("i", "flow", "")
		r.pass(time.Hour)
		want(r, "records that were saved", saved, 1)
		want(r, "records that are left", r.records(kindHeartbeat), 0)
	})
}
