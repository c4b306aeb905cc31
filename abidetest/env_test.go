package abidetest_test

import (
	"context"
	"encoding/base64"
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/abidehq/abide"
	"github.com/abidehq/abide/abidetest"
	"github.com/abidehq/abide/history"
)

// TestVirtualTime: 73 hours, and months, pass at once, and to the millisecond.
func TestVirtualTime(t *testing.T) {
	t.Parallel()
	for _, d := range []time.Duration{time.Millisecond, 73 * time.Hour, 60 * 24 * time.Hour} {
		t.Run(d.String(), func(t *testing.T) {
			t.Parallel()
			began := time.Now()
			abidetest.Run(t, func(t *testing.T, env *abidetest.Env) {
				env.Limit = d + 60*24*time.Hour
				sleep := abide.NewOrchestration("sleep", func(ctx abide.Context, d time.Duration) (time.Time, error) {
					err := abide.Sleep(ctx, d)
					return abide.Now(ctx), err
				})
				env.Register(sleep)
				want := env.Now().Add(d)
				i := abidetest.Start(env, sleep, d)
				if got := i.Result(); !got.Equal(want) || !env.Now().Equal(want) {
					t.Errorf("woke at %v, now it is %v, want %v", got, env.Now(), want)
				}
				env.Advance(30 * 24 * time.Hour)
				if got := i.Status(); got != abide.Completed { // it is still there
					t.Errorf("a month later it is %s", got)
				}
			})
			if took := time.Since(began); took > 30*time.Second {
				t.Errorf("it took %v", took)
			}
		})
	}
}

// TestStubIsTriedAgain: the policy is that of the activity, and each attempt is counted.
func TestStubIsTriedAgain(t *testing.T) {
	t.Parallel()
	abidetest.Run(t, func(t *testing.T, env *abidetest.Env) {
		fetch := abide.ActivityNamed[string, int]("fetch", abide.Retry(4).Backoff(time.Hour, 2, 24*time.Hour))
		o := abide.NewOrchestration("fetching", func(ctx abide.Context, what string) (int, error) { return fetch.Call(ctx, what) })
		env.Register(o)
		var calls *abidetest.Stubbed[string, int]
		calls = abidetest.Stub(env, fetch, func(context.Context, string) (int, error) {
			if calls.Calls() < 3 {
				return 0, errors.New("not yet")
			}
			return 42, nil
		})
		began := env.Now()
		if got := abidetest.Start(env, o, "x").Result(); got != 42 {
			t.Errorf("got %d", got)
		}
		if got := calls.Inputs(); !slices.Equal(got, []string{"x", "x", "x"}) {
			t.Errorf("called with %q", got)
		}
		if took := env.Now().Sub(began); took < 3*time.Hour*4/5 || took > 3*time.Hour {
			t.Errorf("it took %v, want 1 h and 2 h, less a fifth at most", took)
		}

		abidetest.Stub(env, fetch, func(context.Context, string) (int, error) { return 0, abide.Final(abide.NewError("gone", "gone")) })
		err := abidetest.Start(env, o, "y").Err()
		var instance *abide.InstanceError
		if !errors.Is(err, abide.NewError("gone", "")) || !errors.As(err, &instance) || instance.Status != abide.Failed {
			t.Errorf("got %v", err)
		}
		if calls.Calls() != 4 {
			t.Errorf("%d calls", calls.Calls())
		}
	})
}

// TestStubReplacesWhatIsServed in whichever order.
func TestStubReplacesWhatIsServed(t *testing.T) {
	t.Parallel()
	o := abide.NewOrchestration("charging", func(ctx abide.Context, in OrderIn) (string, error) { return Charge.Call(ctx, in) })
	abidetest.Run(t, func(t *testing.T, env *abidetest.Env) {
		env.Register(o, Charge)
		abidetest.Stub(env, Charge, func(context.Context, OrderIn) (string, error) { return "stub", nil })
		env.Register(Charge)
		if got := abidetest.Start(env, o, OrderIn{}).Result(); got != "stub" {
			t.Errorf("got %q", got)
		}
	})
	abidetest.Run(t, func(t *testing.T, env *abidetest.Env) {
		env.Register(o, abide.NewActivity("charge", func(context.Context, OrderIn) (string, error) { return "real", nil }))
		if got := abidetest.Start(env, o, OrderIn{}).Result(); got != "real" {
			t.Errorf("got %q", got)
		}
	})
}

// TestWhatAnInstanceWaitsFor is known at each point in time.
func TestWhatAnInstanceWaitsFor(t *testing.T) {
	t.Parallel()
	abidetest.Run(t, func(t *testing.T, env *abidetest.Env) {
		o := abide.NewOrchestration("two", func(ctx abide.Context, _ abide.None) (string, error) {
			beside := abide.Go(ctx, func(ctx abide.Context) (abide.None, error) {
				return abide.None{}, abide.Sleep(ctx, 2*time.Hour, abide.Named("nap"))
			})
			a, err := Approved.Wait(ctx)
			if err != nil {
				return "", err
			}
			abide.SetStatus(ctx, "approved")
			_, err = beside.Get(ctx)
			return a.By, err
		})
		env.Register(o)
		i := abidetest.Start(env, o, abide.None{}, abide.ID("i"), abide.StartAfter(time.Hour))
		check := func(status abide.Status, want ...string) {
			t.Helper()
			if got := i.Waiting(); !slices.Equal(got, want) {
				t.Errorf("at %v it waits for %q, want %q", env.Now(), got, want)
			}
			if got := i.Status(); got != status {
				t.Errorf("at %v it is %s, want %s", env.Now(), got, status)
			}
		}
		env.At(env.Now().Add(90*time.Minute), func() { abidetest.Raise(env, Approved, "i", Approval{By: "the manager"}) })
		check(abide.Pending)
		env.Advance(time.Hour)
		check(abide.Running, `event "approved"`, `timer "nap"`)
		env.Advance(29 * time.Minute)
		check(abide.Running, `event "approved"`, `timer "nap"`)
		env.Advance(time.Minute)
		check(abide.Running, `coroutine`, `timer "nap"`)
		if got := i.Info().StatusText; got != "approved" {
			t.Errorf("it says %q", got)
		}
		env.Advance(90 * time.Minute)
		check(abide.Completed)
		if got := i.Result(); got != "the manager" {
			t.Errorf("got %q", got)
		}
		if h := i.History(); h.Events[len(h.Events)-1].Kind != history.ExecutionCompleted {
			t.Errorf("the last event is %v", &h.Events[len(h.Events)-1])
		}
	})
}

// TestClientGivesUp: who waits by other means than the environment's does not wait for
// ever, and is told why.
func TestClientGivesUp(t *testing.T) {
	t.Parallel()
	abidetest.Run(t, func(t *testing.T, env *abidetest.Env) {
		env.Limit = 50 * time.Hour
		env.Register(Order)
		abidetest.Stub(env, Remind, func(context.Context, string) (abide.None, error) { return abide.None{}, nil })
		began := env.Now()
		i, err := Order.Start(t.Context(), env.Client(), OrderIn{}, abide.ID("o1"))
		if err != nil {
			t.Fatal(err)
		}
		_, err = i.Result(t.Context())
		if !errors.Is(err, context.DeadlineExceeded) || !strings.Contains(fmt.Sprint(err), `one of event "approved", timer "approved"`) {
			t.Errorf("got %v", err)
		}
		if took := env.Now().Sub(began); took != 50*time.Hour {
			t.Errorf("it took %v", took)
		}
		ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
		defer cancel()
		if _, err = i.Result(ctx); err == nil || strings.Contains(err.Error(), "virtual") {
			t.Errorf("a context that ends: %v", err)
		}
		if err := i.Cancel(t.Context(), "enough"); err != nil {
			t.Fatal(err)
		}
		if err := abidetest.Find(env, Order, "o1").Err(); !errors.Is(err, abide.ErrCancelled) {
			t.Errorf("got %v", err)
		}
	})
}

// TestRestart: a deploy, with code that has changed in a way that is guarded, and in one
// that is not.
func TestRestart(t *testing.T) {
	t.Parallel()
	version := func(code func(ctx abide.Context) error) *abide.Orchestration[abide.None, abide.None] {
		return abide.NewOrchestration("deployed", func(ctx abide.Context, _ abide.None) (abide.None, error) { return abide.None{}, code(ctx) })
	}
	old := version(func(ctx abide.Context) error { return abide.Sleep(ctx, 2*time.Hour) })
	guarded := version(func(ctx abide.Context) error {
		if abide.Changed(ctx, "twice") {
			return abide.Sleep(ctx, 4*time.Hour, abide.Named("longer"))
		}
		return abide.Sleep(ctx, 2*time.Hour)
	})
	broken := version(func(ctx abide.Context) error { return abide.Sleep(ctx, 4*time.Hour, abide.Named("longer")) })
	abidetest.Run(t, func(t *testing.T, env *abidetest.Env) {
		env.Register(old)
		began := env.Now()
		done := abidetest.Start(env, old, abide.None{})
		done.Result()
		a := abidetest.Start(env, old, abide.None{})
		env.Advance(time.Hour)
		env.Restart(guarded)
		a.Result()
		if took := env.Now().Sub(began); took != 4*time.Hour {
			t.Errorf("the old one took %v", took)
		}
		abidetest.Start(env, old, abide.None{}).Result()
		if took := env.Now().Sub(began); took != 8*time.Hour {
			t.Errorf("the new one took %v", took)
		}
		env.Restart(old)
		b := abidetest.Start(env, old, abide.None{})
		env.Advance(time.Hour)
		env.Restart(broken)
		env.Advance(2 * time.Hour)
		if info := b.Info(); info.Status != abide.Stalled || !strings.Contains(info.Reason, "nondeterminism") {
			t.Errorf("it is %s: %s", info.Status, info.Reason)
		}
	})
}

// TestRestartWithOtherTimes: a deploy may change the length of a timer. An instance that has
// set it keeps the old one, and the replay at the end of the test takes that for what it is.
func TestRestartWithOtherTimes(t *testing.T) {
	t.Parallel()
	sleeps := func(d time.Duration) *abide.Orchestration[abide.None, abide.None] {
		return abide.NewOrchestration("sleeps", func(ctx abide.Context, _ abide.None) (abide.None, error) { return abide.None{}, abide.Sleep(ctx, d) })
	}
	abidetest.Run(t, func(t *testing.T, env *abidetest.Env) {
		env.Register(sleeps(2 * time.Hour))
		began := env.Now()
		a := abidetest.Start(env, sleeps(0), abide.None{})
		env.Settle()
		env.Restart(sleeps(4 * time.Hour))
		a.Result()
		if took := env.Now().Sub(began); took != 2*time.Hour {
			t.Errorf("it took %v", took)
		}
	})
}

// TestChildrenAndGenerations: children are found, and what continues as new is replayed.
func TestChildrenAndGenerations(t *testing.T) {
	t.Parallel()
	abidetest.Run(t, func(t *testing.T, env *abidetest.Env) {
		child := abide.NewOrchestration("counter", func(ctx abide.Context, n int) (int, error) {
			if err := abide.Sleep(ctx, time.Hour); err != nil || n == 0 {
				return abide.Execution(ctx), err
			}
			return 0, abide.ContinueAsNew(ctx, n-1)
		})
		parent := abide.NewOrchestration("parent", func(ctx abide.Context, n int) (int, error) { return child.Call(ctx, n, abide.ID("c")) })
		env.Register(parent, child)
		p := abidetest.Start(env, parent, 4)
		env.Advance(150 * time.Minute)
		if c := abidetest.Find(env, child, "c").Info(); c.Execution != 3 || c.Parent != p.ID() {
			t.Errorf("the child is at execution %d of %q", c.Execution, c.Parent)
		}
		if got := p.Result(); got != 5 {
			t.Errorf("got %d", got)
		}
	})
}

// base64JSON is a codec whose bytes are not JSON.
type base64JSON struct{}

func (base64JSON) Encode(v any) ([]byte, error) {
	data, err := json.Marshal(v)
	return []byte(base64.StdEncoding.EncodeToString(data)), err
}

func (base64JSON) Decode(data []byte, v any) error {
	data, err := base64.StdEncoding.DecodeString(string(data))
	if err != nil {
		return err
	}
	return json.Unmarshal(data, v)
}

// TestConfig: the engine is configured by the test.
func TestConfig(t *testing.T) {
	t.Parallel()
	abidetest.Run(t, func(t *testing.T, env *abidetest.Env) {
		env.Config.Codec = base64JSON{}
		env.Config.Retention = time.Hour
		o := abide.NewOrchestration("echo", func(_ abide.Context, s string) (string, error) { return s, nil })
		env.Register(o)
		i := abidetest.Start(env, o, "hello")
		if got := i.Result(); got != "hello" {
			t.Errorf("got %q", got)
		}
		h := i.History()
		if got := string(h.Events[1].Data); got != "ImhlbGxvIg==" {
			t.Errorf("the input is kept as %s", got)
		}
		env.Advance(2 * time.Hour)
		if _, err := env.Client().Get(t.Context(), i.Ref()); !errors.Is(err, abide.ErrNotFound) {
			t.Errorf("after its retention: %v", err)
		}
	})
}
