package remote_test

import (
	"context"
	"errors"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/abidehq/abide"
	"github.com/abidehq/abide/internal/check"
	"github.com/abidehq/abide/internal/rig"
	"github.com/abidehq/abide/remote"
	"github.com/abidehq/abide/server"
)

// far runs f with a client of a server.
func far(t *testing.T, cfg abide.Config, f func(s *stage)) {
	t.Helper()
	t.Parallel()
	onStage(t, cfg, true, f)
}

// rig has something between the network and the server.
func (s *stage) rig(between func(w http.ResponseWriter, r *http.Request, next http.Handler)) {
	s.Helper()
	h, err := server.New(server.Config{Store: s.store, Engine: s.engine})
	check.OK(s.T, err)
	s.net.stop()
	s.net.start(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) { between(w, r, h) }))
}

func TestAWaitOutlivesConnectionsAndServers(t *testing.T) {
	event := abide.NewEvent[string]("e")
	flow := abide.NewOrchestration("flow", func(ctx abide.Context, _ abide.None) (string, error) { return event.Wait(ctx) })
	far(t, abide.Config{Register: []abide.Definition{flow}}, func(s *stage) {
		i, err := flow.Start(s.Context(), s, abide.None{}, abide.ID("i"))
		check.OK(s.T, err)
		result := make(chan string, 1)
		go func() {
			got, err := i.Result(s.month())
			if err != nil {
				got = err.Error()
			}
			result <- got
		}()
		rig.Pass(10 * time.Second)
		s.net.cut()
		rig.Pass(10 * time.Minute)
		s.net.stop()
		rig.Pass(time.Hour)
		tried := s.net.count()
		if tried < 100 || tried > 2000 {
			s.Errorf("the server was tried %d times in an hour", tried)
		}
		s.serve()
		rig.Pass(10 * time.Second)
		check.OK(s.T, event.Raise(s.Context(), s, "i", "at last"))
		select {
		case got := <-result:
			check.Equal(s.T, "result", got, "at last")
		case <-time.After(time.Minute):
			s.Error("it still waits")
		}
		check.Equal(s.T, "tries while it could wait", s.net.count()-tried < 10, true)
	})
}

func TestAServerThatNeverAnsweredIsNotWaitedFor(t *testing.T) {
	far(t, abide.Config{}, func(s *stage) {
		s.net.setDown(true)
		begin := time.Now()
		flow := abide.OrchestrationNamed[int, int]("flow")
		_, err := s.WaitChange(s.Context(), abide.Ref{ID: "i"}, 1)
		check.Error(s.T, err, remote.ErrUnreachable)
		_, err = flow.Start(s.Context(), s, 1)
		check.Error(s.T, err, remote.ErrUnreachable)
		for _, err := range s.Client.Changes(s.Context(), "") {
			check.Error(s.T, err, remote.ErrUnreachable)
		}
		check.Equal(s.T, "time", time.Since(begin), 0)
		ended, cancel := context.WithCancel(s.Context())
		cancel()
		_, err = s.WaitChange(ended, abide.Ref{ID: "i"}, 1)
		check.Error(s.T, err, context.Canceled)
	})
}

// TestAStartIsTriedAgain: when its answer is lost, and starts one instance all the same.
func TestAStartIsTriedAgain(t *testing.T) {
	var runs atomic.Int32
	flow := abide.NewOrchestration("flow", func(ctx abide.Context, in int) (int, error) {
		_, err := abide.Step(ctx, "count", func(context.Context) (int32, error) { return runs.Add(1), nil })
		return in, err
	})
	far(t, abide.Config{Register: []abide.Definition{flow}}, func(s *stage) {
		var lose, posts atomic.Int32
		s.rig(func(w http.ResponseWriter, r *http.Request, next http.Handler) {
			if r.Method != http.MethodPost {
				next.ServeHTTP(w, r)
				return
			}
			posts.Add(1)
			answer := httptest.NewRecorder()
			next.ServeHTTP(answer, r)
			if lose.Add(-1) >= 0 {
				<-time.After(time.Second) // so that the instance has ended
				panic(http.ErrAbortHandler)
			}
			w.Header().Set("Content-Type", answer.Header().Get("Content-Type"))
			w.WriteHeader(answer.Code)
			_, _ = w.Write(answer.Body.Bytes())
		})
		_, err := s.List(s.Context(), abide.Filter{}) // it is there
		check.OK(s.T, err)
		for n, tt := range []struct {
			what string
			opts []abide.StartOption
			runs int32
		}{
			{"plain", nil, 1},
			{"rejects", []abide.StartOption{abide.RejectExisting()}, 1},
			{"replaces", []abide.StartOption{abide.ReplaceEnded()}, 1},
		} {
			runs.Store(0)
			posts.Store(0)
			lose.Store(2)
			i, err := flow.Start(s.Context(), s, n, append(tt.opts, abide.ID(tt.what))...)
			check.OK(s.T, err)
			got, err := i.Result(s.month())
			check.OK(s.T, err)
			synctest.Wait()
			check.Equal(s.T, tt.what, got, n)
			check.Equal(s.T, tt.what+": runs", runs.Load(), tt.runs)
			check.Equal(s.T, tt.what+": tries", posts.Load(), 3)
		}
		// Not without end.
		posts.Store(0)
		lose.Store(1000)
		_, err = flow.Start(s.Context(), s, 1)
		check.Error(s.T, err, remote.ErrUnreachable)
		check.Equal(s.T, "tries", posts.Load(), 4)
		// What cannot be told from another one is tried once.
		for name, call := range map[string]func() error{
			"raise":  func() error { return abide.NewEvent[int]("e").Raise(s.Context(), s, "i", 1) },
			"cancel": func() error { return s.Cancel(s.Context(), abide.Ref{ID: "i"}, "") },
		} {
			posts.Store(0)
			if err := call(); !errors.Is(err, remote.ErrUnreachable) || posts.Load() != 1 {
				s.Errorf("%s: %v after %d tries", name, err, posts.Load())
			}
		}
	})
}

// TestAConnectionThatSaysNothingIsBroken, also if nobody says that it is.
func TestAConnectionThatSaysNothingIsBroken(t *testing.T) {
	flow := abide.NewOrchestration("flow", func(ctx abide.Context, _ abide.None) (int, error) { return 7, abide.Sleep(ctx, time.Hour) })
	far(t, abide.Config{Register: []abide.Definition{flow}}, func(s *stage) {
		var dead atomic.Bool
		s.rig(func(w http.ResponseWriter, r *http.Request, next http.Handler) {
			if dead.Load() {
				if strings.HasSuffix(r.URL.Path, "/stream") {
					w.WriteHeader(http.StatusOK)
					_ = http.NewResponseController(w).Flush()
				}
				<-r.Context().Done()
				return
			}
			next.ServeHTTP(w, r)
		})
		i, err := flow.Start(s.Context(), s, abide.None{})
		check.OK(s.T, err)
		dead.Store(true)
		done := make(chan error, 1)
		go func() {
			_, err := i.Result(s.month())
			done <- err
		}()
		rig.Pass(2 * time.Hour)
		dead.Store(false)
		select {
		case err := <-done:
			check.OK(s.T, err)
		case <-time.After(2 * time.Minute):
			s.Error("it still waits for an answer")
		}
	})
}

// changes collects what a watcher says until the context ends.
type changes struct {
	mu   sync.Mutex
	seen []string
	last string
	err  error
	done chan struct{}
}

func follow(ctx context.Context, w abide.Watcher, after string) *changes {
	c := &changes{done: make(chan struct{})}
	list := w.Changes(ctx, after)
	go func() {
		defer close(c.done)
		for change, err := range list {
			c.mu.Lock()
			c.err = err
			if err == nil {
				text := change.Ref.Tenant + "/" + change.Ref.ID + " " + string(change.Status)
				if change.Deleted {
					text += "deleted"
				}
				c.seen, c.last = append(c.seen, text), change.Cursor
			}
			c.mu.Unlock()
		}
	}()
	return c
}

func (c *changes) get() (seen, last string, err error) {
	c.mu.Lock()
	defer c.mu.Unlock()
	return strings.Join(c.seen, ", "), c.last, c.err
}

func TestChanges(t *testing.T) {
	flow := abide.NewOrchestration("flow", func(ctx abide.Context, _ abide.None) (int, error) { return 7, abide.Sleep(ctx, time.Hour) })
	both(t, []abide.Definition{flow}, func(s *stage) {
		ctx, cancel := context.WithCancel(s.Context())
		defer cancel()
		c := follow(ctx, s.Client, "")
		synctest.Wait()
		start := func(id string) {
			_, err := flow.Start(s.Context(), s, abide.None{}, abide.ID(id), abide.Tenant("acme"), abide.StartAfter(time.Minute))
			check.OK(s.T, err)
			rig.Pass(time.Second)
		}
		start("a")
		if s.net != nil {
			s.net.cut()
		}
		start("b")
		if s.net != nil { // the server is restarted, and the engine is not
			s.net.stop()
		}
		_, err := flow.Start(s.Context(), s.engine, abide.None{}, abide.ID("c"), abide.StartAfter(time.Minute))
		check.OK(s.T, err)
		rig.Pass(30 * time.Second)
		if s.net != nil {
			s.serve()
		}
		rig.Pass(30 * time.Minute)
		check.OK(s.T, s.Terminate(s.Context(), abide.Ref{Tenant: "acme", ID: "a"}, ""))
		rig.Pass(time.Second)
		check.OK(s.T, s.Delete(s.Context(), abide.Ref{Tenant: "acme", ID: "a"}))
		rig.Pass(time.Second)
		const want = "acme/a pending, acme/b pending, default/c pending, acme/a running, acme/b running, default/c running, acme/a terminated, acme/a deleted"
		got, last, err := c.get()
		check.OK(s.T, err)
		check.Equal(s.T, "changes", got, want)
		rig.Pass(24 * time.Hour)
		got, _, err = c.get()
		check.OK(s.T, err)
		check.Equal(s.T, "changes", strings.TrimPrefix(got, want), ", acme/b completed, default/c completed")
		again := follow(ctx, s.Client, last)
		rig.Pass(time.Second)
		got, _, err = again.get()
		check.OK(s.T, err)
		check.Equal(s.T, "changes after a cursor", got, "acme/b completed, default/c completed")
		bad := follow(ctx, s.Client, "x-1")
		<-bad.done
		_, _, err = bad.get()
		check.Error(s.T, err, abide.ErrMissed)
		cancel()
		<-c.done
		_, _, err = c.get()
		check.OK(s.T, err)
	})
}

// TestChangesThatCannotBeFoundAgainAreMissed: there was no change yet by which the place
// could be named.
func TestChangesThatCannotBeFoundAgainAreMissed(t *testing.T) {
	far(t, abide.Config{}, func(s *stage) {
		c := follow(s.Context(), s.Client, "")
		rig.Pass(time.Minute)
		s.net.cut()
		<-c.done
		_, _, err := c.get()
		check.Error(s.T, err, abide.ErrMissed)
	})
}

func TestAStreamThatSaysNothingIsMadeAgain(t *testing.T) {
	flow := abide.NewOrchestration("flow", echo[int])
	far(t, abide.Config{Register: []abide.Definition{flow}}, func(s *stage) {
		var dead atomic.Bool
		s.rig(func(w http.ResponseWriter, r *http.Request, next http.Handler) {
			if dead.Load() && strings.HasSuffix(r.URL.Path, "/stream") {
				w.WriteHeader(http.StatusOK)
				_ = http.NewResponseController(w).Flush()
				<-r.Context().Done()
				return
			}
			next.ServeHTTP(w, r)
		})
		ctx, cancel := context.WithCancel(s.Context())
		defer cancel()
		c := follow(ctx, s.Client, "")
		synctest.Wait()
		start := func(id string) {
			_, err := flow.Start(s.Context(), s, 1, abide.ID(id), abide.StartAfter(time.Hour))
			check.OK(s.T, err)
			rig.Pass(time.Second)
		}
		start("a")
		dead.Store(true)
		s.net.cut()
		rig.Pass(time.Second)
		start("b")
		dead.Store(false)
		rig.Pass(2 * time.Minute)
		got, _, err := c.get()
		check.OK(s.T, err)
		check.Equal(s.T, "changes", got, "default/a pending, default/b pending")
		cancel()
		<-c.done
	})
}

func TestWorkersAndStatistics(t *testing.T) {
	flow := abide.NewOrchestration("flow", echo[int], abide.Version("2"))
	act := abide.NewActivity("act", func(context.Context, int) (int, error) { return 0, nil })
	far(t, abide.Config{Register: []abide.Definition{flow, act}, WorkerName: "desk"}, func(s *stage) {
		_, err := abide.OrchestrationNamed[int, int]("nobody").Start(s.Context(), s, 1, abide.Unchecked())
		check.OK(s.T, err)
		rig.Pass(time.Second)
		workers, err := s.Workers(s.Context())
		check.OK(s.T, err)
		local, err := s.engine.Workers(s.Context())
		check.OK(s.T, err)
		check.Equal(s.T, "workers", text(s, workers), text(s, local))
		check.Equal(s.T, "number of workers", len(workers), 1)
		unserved, err := s.Unserved(s.Context())
		check.OK(s.T, err)
		there, err := s.engine.Unserved(s.Context())
		check.OK(s.T, err)
		check.Equal(s.T, "unserved", text(s, unserved), text(s, there))
		check.Equal(s.T, "number of what is unserved", len(unserved), 1)
		h := &http.Client{Transport: &http.Transport{DialContext: s.net.dial}}
		defer h.CloseIdleConnections()
		c := remote.NewOver("http://abide", h)
		known, err := c.Orchestrations(s.Context())
		check.OK(s.T, err)
		check.Equal(s.T, "orchestrations", len(known), 2)
		check.Equal(s.T, "the first", known[0].Name+"@"+known[0].Version+" "+known[0].Workers[0], "flow@2 "+workers[0].ID)
		check.Equal(s.T, "the second", known[1].Name, "nobody")
		check.Equal(s.T, "that waits", known[1].Pending, 1)
		stats, err := c.Stats(s.Context())
		check.OK(s.T, err)
		want, err := s.store.Stats(s.Context())
		check.OK(s.T, err)
		check.Equal(s.T, "statistics", text(s, stats), text(s, want))
		check.Equal(s.T, "rows", len(stats.Routes) > 0, true)
	})
}
