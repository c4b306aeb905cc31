package engine

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"log/slog"
	"os"
	"slices"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/abidehq/abide/history"
	"github.com/abidehq/abide/internal/base"
	"github.com/abidehq/abide/internal/roster"
	"github.com/abidehq/abide/internal/teststore"
	"github.com/abidehq/abide/store"
)

// named has an engine show among the workers.
func named(name string) func(*Config) { return func(c *Config) { c.WorkerName = name } }

// workers returns the workers that are alive.
func (r *rig) workers() []Worker {
	r.Helper()
	workers, err := r.Workers(r.Context())
	r.must(err)
	return workers
}

// putWorker puts the record of a worker that was seen some time ago.
func (r *rig) putWorker(w Worker, ago time.Duration) {
	r.Helper()
	w.SeenAt = time.Now().Add(-ago)
	r.must(r.tape.Store.Commit(r.Context(), &store.Tx{PutRecords: []store.PutRecord{w.Put()}}))
}

// TestWorkerShows who it is, what it serves and how busy it is, for as long as it runs.
func TestWorkerShows(t *testing.T) {
	inBubble(t, func(r *rig) {
		began := time.Now()
		r.flow("flow", caller)
		r.flow("flow@2", caller)
		free := make(chan struct{})
		r.act("wait", func(context.Context, *Task) ([]byte, *history.Failure) {
			<-free
			return nil, nil
		})
		r.act("echo", echo)
		r.serve(named("till"))
		r.pass(0)
		host, err := os.Hostname()
		r.must(err)
		got := r.workers()
		if len(got) != 1 {
			r.Fatalf("workers: %+v", got)
		}
		w := got[0]
		if w.ID == "" || w.Name != "till" || w.Host != host || w.PID != os.Getpid() || w.Turns != 0 || w.Running != 0 {
			r.Errorf("worker: %+v", w)
		}
		if !w.StartedAt.Equal(began) || !w.SeenAt.Equal(began) {
			r.Errorf("started at %v, seen at %v, want %v", w.StartedAt, w.SeenAt, began)
		}
		if !slices.Equal(w.Routes, []string{"flow", "flow@2"}) || !slices.Equal(w.Activities, []string{"echo", "wait"}) {
			r.Errorf("serves %v and %v", w.Routes, w.Activities)
		}
		for _, id := range []string{"a", "b", "c"} {
			r.begin(id, "flow", "wait")
		}
		r.pass(roster.Every)
		w = r.workers()[0]
		want(r, "activities under way", w.Running, 3)
		want(r, "turns under way", w.Turns, 0)
		want(r, "seen after", w.SeenAt.Sub(began), roster.Every)
		want(r, "started", w.StartedAt.Equal(began), true)
		close(free)
		r.result("a")
		r.pass(10*roster.Every + time.Second)
		want(r, "ID", r.workers()[0].ID, w.ID)
		want(r, "records", r.records(roster.Kind), 1)
		puts := 0
		for _, tx := range r.tape.commits() {
			if len(tx.PutRecords) == 1 && tx.PutRecords[0].Record.Key.Kind == roster.Kind {
				puts++
			}
		}
		want(r, "times that it said so", puts, 12)
		r.shut()
		want(r, "records in the end", r.records(roster.Kind), 0)
	})
}

// TestWorkerWithoutNameDoesNotShow, and costs nothing.
func TestWorkerWithoutNameDoesNotShow(t *testing.T) {
	inBubble(t, func(r *rig) {
		r.flow("flow", waiter)
		r.serve()
		r.pass(time.Hour)
		want(r, "workers", len(r.workers()), 0)
		want(r, "commits", len(r.tape.commits()), 0)
	})
}

// TestWorkerDrains: it shows until the last activity has come to its end.
func TestWorkerDrains(t *testing.T) {
	inBubble(t, func(r *rig) {
		r.flow("flow", caller)
		r.act("long", func(context.Context, *Task) ([]byte, *history.Failure) {
			<-time.After(10 * time.Minute)
			return nil, nil
		})
		r.serve(named("till"))
		r.begin("a", "flow", "long")
		r.pass(time.Second)
		closed := make(chan error)
		go func() {
			ctx, cancel := context.WithTimeout(context.Background(), time.Hour)
			defer cancel()
			closed <- r.Engine.Close(ctx)
		}()
		r.pass(5 * time.Minute)
		if got := r.workers(); len(got) != 1 || got[0].Running != 1 {
			r.Errorf("while it drains: %+v", got)
		}
		r.must(<-closed)
		want(r, "records", r.records(roster.Kind), 0)
	})
}

// TestWorkerIsDrained: a request that another process has put in its record reaches a worker with its next
// report. It ends what is under way, claims nothing more, counts as serving nothing, and is still a client.
func TestWorkerIsDrained(t *testing.T) {
	inBubble(t, func(r *rig) {
		r.flow("flow", caller)
		free := make(chan struct{})
		r.act("wait", func(context.Context, *Task) ([]byte, *history.Failure) {
			<-free
			return []byte(`"done"`), nil
		})
		r.serve(named("till"))
		r.begin("a", "flow", "wait")
		r.pass(time.Second)
		w := r.workers()[0]
		want(r, "slots", fmt.Sprint(w.TurnSlots, w.RunSlots), fmt.Sprint(r.Engine.cfg.MaxTurns, r.Engine.cfg.MaxActivities))
		held, err := r.Held(r.Context(), w.ID)
		r.must(err)
		if len(held) != 1 || !held[0].Activity || held[0].Route != "wait" || held[0].Ref.ID != "a" {
			r.Errorf("held: %+v", held)
		}
		rec, err := r.tape.Get(r.Context(), w.Put().Record.Key)
		r.must(err)
		w = roster.Parse(rec)
		w.State = roster.Asked
		r.must(r.tape.Store.Commit(r.Context(), &store.Tx{PutRecords: []store.PutRecord{w.Put()}}))
		r.pass(roster.Every)
		w = r.workers()[0]
		want(r, "state", w.State, roster.Draining)
		want(r, "under way", w.Running, 1)
		r.begin("b", "flow", "wait")
		r.pass(time.Minute)
		select {
		case <-r.Engine.Drained():
			r.Error("drained while an activity is under way")
		default:
		}
		close(free)
		r.pass(time.Second)
		<-r.Engine.Drained()
		want(r, "under way in the end", r.workers()[0].Running, 0)
		info, err := r.Get(r.Context(), Ref{ID: "b"})
		r.must(err)
		want(r, "status of what was started since", info.Status, Pending)
		rows, err := r.Unserved(r.Context())
		r.must(err)
		want(r, "unserved", len(rows), 1)
	})
}

// TestDrainIsHeededAtOnce by a worker of the same process, and is refused for one that cannot do it or is gone.
func TestDrainIsHeededAtOnce(t *testing.T) {
	inBubble(t, func(r *rig) {
		r.flow("flow", caller)
		r.serve(named("till"))
		r.pass(time.Second)
		w := r.workers()[0]
		r.must(r.DrainWorker(r.Context(), w.ID))
		r.pass(0)
		<-r.Engine.Drained()
		want(r, "state", r.workers()[0].State, roster.Drained)
		r.must(r.DrainWorker(r.Context(), w.ID)) // once more
		r.putWorker(Worker{ID: "loop", Targets: []string{"run"}, RunSlots: 1}, 0)
		r.putWorker(Worker{ID: "old"}, 0)
		r.putWorker(Worker{ID: "gone", RunSlots: 1}, 2*roster.Alive)
		for id, want := range map[string]error{"loop": ErrState, "old": ErrState, "gone": ErrNotFound, "nobody": ErrNotFound} {
			if err := r.DrainWorker(r.Context(), id); !errors.Is(err, want) {
				r.Errorf("%s: %v", id, err)
			}
		}
	})
}

// TestWorkersByTheStoresClock: who was seen within a minute is alive, and who was not for
// an hour is forgotten.
func TestWorkersByTheStoresClock(t *testing.T) {
	inBubble(t, func(r *rig) {
		r.serve()
		r.putWorker(Worker{ID: "now"}, 0)
		r.putWorker(Worker{ID: "just"}, roster.Alive)
		r.putWorker(Worker{ID: "late"}, roster.Alive+time.Millisecond)
		r.putWorker(Worker{ID: "kept"}, roster.Gone)
		r.putWorker(Worker{ID: "gone"}, roster.Gone+time.Millisecond)
		r.putWorker(Worker{ID: "long gone"}, 1000*time.Hour)
		var ids []string
		for _, w := range r.workers() {
			ids = append(ids, w.ID)
		}
		if !slices.Equal(ids, []string{"just", "now"}) {
			r.Errorf("alive: %q", ids)
		}
		want(r, "records", r.records(roster.Kind), 4)
		r.pass(2 * roster.Gone)
		want(r, "workers", len(r.workers()), 0)
		want(r, "records after that", r.records(roster.Kind), 0)
	})
}

// TestWorkerWhoseClockIsWrong is seen all the same.
func TestWorkerWhoseClockIsWrong(t *testing.T) {
	inBubble(t, func(r *rig) {
		r.serve(named("till"), func(c *Config) { c.Clock = skewed{-24 * time.Hour} })
		r.pass(time.Hour)
		got := r.workers()
		if len(got) != 1 || time.Since(got[0].SeenAt) > roster.Every {
			r.Errorf("workers: %+v", got)
		}
	})
}

type skewed struct{ by time.Duration }

func (c skewed) Now() time.Time { return time.Now().Add(c.by) }
func (skewed) AfterFunc(d time.Duration, f func()) func() bool {
	return base.System{}.AfterFunc(d, f)
}

// TestWorkerThatCannotSaySo goes on, logs that, a line a minute, and when it can again.
func TestWorkerThatCannotSaySo(t *testing.T) {
	inBubble(t, func(r *rig) {
		var log bytes.Buffer
		r.flow("flow", waiter)
		var broken atomic.Bool
		r.tape.failing(func(tx *store.Tx) error {
			if broken.Load() && len(tx.PutRecords) == 1 && tx.PutRecords[0].Record.Key.Kind == roster.Kind {
				return errBroken
			}
			return nil
		})
		broken.Store(true)
		r.serve(named("till"), func(c *Config) { c.Logger = slog.New(slog.NewTextHandler(&log, nil)) })
		r.pass(10 * roster.Every)
		want(r, "workers", len(r.workers()), 0)
		want(r, "lines", strings.Count(log.String(), "\n"), 1+3)
		r.begin("a", "flow", "")
		r.raise("a", "go", "x")
		want(r, "result", r.result("a"), "x")
		broken.Store(false)
		r.pass(roster.Every)
		want(r, "workers", len(r.workers()), 1)
		for _, words := range []string{"level=WARN", errBroken.Error(), "level=INFO"} {
			if !strings.Contains(log.String(), words) {
				r.Errorf("the log does not say %q: %s", words, log.String())
			}
		}
	})
}

// TestUnservedByWorkers: what a worker serves that is alive is served, and what this engine
// serves as well.
func TestUnservedByWorkers(t *testing.T) {
	inBubble(t, func(r *rig) {
		r.flow("ours", caller)
		r.serve()
		for _, name := range []string{"theirs", "dead", "nobodys"} {
			r.begin(name, name, "")
		}
		r.begin("ours", "ours", "mail")
		r.begin("ours2", "ours", "print")
		r.pass(0)
		r.putWorker(Worker{ID: "alive", Routes: []string{"theirs"}, Activities: []string{"mail", "nobodys"}}, 0)
		r.putWorker(Worker{ID: "dead", Routes: []string{"dead"}}, 2*roster.Alive)
		unserved := func(c *Client, routes ...string) string {
			rows, err := c.Unserved(r.Context(), routes, nil)
			r.must(err)
			var names []string
			for _, row := range rows {
				names = append(names, row.Queue+"/"+row.Route)
			}
			return strings.Join(names, " ")
		}
		want(r, "unserved", unserved(r.Client, "ours"), "activities/print turns/dead turns/nobodys")
		r.begin("later", "later", "", func(s *Start) { s.After = time.Second })
		want(r, "before it is due", unserved(NewClient(r.tape, base.System{})), "activities/print turns/dead turns/nobodys")
		r.pass(time.Second)
		want(r, "when it is due", unserved(NewClient(r.tape, base.System{})), "activities/print turns/dead turns/later turns/nobodys")
		r.must(r.Terminate(r.Context(), Ref{ID: "later"}, ""))
		r.pass(time.Second)
		rows, err := r.Unserved(r.Context())
		r.must(err)
		want(r, "to the engine", len(rows), 3)

		// Actions are put by others; the names of their targets are their routes.
		for _, target := range []string{"run", "deploy"} {
			r.must(r.tape.Store.Commit(r.Context(), &store.Tx{Put: []store.Message{{
				Key: store.Key{Queue: roster.QueueActions, Name: target}, ID: "1", Route: target, VisibleAt: time.Now().Add(time.Hour),
			}}}))
		}
		r.putWorker(Worker{ID: "loop", Targets: []string{"run", "dead"}}, 0)
		want(r, "with targets", unserved(r.Client, "ours"), "actions/deploy activities/print turns/dead turns/nobodys")

		// So are schedules, and the JSON of their records names the target.
		schedule := func(id, status, body string) {
			r.must(r.tape.Store.Commit(r.Context(), &store.Tx{PutRecords: []store.PutRecord{{
				Expect: store.AnyVersion,
				Record: store.Record{Key: store.RecordKey{Kind: roster.KindSchedule, Tenant: "acme", ID: id}, Status: status, Body: []byte(body)},
			}}}))
		}
		for i := range 101 { // more than a page
			schedule(fmt.Sprint("nightly", i), roster.ActiveSchedule, `{"format":1,"target":"nightly"}`)
		}
		schedule("deploy", roster.ActiveSchedule, `{"format":1,"target":"deploy"}`)
		schedule("served", roster.ActiveSchedule, `{"format":1,"target":"run"}`)
		schedule("paused", "paused", `{"format":1,"target":"never"}`)
		schedule("damaged", roster.ActiveSchedule, `{`)
		want(r, "with schedules", unserved(r.Client, "ours"), "actions/deploy activities/print turns/dead turns/nobodys actions/nightly")
		rows, err = r.Unserved(r.Context())
		r.must(err)
		got := map[string]string{}
		for _, row := range rows {
			got[row.Route] = fmt.Sprint(row.Pending, " messages, ", row.Schedules, " schedules")
		}
		want(r, "of schedules alone", got["nightly"], "0 messages, 101 schedules")
		want(r, "of both", got["deploy"], "1 messages, 1 schedules")
		want(r, "of activities", got["print"], "1 messages, 0 schedules")
	})
}

// TestManyWorkers are all there, page after page.
func TestManyWorkers(t *testing.T) {
	inBubble(t, func(r *rig) {
		r.serve()
		for i := range 2*roster.Page + 1 {
			r.putWorker(Worker{ID: unique()}, time.Duration(i)*time.Millisecond)
		}
		want(r, "workers", len(r.workers()), 2*roster.Page+1)
	})
}

// TestWorkersOfAClosedStore is an error.
func TestWorkersOfAClosedStore(t *testing.T) {
	t.Parallel()
	s := teststore.New(t)
	c := NewClient(s, base.System{})
	_ = s.Close()
	if _, err := c.Workers(t.Context()); !errors.Is(err, store.ErrClosed) {
		t.Errorf("workers: %v", err)
	}
	if _, err := c.Unserved(t.Context(), nil, nil); !errors.Is(err, store.ErrClosed) {
		t.Errorf("unserved: %v", err)
	}
}
