package workers_test

import (
	"context"
	"fmt"
	"testing"
	"time"

	"google.golang.org/protobuf/proto"

	"github.com/abidehq/abide/history"
	"github.com/abidehq/abide/internal/check"
	"github.com/abidehq/abide/internal/engine"
	"github.com/abidehq/abide/internal/replay"
	"github.com/abidehq/abide/internal/workerpb"
)

// laterKind is a kind of event, and laterVersion a version of the wire format, that this release does not know.
const (
	laterKind    = 1_000
	laterVersion = 2
)

// down changes messages to a worker.
func down(change func(m *workerpb.ToWorker)) func([]byte) []byte {
	return func(data []byte) []byte {
		m := &workerpb.ToWorker{}
		return changed(data, m, func() { change(m) })
	}
}

// up changes messages to a server.
func up(change func(m *workerpb.FromWorker)) func([]byte) []byte {
	return func(data []byte) []byte {
		m := &workerpb.FromWorker{}
		return changed(data, m, func() { change(m) })
	}
}

func changed(data []byte, m proto.Message, change func()) []byte {
	if err := proto.Unmarshal(data, m); err != nil {
		panic(err)
	}
	change()
	data, err := proto.Marshal(m)
	if err != nil {
		panic(err)
	}
	return data
}

// ofALaterRelease gives events of a kind, and with a name, one that this release does not know.
func ofALaterRelease(events [][]byte, kind history.Kind, name string) {
	for i, data := range events {
		e, err := history.Parse(data)
		if err == nil && e.Kind == kind && e.Name == name {
			e.Kind = laterKind
			events[i] = history.Append(nil, &e)
		}
	}
}

// received waits for an event.
func received(c *replay.Context, name string) string {
	f := c.Receive(name)
	c.Wait(f)
	data, _ := f.Result()
	return string(data)
}

// twoEvents waits for two events, and returns what comes with them.
func twoEvents(c *replay.Context, _ []byte) ([]byte, *history.Failure) {
	return fmt.Appendf(nil, "%s %s", received(c, "go"), received(c, "stop")), nil
}

// calling calls an activity.
func calling(c *replay.Context, in []byte) ([]byte, *history.Failure) {
	f := c.Activity("act", in, history.Activity{MaxAttempts: 3, Backoff: time.Second})
	c.Wait(f)
	return f.Result()
}

// failsOnce is an activity whose first attempt fails, and which returns how many it took.
func failsOnce(_ context.Context, t *engine.Task) ([]byte, *history.Failure) {
	if t.Attempt == 1 {
		return nil, &history.Failure{Message: "once"}
	}
	return fmt.Append(nil, t.Attempt), nil
}

// counter is an entity that counts its operations.
func counter(_ context.Context, b *engine.EntityBatch) (*engine.EntityOutcome, error) {
	out := &engine.EntityOutcome{State: fmt.Append(b.State, len(b.Operations))}
	for range b.Operations {
		out.Results = append(out.Results, engine.EntityResult{Failure: &history.Failure{Message: "no"}})
	}
	return out, nil
}

// asking calls the entity.
func asking(c *replay.Context, _ []byte) ([]byte, *history.Failure) {
	f := c.CallEntity("@counter@a", "add", nil)
	c.Wait(f)
	_, failure := f.Result()
	return []byte(failure.Message), nil
}

// plain does nothing that anybody changes on its way.
func plain(*replay.Context, []byte) ([]byte, *history.Failure) { return []byte("plain"), nil }

func panics(*replay.Context, []byte) ([]byte, *history.Failure) { panic("broken") }

// whole is a program of this release.
func whole() program {
	return program{
		code:     engine.Code{"events": flow(twoEvents), "calls": flow(calling), "asks": flow(asking), "plain": flow(plain)},
		acts:     map[string]engine.Activity{"act": failsOnce},
		entities: map[string]engine.EntityCode{"counter": counter},
	}
}

// outdatedCases are what an end of a connection sends that the other one does not know.
var outdatedCases = map[string]struct {
	wires  wires
	broken bool   // code of the worker that is changed panics
	name   string // of the orchestration
	want   string
	says   string
}{
	"an event for the worker": {
		wires: wires{down: down(func(m *workerpb.ToWorker) {
			for _, t := range m.GetTurns() {
				ofALaterRelease(t.GetEvents(), history.EventReceived, "stop")
			}
		})},
		name: "events", want: "1 2", says: "has kind 1000",
	},
	"an event of the history, for the worker": {
		wires: wires{down: down(func(m *workerpb.ToWorker) {
			for _, t := range m.GetTurns() {
				ofALaterRelease(t.GetEvents(), history.EventReceived, "go")
			}
		})},
		name: "events", want: "1 2", says: "has kind 1000",
	},
	"a failure for the worker": {
		wires: wires{down: down(func(m *workerpb.ToWorker) {
			for _, a := range m.GetActivities() {
				if len(a.GetLast()) > 0 {
					a.Last[0] = laterVersion
				}
			}
		})},
		name: "calls", want: "2", says: "version 2, this program reads version 1",
	},
	"what code did": {
		wires: wires{up: up(func(m *workerpb.FromWorker) {
			for _, t := range m.GetTurns() {
				ofALaterRelease(t.GetEvents(), history.ActivityScheduled, "act")
			}
		})},
		name: "calls", want: "2", says: "has kind 1000",
	},
	"an error of code": {
		wires: wires{up: up(func(m *workerpb.FromWorker) {
			for _, t := range m.GetTurns() {
				if t.GetError() != nil {
					t.Error.Kind = 99
				}
			}
		})},
		broken: true, name: "calls", want: "2", says: "error of the unknown kind 99",
	},
	"a failure of an activity": {
		wires: wires{up: up(func(m *workerpb.FromWorker) {
			for _, a := range m.GetActivities() {
				if len(a.GetFailure()) > 0 {
					a.Failure[0] = laterVersion
				}
			}
		})},
		name: "calls", want: "2", says: "version 2, this program reads version 1",
	},
	"a failure of an operation": {
		wires: wires{up: up(func(m *workerpb.FromWorker) {
			for _, e := range m.GetEntities() {
				for _, r := range e.GetResults() {
					r.Failure[0] = laterVersion
				}
			}
		})},
		name: "asks", want: "no", says: "version 2, this program reads version 1",
	},
}

// TestOutdatedEnd: what one end of a connection does not know, because the other one is of a later release, is left
// to other workers, however long that takes. It is said once in a while, stalls nothing and does not count, and the
// session goes on.
func TestOutdatedEnd(t *testing.T) {
	t.Parallel()
	for name, c := range outdatedCases {
		t.Run(name, func(t *testing.T) {
			inBubble(t, nil, func(b *bubble) {
				if c.name == "events" { // there is a history
					first := b.join(whole(), wires{})
					b.begin("i", c.name, "")
					b.raise("i", "go", "1")
					b.pass(0)
					first.gone()
					b.raise("i", "stop", "2")
				} else {
					b.begin("i", c.name, "")
				}
				p := whole()
				if c.broken {
					p.code[c.name] = flow(panics)
				}
				old := b.join(p, c.wires)
				said := func() int { return len(b.lines.with("claim left to a later release", c.says)) }
				b.pass(engine.DefaultUnknown / 2)
				check.Equal(t, "lines of the log", said(), 1)
				b.pass(engine.DefaultUnknown)
				check.Equal(t, "lines of the log after ten more minutes", said(), 2)
				if status := b.info("i").Status; status != engine.Running && status != engine.Pending {
					t.Errorf("the instance is %s: %s", status, b.info("i").Reason)
				}
				old.connected()
				b.begin("other", "plain", "")
				check.Equal(t, "result of another instance", b.result("other"), "plain")
				b.join(whole(), wires{})
				check.Equal(t, "result", b.result("i"), c.want)
				old.connected()
				check.Equal(t, "executions in its memory", old.Load().Cached, 0)
			})
		})
	}
}
