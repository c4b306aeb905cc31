package sim

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"slices"
	"strconv"
	"testing/synctest"
	"time"

	"github.com/abidehq/abide"
	"github.com/abidehq/abide/action"
	"github.com/abidehq/abide/timer"
)

// program is what clients do in a world, and what happens to it.
type program struct {
	*world
	client    *process
	api       *abide.Client
	next      int // number of the next event, call or ID
	suspended map[string]bool
	asking    int // calls of clients under way; guarded by the ledger's lock
	timerBusy map[string]bool
}

// patience is how long a client waits for an answer.
const patience = 20 * time.Second

// ask makes calls as a client, beside the scheduler.
func (g *program) ask(about string, f func(ctx context.Context)) {
	g.note("client: %s", about)
	g.book.Lock()
	g.asking++
	g.book.Unlock()
	go func() {
		ctx, cancel := context.WithTimeout(context.Background(), patience)
		defer cancel()
		f(ctx)
		g.book.Lock()
		defer g.book.Unlock()
		g.asking--
	}()
	synctest.Wait() // it calls the store, or has ended, before anything else happens
}

// insist repeats a call until it has succeeded, or has failed for another reason than a fault.
// It is for calls that are idempotent.
func (g *program) insist(about string, call func(ctx context.Context) error) {
	for {
		ctx, cancel := context.WithTimeout(context.Background(), patience)
		err := call(ctx)
		cancel()
		switch {
		case err == nil:
			return
		case !errors.Is(err, errFault) && !errors.Is(err, context.DeadlineExceeded):
			g.problem("%s: %v", about, err)
			return
		}
		_ = after(context.Background(), 300*time.Millisecond)
	}
}

// act draws something that a client does, or that happens.
func (g *program) act() {
	switch n := g.rnd.IntN(100); {
	case n < 24:
		g.startOne()
	case n < 44:
		g.raise()
	case n < 52:
		g.control()
	case n < 66:
		g.timer()
	case n < 82:
		g.action()
	case n < 88:
		g.trouble()
	case n < 91:
		g.faults = faults{failOneIn: []int{0, 5, 20, 60}[g.rnd.IntN(4)], holdOneIn: []int{0, 15, 60}[g.rnd.IntN(3)], holdFor: 2 * lease}
		g.note("faults: %+v", g.faults)
	case n < 97:
		g.signal()
	default: // time passes
	}
}

// some returns a random instance of the kinds, or nil; none that a call is under way about.
func (g *program) some(kinds ...string) (string, *told) {
	g.book.Lock()
	defer g.book.Unlock()
	var ids []string
	for i := range g.next {
		for _, kind := range kinds {
			id := kind + strconv.Itoa(i)
			if t := g.instances[id]; t != nil && !t.busy {
				ids = append(ids, id)
			}
		}
	}
	if len(ids) == 0 {
		return "", nil
	}
	id := ids[g.rnd.IntN(len(ids))]
	g.instances[id].busy = true
	return id, g.instances[id]
}

// free says that the call about an instance is over.
func (g *program) free(t *told) {
	g.book.Lock()
	defer g.book.Unlock()
	t.busy = false
}

// startOne starts an instance of a random kind under a new ID.
func (g *program) startOne() {
	kinds := []string{"collector", "worker", "worker", "sleeper", "parent", "racer", "deployed", "mover"}
	kind := kinds[g.rnd.IntN(len(kinds))]
	n := 1 + g.rnd.IntN(6)
	id := kind + strconv.Itoa(g.next)
	g.next++
	t := &told{kind: kind, n: n, busy: true}
	g.book.Lock()
	g.instances[id] = t
	g.book.Unlock()
	d := time.Duration(g.rnd.IntN(8000)) * time.Millisecond
	g.ask(fmt.Sprintf("start %s %d %v", id, n, d), func(context.Context) {
		g.insist("start "+id, func(ctx context.Context) (err error) {
			opts := []abide.StartOption{abide.ID(id), abide.Unchecked()} // no worker may have opened yet
			switch kind {
			case "collector":
				_, err = collector.Start(ctx, g.api, collected{}, opts...)
			case "worker":
				_, err = worker.Start(ctx, g.api, n, opts...)
			case "sleeper":
				_, err = sleeper.Start(ctx, g.api, d, opts...)
			case "parent":
				_, err = parent.Start(ctx, g.api, n, opts...)
			case "deployed":
				_, err = deployed.Start(ctx, g.api, n, opts...)
			case "mover":
				_, err = mover.Start(ctx, g.api, n, opts...)
			case "racer":
				_, err = racer.Start(ctx, g.api, d, opts...)
			}
			return err
		})
		g.book.Lock()
		t.started, t.busy = true, false
		g.book.Unlock()
	})
}

// raise raises an event for an instance that receives events, started or not.
func (g *program) raise() {
	id, t := g.some("collector", "racer")
	if t == nil {
		return
	}
	v := g.next
	g.next++
	g.ask(fmt.Sprintf("raise %d for %s", v, id), func(ctx context.Context) {
		err := numbered.Raise(ctx, g.api, id, v, abide.Unchecked())
		g.book.Lock()
		defer g.book.Unlock()
		t.busy = false
		if err == nil {
			t.raised = append(t.raised, v)
		} else {
			t.maybe = append(t.maybe, v)
		}
	})
}

// control suspends, resumes, cancels, terminates or forks an instance.
func (g *program) control() {
	id, t := g.some("collector", "worker", "sleeper", "parent", "racer", "deployed", "mover")
	if t == nil {
		return
	}
	if !t.started {
		g.free(t)
		return
	}
	ref := abide.Ref{ID: id}
	verb := g.rnd.IntN(7)
	event, forked := 1+g.rnd.IntN(8), "fork"+strconv.Itoa(g.next)
	g.next++
	g.ask(fmt.Sprintf("%s %s", []string{"suspend", "suspend", "resume", "cancel", "terminate", "fork", "delete"}[verb], id), func(ctx context.Context) {
		defer g.free(t)
		switch verb {
		case 0, 1:
			g.book.Lock()
			g.suspended[id] = true
			g.book.Unlock()
			_ = g.api.Suspend(ctx, ref, "to see")
		case 2:
			_ = g.api.Resume(ctx, ref)
		case 3, 4:
			g.book.Lock()
			t.touched = true
			g.book.Unlock()
			if verb == 3 {
				_ = g.api.Cancel(ctx, ref, "to see")
			} else {
				_ = g.api.Terminate(ctx, ref, "to see")
			}
		case 5:
			if t.kind == "parent" || t.kind == "collector" || t.kind == "deployed" || t.kind == "mover" { // whose forks wait for what only the original gets
				return
			}
			_, _ = g.api.Fork(ctx, ref, event, forked)
		case 6:
			g.remove(ctx, ref, t)
		}
	})
}

// remove deletes an instance that has ended, after its result was checked.
func (g *program) remove(ctx context.Context, ref abide.Ref, t *told) {
	info, err := abide.NewClient(g.store, nil).Get(ctx, ref)
	if err != nil || !info.Status.Ended() || t.kind == "collector" || t.kind == "racer" { // events wait for those
		return
	}
	if !t.touched && info.Status == abide.Completed {
		g.checkResult(ref.ID, t, info)
	}
	g.book.Lock()
	t.touched, t.deleted = true, true
	g.book.Unlock()
	_ = g.api.Delete(ctx, ref)
}

// timer schedules or cancels a tenant timer.
func (g *program) timer() {
	tenant := []string{"acme", "solo"}[g.rnd.IntN(2)]
	key := strconv.Itoa(g.rnd.IntN(3))
	name := tenant + "/" + key
	c := &timerCall{verb: "schedule", number: g.next, began: g.clock.Now()}
	g.next++
	c.due = c.began.Add(time.Duration(g.rnd.IntN(10_000)) * time.Millisecond).Truncate(time.Millisecond)
	if g.rnd.IntN(3) == 0 {
		c.verb = "cancel"
	}
	g.book.Lock()
	defer g.book.Unlock()
	if g.timerBusy[name] {
		return
	}
	g.timerBusy[name] = true
	g.timers[name] = append(g.timers[name], c)
	go func() {
		ctx, cancel := context.WithTimeout(context.Background(), patience)
		defer cancel()
		var got timer.Timer
		var err error
		if c.verb == "cancel" {
			got, err = g.client.timers.Cancel(ctx, tenant, key)
		} else {
			payload, _ := json.Marshal(c.number)
			got, err = g.client.timers.Schedule(ctx, timer.Request{Tenant: tenant, Key: key, DueAt: c.due, Payload: payload})
		}
		g.book.Lock()
		defer g.book.Unlock()
		c.ended, c.err, c.status = g.clock.Now(), err, got.Status
		g.timerBusy[name] = false
	}()
	g.note("client: %s timer %s as %d for %v", c.verb, name, c.number, c.due.Sub(g.begun))
}

// action adds, receives, cancels or retries an action.
func (g *program) action() {
	n := g.next
	g.next++
	target := []string{"once", "again"}[g.rnd.IntN(2)]
	switch verb := g.rnd.IntN(4); verb {
	case 0, 1:
		asked := &actionAsked{idempotent: g.rnd.IntN(2) == 0, webhook: verb == 1}
		id := "action" + strconv.Itoa(n)
		asked.due = g.clock.Now().Add(time.Duration(g.rnd.IntN(8000)) * time.Millisecond).Truncate(time.Millisecond)
		g.ask(fmt.Sprintf("add %s for %s, idempotent %v, webhook %v", id, target, asked.idempotent, asked.webhook), func(context.Context) {
			g.insist("add "+id, func(ctx context.Context) (err error) {
				var a action.Action
				if asked.webhook {
					a, _, err = g.client.actions.Receive(ctx, action.Received{
						Tenant: "acme", Slug: "slug", Target: target, Delivery: id, Header: map[string]string{"Delivery": id}, Body: []byte("body of " + id),
					})
				} else {
					a, _, err = g.client.actions.Add(ctx, action.Request{Tenant: "acme", ID: id, Slug: "slug", Target: target, At: asked.due, Idempotent: asked.idempotent})
				}
				if err == nil {
					g.book.Lock()
					asked.added = true
					g.actions[a.ID] = asked
					g.book.Unlock()
				}
				return err
			})
		})
	default:
		var ids []string
		g.book.Lock()
		for i := range g.next {
			if id := "action" + strconv.Itoa(i); g.actions[id] != nil {
				ids = append(ids, id)
			}
		}
		if len(ids) == 0 {
			g.book.Unlock()
			return
		}
		id := ids[g.rnd.IntN(len(ids))]
		asked := g.actions[id]
		if verb == 2 {
			asked.cancels++
		} else {
			asked.retries++
		}
		g.book.Unlock()
		g.ask(fmt.Sprintf("%s %s", []string{2: "cancel", 3: "retry"}[verb], id), func(ctx context.Context) {
			if verb == 2 {
				_, _ = g.client.actions.Cancel(ctx, "acme", id, "to see")
			} else {
				_, _ = g.client.actions.Retry(ctx, "acme", id)
			}
		})
	}
}

// trouble kills, stops or freezes a process, or has the store's clock jump.
func (g *program) trouble() {
	serving := g.serving()
	p := serving[g.rnd.IntN(len(serving))]
	switch n := g.rnd.IntN(8); {
	case n < 3:
		p.kill()
		g.start(g.nextBuild())
	case n < 5:
		p.stop()
		g.start(g.nextBuild())
	case n < 7:
		p.freeze(time.Duration(g.rnd.IntN(int(3 * lease))))
	default:
		d := time.Duration(g.rnd.IntN(int(2 * lease)))
		g.note("the store's clock jumps by %v", d)
		g.book.Lock()
		g.jumped = true
		g.book.Unlock()
		g.clock.jump(d)
	}
}

// nextBuild returns the build of the next process: a rolling deploy, in no hurry.
func (g *program) nextBuild() string {
	return []string{oldBuild, newBuild}[g.rnd.IntN(2)]
}

// serving returns the processes that serve.
func (g *program) serving() []*process {
	var serving []*process
	for _, p := range g.procs {
		select {
		case <-p.done:
		default:
			if !p.gone() {
				serving = append(serving, p)
			}
		}
	}
	return serving
}

// calmDown ends the faults, and asks for all that is needed for everything to end.
func (g *program) calmDown() {
	g.note("the faults are over")
	g.faults = faults{}
	g.book.Lock()
	g.calm = true
	g.book.Unlock()
	for _, p := range g.serving() {
		if p.build == oldBuild {
			p.stop()
			g.start(newBuild)
		}
	}
	g.run(time.Now().Add(2*patience), g.answered)
	for _, id := range slices.Sorted(maps.Keys(g.suspended)) {
		g.ask("resume "+id, func(context.Context) {
			g.insist("resume "+id, func(ctx context.Context) error {
				err := g.api.Resume(ctx, abide.Ref{ID: id})
				// A process of the old build that is being stopped may take one more turn, and stall
				// the instance again. Those of the new build resume it then.
				if errors.Is(err, abide.ErrState) || errors.Is(err, abide.ErrNotFound) || errors.Is(err, abide.ErrStalled) {
					return nil
				}
				return err
			})
		})
	}
	g.run(time.Now().Add(2*patience), g.answered)
	for i := range g.next {
		id := "collector" + strconv.Itoa(i)
		if t := g.instances[id]; t != nil {
			g.ask("stop "+id, func(context.Context) {
				g.insist("stop "+id, func(ctx context.Context) error { return numbered.Raise(ctx, g.api, id, stopValue, abide.Unchecked()) })
			})
		}
	}
	g.run(time.Now().Add(2*patience), g.answered)
}

// answered reports whether no call of a client is under way.
func (g *program) answered() bool {
	g.book.Lock()
	defer g.book.Unlock()
	for _, busy := range g.timerBusy {
		if busy {
			return false
		}
	}
	return g.asking == 0
}
