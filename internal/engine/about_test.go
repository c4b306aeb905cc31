package engine

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"log/slog"
	"maps"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/abidehq/abide/history"
	"github.com/abidehq/abide/internal/replay"
	"github.com/abidehq/abide/store"
)

// lines is what was logged, as JSON.
type lines struct {
	mu   sync.Mutex
	text bytes.Buffer
}

func (l *lines) Write(p []byte) (int, error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.text.Write(p)
}

func (l *lines) configure(c *Config) {
	c.Logger = slog.New(slog.NewJSONHandler(l, &slog.HandlerOptions{Level: slog.LevelDebug}))
}

// find returns the first line that says so.
func (l *lines) find(r *rig, words string) map[string]any {
	r.Helper()
	l.mu.Lock()
	defer l.mu.Unlock()
	for line := range strings.Lines(l.text.String()) {
		var fields map[string]any
		r.must(json.Unmarshal([]byte(line), &fields))
		if strings.Contains(fields["msg"].(string), words) {
			return fields
		}
	}
	r.Fatalf("no line says %q:\n%s", words, l.text.String())
	return nil
}

// TestLogLinesNameTheInstance, in the same words everywhere.
func TestLogLinesNameTheInstance(t *testing.T) {
	inBubble(t, func(r *rig) {
		s, l := newTraces(r), &lines{}
		r.flow("fragile@2", func(*replay.Context, []byte) replay.Outcome { panic("oh dear") })
		r.flow("call@2", caller)
		r.act("no", func(_ context.Context, t *Task) ([]byte, *history.Failure) {
			if t.Attempt == 1 {
				return nil, failure("not now")
			}
			return nil, nil
		})
		r.flow("retry@2", func(c *replay.Context, _ []byte) replay.Outcome {
			return outcome(c, c.Activity("no", nil, history.Activity{MaxAttempts: 2}))
		})
		r.serve(s.configure, l.configure, unfused)

		errs := map[string][]error{ // by the name of what is finished
			"conflict": {store.ErrClaimLost}, "broken": {errors.New("down")},
		}
		taskErr := error(nil)
		r.tape.failing(func(tx *store.Tx) error {
			if len(tx.Finish) == 0 {
				return nil
			}
			key := tx.Finish[0].Lease.Key
			if err := taskErr; key.Queue == QueueActivities && err != nil {
				taskErr = nil
				return err
			}
			if list := errs[key.Name]; key.Queue == queueTurns && len(list) > 0 {
				errs[key.Name] = list[1:]
				return list[0]
			}
			if list := errs["control "+key.Name]; key.Queue == queueControl && len(list) > 0 {
				errs["control "+key.Name] = list[1:]
				return list[0]
			}
			return nil
		})
		start := func(id, name, input string) {
			r.Helper()
			_, err := r.Client.Start(r.Context(), Start{Ref: Ref{Tenant: "acme", ID: id}, Name: name, Version: "2", Input: []byte(input)})
			r.must(err)
			r.pass(time.Minute)
		}
		start("stalls", "fragile", "")
		start("conflict", "call", "no")
		start("broken", "call", "no")
		start("retry", "retry", "")
		taskErr = errors.New("down")
		start("commit", "call", "no")
		errs["control stalls"] = []error{errors.New("down")}
		r.must(r.Terminate(r.Context(), Ref{Tenant: "acme", ID: "stalls"}, ""))
		r.pass(time.Minute)

		for words, want := range map[string]map[string]any{
			"instance stalled":               {"instance": "stalls", "orchestration": "fragile@2"},
			"turn abandoned":                 {"instance": "conflict", "orchestration": "call@2"},
			"turn aborted by store error":    {"instance": "broken", "orchestration": "call@2"},
			"activity attempt failed":        {"instance": "retry", "orchestration": "retry@2", "activity": "no", "attempt": 1.0},
			"activity outcome not committed": {"instance": "commit", "orchestration": "call@2", "activity": "no", "attempt": 1.0},
			"control request aborted":        {"instance": "stalls", "orchestration": "fragile@2"},
		} {
			line := l.find(r, words)
			want["tenant"], want["execution"] = "acme", 1.0
			for name, value := range want {
				if line[name] != value {
					r.Errorf("%s: %s is %v, want %v", words, name, line[name], value)
				}
			}
			for name, length := range map[string]int{"trace_id": 32, "span_id": 16} {
				if id, _ := line[name].(string); len(id) != length {
					r.Errorf("%s: %s is %v", words, name, line[name])
				}
			}
		}
		stall := l.find(r, "instance stalled")
		first := s.spans()[0].SpanContext
		want(r, "span of the stall", stall["trace_id"].(string)+" "+stall["span_id"].(string), first.TraceID().String()+" "+first.SpanID().String())
	})
}

// TestLogLinesOfAnInstanceWithoutATraceNameNone, and the empty tenant has a name.
func TestLogLinesOfAnInstanceWithoutATraceNameNone(t *testing.T) {
	inBubble(t, func(r *rig) {
		l := &lines{}
		r.flow("fragile", func(*replay.Context, []byte) replay.Outcome { panic("oh dear") })
		r.serve(l.configure)
		r.begin("a", "fragile", "")
		r.until("a", Stalled)
		line := l.find(r, "instance stalled")
		want(r, "words", strings.Join(slices.Sorted(maps.Keys(line)), " "), "build execution instance level msg orchestration reason tenant time")
		want(r, "tenant", line["tenant"].(string), "default")
	})
}

// TestLogLinesOfWhatCannotBeRead name what is known all the same.
func TestLogLinesOfWhatCannotBeRead(t *testing.T) {
	inBubble(t, func(r *rig) {
		l := &lines{}
		r.flow("wait", waiter)
		r.act("echo", echo)
		r.serve(l.configure)
		r.must(r.tape.Commit(r.Context(), &store.Tx{Put: []store.Message{
			{Key: store.Key{Queue: queueTurns, Tenant: "acme", Name: "a"}, ID: "1", Route: "wait", Body: []byte("not a message")},
			{Key: store.Key{Queue: QueueActivities, Tenant: "acme", Name: "b"}, ID: "1", Route: "echo", Body: []byte("not a task")},
		}}))
		r.pass(time.Second)
		line := l.find(r, "message undecodable")
		for name, value := range map[string]string{"tenant": "acme", "instance": "a", "orchestration": "wait", "message": "1"} {
			want(r, name, line[name], any(value))
		}
		line = l.find(r, "task undecodable")
		for name, value := range map[string]string{"tenant": "acme", "task": "b", "activity": "echo"} {
			want(r, name, line[name], any(value))
		}
	})
}
