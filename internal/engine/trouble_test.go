package engine

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/abidehq/abide/history"
	"github.com/abidehq/abide/internal/base"
	"github.com/abidehq/abide/internal/replay"
	"github.com/abidehq/abide/store"
)

// errTrouble is the error of a store that cannot be reached.
var errTrouble = errors.New("connection refused")

// troubled is a store of one process whose calls can be made to fail or to hang, by method. A
// hook that returns nil has the call made.
type troubled struct {
	store.Store

	mu   sync.Mutex
	hook func(ctx context.Context, method string, tx *store.Tx) error
}

func (s *troubled) on(hook func(ctx context.Context, method string, tx *store.Tx) error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.hook = hook
}

func (s *troubled) before(ctx context.Context, method string, tx *store.Tx) error {
	s.mu.Lock()
	hook := s.hook
	s.mu.Unlock()
	if hook == nil {
		return nil
	}
	return hook(ctx, method, tx)
}

func (s *troubled) Commit(ctx context.Context, tx *store.Tx) error {
	if err := s.before(ctx, "Commit", tx); err != nil {
		return err
	}
	return s.Store.Commit(ctx, tx)
}

func (s *troubled) Claim(ctx context.Context, req store.ClaimRequest) ([]store.Claim, error) {
	if err := s.before(ctx, "Claim", nil); err != nil {
		return nil, err
	}
	return s.Store.Claim(ctx, req)
}

func (s *troubled) Renew(ctx context.Context, d time.Duration, leases []store.Lease) ([]store.Lease, error) {
	if err := s.before(ctx, "Renew", nil); err != nil {
		return nil, err
	}
	return s.Store.Renew(ctx, d, leases)
}

func (s *troubled) Release(ctx context.Context, r store.Release) error {
	if err := s.before(ctx, "Release", nil); err != nil {
		return err
	}
	return s.Store.Release(ctx, r)
}

func (s *troubled) ReadLog(ctx context.Context, key store.Key, from int) (store.LogPage, error) {
	if err := s.before(ctx, "ReadLog", nil); err != nil {
		return store.LogPage{}, err
	}
	return s.Store.ReadLog(ctx, key, from)
}

func (s *troubled) Get(ctx context.Context, key store.RecordKey) (store.Record, error) {
	if err := s.before(ctx, "Get", nil); err != nil {
		return store.Record{}, err
	}
	return s.Store.Get(ctx, key)
}

// noAnswer is a call that has none until its context ends.
func noAnswer(ctx context.Context) error {
	<-ctx.Done()
	return ctx.Err()
}

// TestRenewWithoutAnAnswer: one renewal that hangs costs no lease; the activity runs once.
func TestRenewWithoutAnAnswer(t *testing.T) {
	inBubble(t, func(r *rig) {
		s := &troubled{Store: r.tape}
		var runs atomic.Int64
		r.flow("flow", calling(history.Activity{}))
		r.act("act", func(ctx context.Context, _ *Task) ([]byte, *history.Failure) {
			runs.Add(1)
			select {
			case <-ctx.Done():
				return nil, failure("context ended: %v", context.Cause(ctx))
			case <-time.After(5 * time.Minute):
				return []byte("done"), nil
			}
		})
		first := r.serve(func(c *Config) { c.Store = s })
		r.begin("i", "flow", "")
		r.pass(10 * time.Second)
		other := r.serve()
		var hung atomic.Bool
		s.on(func(ctx context.Context, method string, _ *store.Tx) error {
			if method == "Renew" && hung.CompareAndSwap(false, true) {
				return noAnswer(ctx)
			}
			return nil
		})
		want(r, "result", r.result("i"), "done")
		want(r, "runs", runs.Load(), 1)
		want(r, "a renewal hung", hung.Load(), true)
		r.must(first.Close(r.Context()))
		r.must(other.Close(r.Context()))
	})
}

// TestCutOffWorkerStops: a worker that cannot reach the store ends its activity, with
// ErrLost, before another worker can run it.
func TestCutOffWorkerStops(t *testing.T) {
	for name, how := range map[string]func(context.Context) error{
		"fails": func(context.Context) error { return errTrouble },
		"hangs": noAnswer,
	} {
		t.Run(name, func(t *testing.T) {
			inBubble(t, func(r *rig) {
				s := &troubled{Store: r.tape}
				var began, ended time.Time // of the second and the first run
				var cause error
				r.flow("flow", calling(history.Activity{}))
				r.act("act", func(ctx context.Context, task *Task) ([]byte, *history.Failure) {
					if task.Attempt > 1 {
						began = time.Now()
						return []byte("second"), nil
					}
					<-ctx.Done()
					ended, cause = time.Now(), context.Cause(ctx)
					return nil, failure("stopped")
				})
				first := r.serve(func(c *Config) { c.Store = s })
				r.begin("i", "flow", "")
				r.pass(10 * time.Second)
				s.on(func(ctx context.Context, _ string, _ *store.Tx) error { return how(ctx) })
				other := r.serve()
				want(r, "result", r.result("i"), "second")
				want(r, "cause", cause, ErrLost)
				if ended.IsZero() || !ended.Before(began) {
					r.Errorf("the first run ended at %v, the second began at %v", ended, began)
				}
				s.on(nil)
				r.must(first.Close(r.Context()))
				r.must(other.Close(r.Context()))
			})
		})
	}
}

// TestLateClaimIsNotKeptTooLong: a claim whose answer was on its way for long has less time
// left than one that has just been made.
func TestLateClaimIsNotKeptTooLong(t *testing.T) {
	inBubble(t, func(r *rig) {
		s := &lateClaims{troubled: troubled{Store: r.tape}}
		var ended time.Time
		r.flow("flow", calling(history.Activity{}))
		r.act("act", func(ctx context.Context, task *Task) ([]byte, *history.Failure) {
			if task.Input == nil || task.Attempt > 1 {
				return []byte("ok"), nil
			}
			<-ctx.Done()
			ended = time.Now()
			return nil, failure("stopped")
		})
		e := r.serve(func(c *Config) { c.Store = s })
		r.begin("before", "flow", "") // by which the engine knows how late it is there
		r.result("before")
		s.by.Store(int64(20 * time.Second))
		r.pass(time.Hour) // until the claims under way are over
		began := time.Now()
		r.begin("i", "flow", "x")
		s.on(func(_ context.Context, method string, _ *store.Tx) error {
			if method == "Renew" {
				return errTrouble
			}
			return nil
		})
		r.until("i", Completed)
		// The turn is claimed 0 s, and the activity 20 s after the beginning; its lease ends 30 s later.
		if end := began.Add(20*time.Second + DefaultLease); ended.IsZero() || !ended.Before(end) {
			r.Errorf("the activity ended %v after it was claimed, its lease lasts for %v", ended.Sub(began.Add(20*time.Second)), DefaultLease)
		}
		s.on(nil)
		s.by.Store(0)
		r.must(e.Close(r.Context()))
	})
}

// lateClaims is a store from which claims are on their way for a while.
type lateClaims struct {
	troubled
	by atomic.Int64
}

func (s *lateClaims) Claim(ctx context.Context, req store.ClaimRequest) ([]store.Claim, error) {
	claims, err := s.troubled.Claim(ctx, req)
	if len(claims) > 0 {
		<-time.After(time.Duration(s.by.Load()))
	}
	return claims, err
}

// TestHeartbeatOfUnknownOutcome: a heartbeat that was committed without its caller learning
// of it does not make the next one fail.
func TestHeartbeatOfUnknownOutcome(t *testing.T) {
	inBubble(t, func(r *rig) {
		s := &troubled{Store: r.tape}
		r.flow("flow", calling(history.Activity{MaxAttempts: 1}))
		r.act("act", func(_ context.Context, task *Task) ([]byte, *history.Failure) {
			for i := range 5 {
				if err := task.Heartbeat(fmt.Append(nil, i)); err != nil {
					return nil, failure("heartbeat %d: %v", i, err)
				}
				<-time.After(2 * heartbeatEvery)
			}
			return []byte("done"), nil
		})
		var n atomic.Int64
		s.on(func(ctx context.Context, method string, tx *store.Tx) error {
			if method != "Commit" || len(tx.PutRecords) != 1 || tx.PutRecords[0].Record.Key.Kind != kindHeartbeat {
				return nil
			}
			switch n.Add(1) {
			case 2: // it happens, and nobody learns of it
				r.must(r.tape.Commit(ctx, tx))
				return errTrouble
			case 3: // it does not happen
				return errTrouble
			}
			return nil
		})
		e := r.serve(func(c *Config) { c.Store = s })
		r.begin("i", "flow", "")
		want(r, "result", r.result("i"), "done")
		want(r, "heartbeats", n.Load(), 5)
		r.must(e.Close(r.Context()))
	})
}

// TestHeartbeatWithoutAnAnswer: a store that does not answer does not hold the activity up
// for longer than a part of its lease.
func TestHeartbeatWithoutAnAnswer(t *testing.T) {
	inBubble(t, func(r *rig) {
		s := &troubled{Store: r.tape}
		r.flow("flow", calling(history.Activity{MaxAttempts: 1}))
		var took time.Duration
		r.act("act", func(_ context.Context, task *Task) ([]byte, *history.Failure) {
			s.on(func(ctx context.Context, method string, _ *store.Tx) error {
				if method == "Get" {
					return noAnswer(ctx)
				}
				return nil
			})
			began := time.Now()
			err := task.Heartbeat([]byte("x"))
			took = time.Since(began)
			s.on(nil)
			if err != nil {
				return nil, failure("%v", err)
			}
			return []byte("done"), nil
		})
		e := r.serve(func(c *Config) { c.Store = s })
		r.begin("i", "flow", "")
		want(r, "result", r.result("i"), "done")
		if took > DefaultLease/4 {
			r.Errorf("a heartbeat took %v", took)
		}
		r.must(e.Close(r.Context()))
	})
}

// TestCommitWithoutAnAnswer: what a commit was made for that has no answer is done all the
// same, within a few leases.
func TestCommitWithoutAnAnswer(t *testing.T) {
	for _, queue := range []string{queueTurns, QueueActivities, queueControl} {
		{
			t.Run(queue, func(t *testing.T) {
				inBubble(t, func(r *rig) {
					s := &troubled{Store: r.tape}
					r.flow("flow", func(c *replay.Context, _ []byte) replay.Outcome {
						receive(c, "go")
						return outcome(c, c.Activity("act", []byte("x"), history.Activity{MaxAttempts: 2}))
					})
					r.act("act", echo)
					r.serve(func(c *Config) { c.Store = s }, unfused)
					r.begin("i", "flow", "")
					r.until("i", Running)
					over := make(chan struct{})
					var hung atomic.Bool
					s.on(func(ctx context.Context, method string, tx *store.Tx) error {
						if method != "Commit" || len(tx.Finish) == 0 || tx.Finish[0].Lease.Key.Queue != queue || !hung.CompareAndSwap(false, true) {
							return nil
						}
						select {
						case <-ctx.Done():
							return ctx.Err()
						case <-over:
							return errTrouble
						}
					})
					if queue == queueControl {
						r.must(r.Suspend(r.Context(), Ref{ID: "i"}, ""))
						r.pass(4 * DefaultLease)
						want(r, "status", r.info("i").Status, Suspended)
					} else {
						r.raise("i", "go", "")
						r.pass(4 * DefaultLease)
						want(r, "status", r.info("i").Status, Completed)
					}
					want(r, "a commit hung", hung.Load(), true)
					close(over)
				})
			})
		}
	}
}

// TestCorruptHistoryStalls: a log that cannot be read is not read again and again.
func TestCorruptHistoryStalls(t *testing.T) {
	inBubble(t, func(r *rig) {
		s := &troubled{Store: r.tape}
		r.flow("flow", waiter)
		r.serve()
		r.begin("i", "flow", "")
		r.until("i", Running)
		r.shut()
		var reads atomic.Int64
		s.on(func(_ context.Context, method string, _ *store.Tx) error {
			if method == "ReadLog" {
				reads.Add(1)
				return fmt.Errorf("entry 2: checksum: %w", store.ErrCorrupt)
			}
			return nil
		})
		r.serve(func(c *Config) { c.Store = s })
		r.raise("i", "go", "x")
		info := r.until("i", Stalled)
		if n := reads.Load(); n > 5 {
			r.Errorf("%d reads", n)
		}
		r.pass(24 * time.Hour)
		if n := reads.Load(); n > 5 {
			r.Errorf("%d reads in a day", n)
		}
		wantWords(r, info.Reason, "undecodable history", "checksum")
		s.on(nil)
		r.must(r.Resume(r.Context(), Ref{ID: "i"}))
		want(r, "result", r.result("i"), "x")
	})
}

// TestCorruptRecordGoesToQuarantine: the messages of an instance whose record cannot be
// read are quarantined after as many deliveries as any other message that does no good.
func TestCorruptRecordGoesToQuarantine(t *testing.T) {
	inBubble(t, func(r *rig) {
		s := &troubled{Store: r.tape}
		r.flow("flow", waiter)
		r.serve()
		r.begin("i", "flow", "")
		r.until("i", Running)
		r.shut()
		var reads atomic.Int64
		s.on(func(_ context.Context, method string, _ *store.Tx) error {
			if method == "Get" {
				reads.Add(1)
				return fmt.Errorf("record: %w", store.ErrCorrupt)
			}
			return nil
		})
		r.raise("i", "go", "x")
		r.serve(func(c *Config) { c.Store = s })
		r.pass(24 * time.Hour)
		if n := reads.Load(); n > 5*DefaultTurnAttempts {
			r.Errorf("%d reads in a day", n)
		}
		want(r, "messages in quarantine", len(r.quarantined()), 1)
		want(r, "messages that wait", len(r.pending(Ref{ID: "i"}.key())), 0)
	})
}

// TestFailedStoreEndsTheEngine: an engine whose store has failed says so, and makes no more
// calls.
func TestFailedStoreEndsTheEngine(t *testing.T) {
	inBubble(t, func(r *rig) {
		s := &troubled{Store: r.tape}
		log := &logged{}
		r.flow("flow", waiter)
		r.act("act", echo)
		e := r.serve(func(c *Config) { c.Store, c.Logger = s, slog.New(log) })
		r.begin("i", "flow", "")
		r.until("i", Running)
		select {
		case <-e.Done():
			r.Fatal("the engine is said to have ended")
		default:
		}
		want(r, "error", e.Err(), nil)
		var calls atomic.Int64
		s.on(func(context.Context, string, *store.Tx) error {
			calls.Add(1)
			return fmt.Errorf("sync: %w", store.ErrFailed)
		})
		r.must2(NewClient(r.tape, base.System{}).Raise(r.Context(), Raise{Ref: Ref{ID: "i"}, Name: "go"})) // by which it learns of it
		<-e.Done()
		r.wantErr(e.Err(), store.ErrFailed, "sync")
		r.pass(time.Minute)
		before := calls.Load()
		r.pass(time.Hour)
		want(r, "calls in an hour", calls.Load()-before, 0)
		if n := log.count(slog.LevelWarn); n > 3 {
			r.Errorf("%d lines: %v", n, log.all())
		}
	})
}

// TestClosedEngineIsDone, with no error.
func TestClosedEngineIsDone(t *testing.T) {
	inBubble(t, func(r *rig) {
		e := r.serve()
		r.shut()
		<-e.Done()
		want(r, "error", e.Err(), nil)
	})
}

// TestOutageCostsFewLines: however much is under way, an outage of the store is a line when
// it begins and a line when it is over.
func TestOutageCostsFewLines(t *testing.T) {
	inBubble(t, func(r *rig) {
		s := &troubled{Store: r.tape}
		log := &logged{}
		r.flow("flow", func(c *replay.Context, _ []byte) replay.Outcome {
			sleep(c, time.Minute)
			return outcome(c, c.Activity("act", nil, history.Activity{}))
		})
		r.act("act", echo)
		e := r.serve(func(c *Config) { c.Store, c.Logger = s, slog.New(log) })
		for i := range 200 {
			r.begin(fmt.Sprint(i), "flow", "")
		}
		r.pass(59 * time.Second)
		s.on(func(_ context.Context, method string, _ *store.Tx) error {
			if method == "Claim" {
				return nil // so that there are turns under way
			}
			return errTrouble
		})
		r.pass(20 * time.Second)
		s.on(func(context.Context, string, *store.Tx) error { return errTrouble })
		r.pass(time.Minute)
		s.on(nil)
		for i := range 200 {
			r.result(fmt.Sprint(i))
		}
		r.pass(time.Minute)
		r.begin("after", "flow", "")
		r.result("after")
		if all := log.all(); log.count(slog.LevelWarn) > 5 {
			r.Errorf("%d lines: %v", len(all), all)
		}
		wantWords(r, fmt.Sprint(log.all()), "store unavailable", "store available again", errTrouble.Error())
		r.must(e.Close(r.Context()))
	})
}

// logged keeps what is logged.
type logged struct {
	mu  sync.Mutex
	got []string
	n   map[slog.Level]int
}

func (l *logged) Enabled(context.Context, slog.Level) bool { return true }
func (l *logged) WithAttrs([]slog.Attr) slog.Handler       { return l }
func (l *logged) WithGroup(string) slog.Handler            { return l }

func (l *logged) Handle(_ context.Context, r slog.Record) error {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.n == nil {
		l.n = map[slog.Level]int{}
	}
	l.n[r.Level]++
	if r.Level >= slog.LevelInfo {
		text := r.Level.String() + " " + r.Message
		r.Attrs(func(a slog.Attr) bool { text += " " + a.String(); return true })
		l.got = append(l.got, text)
	}
	return nil
}

func (l *logged) all() []string {
	l.mu.Lock()
	defer l.mu.Unlock()
	return append([]string(nil), l.got...)
}

// count returns how many lines of a level, or a worse one, there are.
func (l *logged) count(least slog.Level) (n int) {
	l.mu.Lock()
	defer l.mu.Unlock()
	for level, k := range l.n {
		if level >= least {
			n += k
		}
	}
	return n
}

func wantWords(r *rig, text string, words ...string) {
	r.Helper()
	for _, w := range words {
		if !strings.Contains(text, w) {
			r.Errorf("%q does not say %q", text, w)
		}
	}
}
