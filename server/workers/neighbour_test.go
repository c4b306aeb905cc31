package workers_test

import (
	"context"
	"fmt"
	"slices"
	"sync/atomic"
	"testing"
	"time"

	"google.golang.org/protobuf/encoding/protowire"
	"google.golang.org/protobuf/proto"
	"google.golang.org/protobuf/reflect/protoreflect"

	"github.com/abidehq/abide/history"
	"github.com/abidehq/abide/internal/check"
	"github.com/abidehq/abide/internal/engine"
	"github.com/abidehq/abide/internal/replay"
	"github.com/abidehq/abide/internal/workerpb"
)

// sinceFirst are the fields that the protocol did not have in its first release.
var sinceFirst = map[protoreflect.Name][]protoreflect.FieldNumber{
	"FromWorker":     {11},
	"ToWorker":       {11, 12, 13, 14},
	"Hello":          {20, 21, 24, 25, 26},
	"Turn":           {13},
	"Welcome":        {4},
	"Start":          {12, 13},
	"ActivityResult": {4},
}

// eventFields are those that hold events of histories.
var eventFields = []protoreflect.Name{"events", "expected", "unreceived", "did", "last", "failure"}

// each calls f for a message and those in it, and event for each event of a history in them.
func each(m protoreflect.Message, f func(protoreflect.Message), event func([]byte) []byte) {
	m.Range(func(field protoreflect.FieldDescriptor, v protoreflect.Value) bool {
		events := field.Kind() == protoreflect.BytesKind && slices.Contains(eventFields, field.Name())
		switch {
		case field.IsMap():
		case field.IsList() && field.Message() != nil:
			for i := range v.List().Len() {
				each(v.List().Get(i).Message(), f, event)
			}
		case field.IsList() && events:
			for i := range v.List().Len() {
				v.List().Set(i, protoreflect.ValueOfBytes(event(v.List().Get(i).Bytes())))
			}
		case field.Message() != nil:
			each(v.Message(), f, event)
		case events:
			m.Set(field, protoreflect.ValueOfBytes(event(v.Bytes())))
		}
		return true
	})
	f(m)
}

// adds has the messages of a release after this one: with a field that this one does not know in each message and
// each event. It counts what it has added.
func adds(n *atomic.Int64, empty func() proto.Message) func([]byte) []byte {
	unknown := func(b []byte, number protowire.Number) []byte {
		n.Add(1)
		return protowire.AppendString(protowire.AppendTag(b, number, protowire.BytesType), "later")
	}
	return func(data []byte) []byte {
		m := empty()
		return changed(data, m, func() {
			each(m.ProtoReflect(), func(m protoreflect.Message) {
				m.SetUnknown(unknown(nil, 2047))
			}, func(event []byte) []byte { return unknown(slices.Clip(event), 99) })
		})
	}
}

// strips has the messages of a release before this one: without the fields that the first one did not have. It
// counts what it has taken away.
func strips(n *atomic.Int64, empty func() proto.Message) func([]byte) []byte {
	return func(data []byte) []byte {
		m := empty()
		return changed(data, m, func() {
			each(m.ProtoReflect(), func(m protoreflect.Message) {
				for _, number := range sinceFirst[m.Descriptor().Name()] {
					if field := m.Descriptor().Fields().ByNumber(number); m.Has(field) {
						m.Clear(field)
						n.Add(1)
					}
				}
			}, func(event []byte) []byte {
				e, err := history.Parse(event)
				if err != nil {
					panic(err)
				}
				if e.Build != "" || e.HistoryEvents != 0 || e.By != "" {
					n.Add(1)
				}
				e.Build, e.HistoryEvents, e.HistoryBytes, e.Suggested, e.By, e.Discarded = "", 0, 0, false, "", false
				return history.Append(nil, &e)
			})
		})
	}
}

func fromWorker() proto.Message { return &workerpb.FromWorker{} }

func toWorker() proto.Message { return &workerpb.ToWorker{} }

// everything uses most of what code can do, in two executions.
func everything(c *replay.Context, in []byte) replay.Outcome {
	text := string(in)
	act := c.Activity("act", in, history.Activity{MaxAttempts: 3, Backoff: time.Second})
	timer := c.Timer("t", c.Now().Add(time.Minute))
	child := c.Child("plain", "", in, history.Child{})
	c.Wait(act, timer, child)
	for _, f := range []*replay.Future{act, child} {
		data, failure := f.Result()
		if failure != nil {
			return replay.Outcome{Failure: failure}
		}
		text += " " + string(data)
	}
	step, _ := c.Step("s", func(context.Context) ([]byte, *history.Failure) { return []byte("step"), nil })
	c.SetStatus("waiting")
	if c.Changed("c") {
		text += " changed"
	}
	text += " " + string(step) + " " + received(c, "go")
	if len(in) == 0 {
		return replay.Outcome{Continue: &replay.Continue{Name: "everything", Input: []byte("again:" + text)}}
	}
	return replay.Outcome{Data: []byte(text)}
}

// beating is an activity that fails once, with a heartbeat that the next attempt is told.
func beating(_ context.Context, t *engine.Task) ([]byte, *history.Failure) {
	if t.Attempt == 1 {
		if err := t.Heartbeat([]byte("beat")); err != nil {
			return nil, &history.Failure{Message: err.Error(), Final: true}
		}
		return nil, &history.Failure{Message: "once"}
	}
	details, err := t.Details()
	return fmt.Appendf(nil, "%s %v %s", details, err, t.Last.Message), nil
}

// TestNeighbouringReleases: a worker and a server of the release before or after work together: an end skips what it
// does not know, and manages without what the other one does not say.
func TestNeighbouringReleases(t *testing.T) {
	t.Parallel()
	p := func() program {
		return program{
			code: engine.Code{
				"everything": func(engine.Ref) replay.Code { return everything },
				"plain":      flow(plain),
			},
			acts:  map[string]engine.Activity{"act": beating},
			hello: &workerpb.Hello{Name: "w", Run: "r", Build: "b", Pinned: []string{"plain"}},
		}
	}
	for name, between := range map[string]func(n *atomic.Int64) wires{
		"a later worker":    func(n *atomic.Int64) wires { return wires{up: adds(n, fromWorker)} },
		"a later server":    func(n *atomic.Int64) wires { return wires{down: adds(n, toWorker)} },
		"an earlier worker": func(n *atomic.Int64) wires { return wires{up: strips(n, fromWorker)} },
		"an earlier server": func(n *atomic.Int64) wires { return wires{down: strips(n, toWorker)} },
	} {
		t.Run(name, func(t *testing.T) {
			inBubble(t, nil, func(b *bubble) {
				var n atomic.Int64
				w := between(&n)
				j := b.join(p(), w)
				check.Equal(t, "version of the server", j.welcome.GetServer(), "v0-test")
				reply, err := j.Request(b.Context(), &workerpb.Request{Starts: []*workerpb.Start{{Id: "i", Name: "everything"}}})
				check.OK(t, err)
				check.Equal(t, "problem", string(reply.GetProblem()), "")
				b.pass(5 * time.Minute)
				b.raise("i", "go", "1")
				b.pass(5 * time.Minute)
				j.gone() // the history is replayed
				j = b.join(p(), w)
				b.raise("i", "go", "2")
				check.Equal(t, "result", b.result("i"), "again: beat <nil> once plain changed step 1 beat <nil> once plain changed step 2")
				reply, err = j.Request(b.Context(), &workerpb.Request{Wait: &workerpb.Wait{Id: "i"}})
				check.OK(t, err)
				info, err := engine.DecodeInfo(reply.GetInstance())
				check.OK(t, err)
				check.Equal(t, "status", info.Status, engine.Completed)
				j.connected()
				if n.Load() == 0 {
					t.Error("nothing was changed on its way")
				}
			})
		})
	}
}
