package workers_test

import (
	"context"
	"sync"
	"testing"
	"testing/synctest"

	"google.golang.org/protobuf/proto"
	"google.golang.org/protobuf/reflect/protoreflect"

	"github.com/abidehq/abide/history"
	"github.com/abidehq/abide/internal/check"
	"github.com/abidehq/abide/internal/engine"
	"github.com/abidehq/abide/internal/workerpb"
)

// tally counts what passes a connection: what is ready at the same time shares a message.
type tally struct {
	mu sync.Mutex
	by map[string]int
}

func (l *tally) wires() wires {
	note := func(way string, m proto.Message) func([]byte) []byte {
		return func(data []byte) []byte {
			m := m.ProtoReflect().New()
			if err := proto.Unmarshal(data, m.Interface()); err != nil {
				panic(err)
			}
			l.mu.Lock()
			defer l.mu.Unlock()
			m.Range(func(f protoreflect.FieldDescriptor, v protoreflect.Value) bool {
				n := 1
				if f.IsList() {
					n = v.List().Len()
				}
				l.by[way+string(f.Name())] += n
				return true
			})
			return data
		}
	}
	return wires{up: note("up ", &workerpb.FromWorker{}), down: note("down ", &workerpb.ToWorker{})}
}

// take returns what was counted, and begins again.
func (l *tally) take() map[string]int {
	l.mu.Lock()
	defer l.mu.Unlock()
	by := l.by
	l.by = map[string]int{}
	return by
}

// TestMessagesOfAHello: an instance with one activity, which its worker starts, takes eight messages if it is alone: a
// request, two turns and an attempt, each with its answer. The history of a new instance is not sent: there is none.
func TestMessagesOfAHello(t *testing.T) {
	act := func(_ context.Context, t *engine.Task) ([]byte, *history.Failure) { return t.Input, nil }
	inBubble(t, nil, func(b *bubble) {
		l := tally{by: map[string]int{}}
		j := b.join(program{code: engine.Code{"hello": flow(calling)}, acts: map[string]engine.Activity{"act": act}}, l.wires())
		check.Equal(t, "the first messages", l.take(), map[string]int{"up hello": 1, "down welcome": 1})
		_, err := j.Request(b.Context(), &workerpb.Request{Starts: []*workerpb.Start{{Id: "i", Name: "hello", Input: []byte("x")}}})
		check.OK(t, err)
		check.Equal(t, "result", b.result("i"), "x")
		synctest.Wait()
		check.Equal(t, "messages", l.take(), map[string]int{
			"up requests": 1, "down replies": 1, "down turns": 2, "up turns": 2, "down activities": 1, "up activities": 1,
		})
	})
}
