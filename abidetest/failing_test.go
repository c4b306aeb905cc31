package abidetest_test

import (
	"context"
	"errors"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strings"
	"testing"
	"time"

	"github.com/abidehq/abide"
	"github.com/abidehq/abide/abidetest"
)

// disk is a limit whose first unit is never given back.
var (
	disk  = abide.NewLimit("disk", abide.Concurrency(1), abide.PerKey())
	write = abide.NewActivity("write", func(ctx context.Context, _ string) (abide.None, error) {
		<-ctx.Done()
		return abide.None{}, ctx.Err()
	})
	exports = abide.NewOrchestration("exports", func(ctx abide.Context, of string) (abide.None, error) {
		return write.Call(ctx, of, abide.UnderKey(disk, of))
	})
)

// failing are tests that must fail, and what they must say then, as regular expressions.
// Each is run in a process of its own by TestFailures.
var failing = map[string]struct {
	test func(t *testing.T)
	want []string
	not  []string
}{
	"an instance that waits for ever": {
		func(t *testing.T) {
			abidetest.Run(t, func(_ *testing.T, env *abidetest.Env) {
				o := abide.NewOrchestration("patient", func(ctx abide.Context, _ abide.None) (Approval, error) { return Approved.Wait(ctx) })
				env.Register(o)
				abidetest.Start(env, o, abide.None{}, abide.ID("p1")).Result()
			})
		},
		[]string{`failing_test.go:\d+: abidetest: instance "p1" has not ended, and 8760h0m0s of virtual time have passed`,
			`status +running`, `waits for +event "approved"`, `time +2000-12-31T00:00:00Z`, `2 ExecutionStarted "patient"`},
		[]string{"unserved"},
	},
	"an instance that sleeps for too long": {
		func(t *testing.T) {
			abidetest.Run(t, func(_ *testing.T, env *abidetest.Env) {
				env.Limit = time.Hour
				o := abide.NewOrchestration("sleepy", func(ctx abide.Context, _ abide.None) (abide.None, error) {
					return abide.None{}, abide.Sleep(ctx, 2*time.Hour, abide.Named("nap"))
				})
				env.Register(o)
				abidetest.Start(env, o, abide.None{}).Result()
			})
		},
		[]string{`waits for +timer "nap"`, `3 TimerCreated "nap" at 2000-01-01T02:00:00`},
		[]string{"unserved"},
	},
	"an activity that waits for a limit": {
		func(t *testing.T) {
			abidetest.Run(t, func(_ *testing.T, env *abidetest.Env) {
				env.Limit = time.Hour
				env.Register(exports, write)
				for _, id := range []string{"e1", "e2", "e3"} {
					abidetest.Start(env, exports, "ann", abide.ID(id))
					env.Advance(time.Second)
				}
				abidetest.Start(env, exports, "ann", abide.ID("e4")).Result()
			})
		},
		[]string{`instance "e4" has not ended`, `waits for +activity "write"`,
			`limited +activity "write" waits for limit "disk", key "ann", with 2 before it, since 2000-01-01T00:00:03Z; 1 of 1 in use\n`},
		nil,
	},
	"an instance that waits for a limit": {
		func(t *testing.T) {
			abidetest.Run(t, func(t *testing.T, env *abidetest.Env) {
				env.Limit = time.Hour
				env.Register(exports, write)
				pause := abide.LimitChange{Set: &abide.LimitRule{Rate: 5, Per: time.Second}, Paused: new(true)}
				if _, err := env.Client().ChangeLimit(t.Context(), "", "reports", pause); err != nil {
					t.Error(err)
				}
				abidetest.Start(env, exports, "ann", abide.Under(abide.NewLimit("reports", abide.Rate(5, time.Second)))).Result()
			})
		},
		[]string{`status +pending`, `limited +the instance waits for limit "reports", with 0 before it, since 2000-01-01T00:00:00Z; the limit is paused\n`},
		nil,
	},
	"an activity that nobody serves": {
		func(t *testing.T) {
			abidetest.Run(t, func(_ *testing.T, env *abidetest.Env) {
				env.Limit = time.Hour
				o := abide.NewOrchestration("charger", func(ctx abide.Context, in OrderIn) (string, error) { return Charge.Call(ctx, in) })
				env.Register(o)
				abidetest.Start(env, o, OrderIn{}).Result()
			})
		},
		[]string{`has not ended, and 1h0m0s of virtual time`, `waits for +activity "charge"`, `unserved +activity "charge": .*env\.Register, or stub it`},
		nil,
	},
	"an orchestration that nobody serves": {
		func(t *testing.T) {
			abidetest.Run(t, func(_ *testing.T, env *abidetest.Env) {
				env.Limit = time.Hour
				abidetest.Start(env, Order, OrderIn{}).Result()
			})
		},
		[]string{`Start: .*orchestration "order": not served by any worker`, `give it to env\.Register`},
		[]string{"or stub it"},
	},
	"an instance that fails": {
		func(t *testing.T) {
			abidetest.Run(t, func(_ *testing.T, env *abidetest.Env) {
				o := abide.NewOrchestration("sad", func(abide.Context, abide.None) (string, error) { return "", errors.New("no luck") })
				env.Register(o)
				abidetest.Start(env, o, abide.None{}, abide.ID("s1")).Result()
			})
		},
		[]string{`instance "s1" did not complete`, `status +failed`, `error +no luck`, `3 ExecutionFailed: no luck`},
		nil,
	},
	"an instance that should have failed": {
		func(t *testing.T) {
			abidetest.Run(t, func(t *testing.T, env *abidetest.Env) {
				o := abide.NewOrchestration("glad", func(abide.Context, abide.None) (string, error) { return "", nil })
				env.Register(o)
				t.Log(abidetest.Start(env, o, abide.None{}, abide.ID("g1")).Err())
			})
		},
		[]string{`instance "g1" completed, and should not have`},
		nil,
	},
	"an instance that stalls": {
		func(t *testing.T) {
			abidetest.Run(t, func(_ *testing.T, env *abidetest.Env) {
				o := abide.NewOrchestration("shaky", func(abide.Context, abide.None) (string, error) { panic("oops") })
				env.Register(o)
				abidetest.Start(env, o, abide.None{}, abide.ID("s2")).Result()
			})
		},
		[]string{`instance "s2" cannot go on`, `status +stalled`, `reason +panic: oops`, `failing_test.go`},
		[]string{`8760h`},
	},
	"code that blocks": {
		func(t *testing.T) {
			abidetest.Run(t, func(_ *testing.T, env *abidetest.Env) {
				o := abide.NewOrchestration("blocked", func(abide.Context, abide.None) (string, error) { return <-make(chan string), nil })
				env.Register(o)
				abidetest.Start(env, o, abide.None{}, abide.ID("b1")).Result()
			})
		},
		[]string{`instance "b1" cannot go on`, `reason +blocked: .*10s`, `something in this test waits for what will never come`, `failing_test.go`},
		nil,
	},
	"a stub that never returns": {
		func(t *testing.T) {
			abidetest.Run(t, func(_ *testing.T, env *abidetest.Env) {
				env.Limit = time.Hour
				o := abide.NewOrchestration("charger", func(ctx abide.Context, in OrderIn) (string, error) { return Charge.Call(ctx, in) })
				env.Register(o)
				abidetest.Stub(env, Charge, func(context.Context, OrderIn) (string, error) { return <-make(chan string), nil })
				abidetest.Start(env, o, OrderIn{}).Result()
			})
		},
		[]string{`waits for +activity "charge"`, `does not come to its end`, `something in this test waits for what will never come`, `chan receive`, `failing_test.go`},
		nil,
	},
	"a test that waits for ever": {
		func(t *testing.T) {
			abidetest.Run(t, func(_ *testing.T, env *abidetest.Env) {
				env.Limit = 24 * time.Hour
				env.Settle()
				<-make(chan int)
			})
		},
		[]string{`the test has taken 120h0m0s of virtual time`, `something in this test waits for what will never come`, `failing_test.go`},
		nil,
	},
	"code that does another thing each time": {
		func(t *testing.T) {
			abidetest.Run(t, func(_ *testing.T, env *abidetest.Env) {
				runs := 0
				o := abide.NewOrchestration("fickle", func(ctx abide.Context, _ abide.None) (int, error) {
					runs++
					return runs, abide.Sleep(ctx, time.Hour, abide.Named(strings.Repeat("x", runs)))
				})
				env.Register(o)
				abidetest.Start(env, o, abide.None{}, abide.ID("f1")).Result()
			})
		},
		[]string{`instance "f1" does not do the same thing when it is replayed: the code of fickle`,
			`history has  3 TimerCreated "x" `, `the code did 3 TimerCreated "xx" `, `at  +.*failing_test.go:\d+`},
		nil,
	},
	"what is registered twice": {
		func(t *testing.T) {
			abidetest.Run(t, func(_ *testing.T, env *abidetest.Env) { env.Register(Order, Charge, Order) })
		},
		[]string{`failing_test.go:\d+: abidetest: Register: orchestration "order" is registered twice`},
		nil,
	},
	"what is served too late": {
		func(t *testing.T) {
			abidetest.Run(t, func(_ *testing.T, env *abidetest.Env) {
				env.Settle()
				env.Register(Order)
			})
		},
		[]string{`failing_test.go:\d+: abidetest: Register: the engine is in use`},
		nil,
	},
	"what is stubbed too late": {
		func(t *testing.T) {
			abidetest.Run(t, func(_ *testing.T, env *abidetest.Env) {
				env.Settle()
				abidetest.Stub(env, Charge, charge)
			})
		},
		[]string{`failing_test.go:\d+: abidetest: Stub: the engine is in use: stub activity "charge" before`},
		nil,
	},
	"another activity of the same name": {
		func(t *testing.T) {
			abidetest.Run(t, func(_ *testing.T, env *abidetest.Env) {
				abidetest.Stub(env, Charge, charge)
				abidetest.Stub(env, abide.ActivityNamed[int, int]("charge"), func(context.Context, int) (int, error) { return 0, nil })
			})
		},
		[]string{`two activities are called "charge"`},
		nil,
	},
	"a bad name": {
		func(t *testing.T) {
			abidetest.Run(t, func(_ *testing.T, env *abidetest.Env) {
				env.Register(abide.NewOrchestration("a@b", orderFlow))
				env.Settle()
			})
		},
		[]string{`failing_test.go:\d+: abidetest: .*"a@b"`},
		nil,
	},
	"an event that cannot be raised": {
		func(t *testing.T) {
			abidetest.Run(t, func(_ *testing.T, env *abidetest.Env) {
				env.After(time.Hour, func() { abidetest.Raise(env, Approved, "", Approval{}) })
				env.Advance(2 * time.Hour)
			})
		},
		[]string{`failing_test.go:\d+: abidetest: Raise: .*ID is empty`},
		nil,
	},
	"an instance of another orchestration": {
		func(t *testing.T) {
			abidetest.Run(t, func(_ *testing.T, env *abidetest.Env) {
				env.Register(Order)
				abidetest.Start(env, Order, OrderIn{}, abide.ID("o1"))
				abidetest.Find(env, abide.OrchestrationNamed[int, int]("other"), "o1")
			})
		},
		[]string{`instance "o1" is of orchestration "order", not "other"`},
		nil,
	},
	"a change that breaks": {
		func(t *testing.T) {
			h := recordOrder(t)
			changed := abide.NewOrchestration("order", func(ctx abide.Context, in OrderIn) (Receipt, error) {
				_, err := Charge.Call(ctx, in)
				return Receipt{}, err
			})
			abidetest.Replay(t, abidetest.Histories(h), changed, Charge)
		},
		[]string{`FAIL: TestFailures/.*/order~o1~1`, `the code of order does not do what its history says`,
			`history has  3 TimerCreated "approved" at `, `the code did 3 ActivityScheduled "charge"`, `at  +.*failing_test.go:\d+`,
			`after +1 TurnStarted at .*\n +2 ExecutionStarted "order"`, `abide.Changed`},
		nil,
	},
	"code that stops short": {
		func(t *testing.T) {
			h := recordOrder(t)
			abidetest.Replay(t, abidetest.Histories(h), abide.NewOrchestration("order", func(ctx abide.Context, _ OrderIn) (Receipt, error) {
				_, err := Approved.Wait(ctx)
				return Receipt{}, err
			}))
		},
		[]string{`history has  3 TimerCreated "approved"`, `the code did nothing more in this turn`, `at  +waiting for event "approved"`},
		nil,
	},
	"input of another type": {
		func(t *testing.T) {
			h := recordOrder(t)
			abidetest.Replay(t, abidetest.Histories(h), abide.NewOrchestration("order", func(abide.Context, []int) (Receipt, error) {
				return Receipt{}, nil
			}))
		},
		[]string{`the code of order cannot be replayed: .*the input of orchestration "order" does not fit its type`},
		nil,
	},
	"code that panics": {
		func(t *testing.T) {
			h := recordOrder(t)
			abidetest.Replay(t, abidetest.Histories(h), abide.NewOrchestration("order", func(abide.Context, OrderIn) (Receipt, error) { panic("oops") }))
		},
		[]string{`the code of order panics when it is replayed: panic: oops`, `failing_test.go`},
		nil,
	},
	"a version that is gone": {
		func(t *testing.T) {
			h := recordOrder(t)
			abidetest.Replay(t, abidetest.Histories(h), abide.NewOrchestration("order", orderFlow, abide.Version("2")), Charge)
		},
		[]string{`orchestration order is not among the definitions: there are order@2; register it as long as it has instances`},
		nil,
	},
	"no histories": {
		func(t *testing.T) { abidetest.Replay(t, abidetest.Histories(), Order) },
		[]string{`there are no histories: record some`},
		nil,
	},
	"a pattern without files": {
		func(t *testing.T) {
			abidetest.Replay(t, abidetest.Files(filepath.Join(t.TempDir(), "*.json")), Order)
		},
		[]string{`\*\.json: there is no such file: record histories`},
		nil,
	},
	"files that are not histories": {
		func(t *testing.T) {
			dir := t.TempDir()
			for name, text := range map[string]string{
				"empty.json": "{}", "odd.json": `{"orchestration":"order","events":[{"id":1,"kind":"Odd"}]}`, "text.json": "hello", "other.txt": "hello",
			} {
				if err := os.WriteFile(filepath.Join(dir, name), []byte(text), 0o644); err != nil {
					t.Fatal(err)
				}
			}
			abidetest.Replay(t, abidetest.Files(dir), Order)
		},
		[]string{`empty.json: this is not a history: it has 0 events`, `odd.json: this is not a history: .*event 1: unknown kind "Odd"`,
			`text.json: this is not a history: invalid character`},
		[]string{`other.txt`},
	},
	"a timer whose length is from the wall clock": {
		func(t *testing.T) { untilMidnight(t, time.Now) },
		[]string{`instance "w1" does not do the same thing when it is replayed: the code of midnight sets a timer to another time`,
			`history has +3 TimerCreated "night" at 2000-01-02T00:00:00`, `the code did +3 TimerCreated "night"`,
			`failing_test.go:\d+`, `use abide\.Now\(ctx\)`},
		nil,
	},
	"a timer that is moved to a time of the wall clock": {
		func(t *testing.T) {
			abidetest.Run(t, func(_ *testing.T, env *abidetest.Env) {
				o := abide.NewOrchestration("moving", func(ctx abide.Context, _ abide.None) (abide.None, error) {
					timer := abide.NewTimer(ctx, time.Hour)
					timer.Move(ctx, time.Now().Add(2*time.Hour))
					return abide.None{}, timer.Wait(ctx)
				})
				env.Register(o)
				abidetest.Start(env, o, abide.None{}).Result()
			})
		},
		[]string{`the code of moving sets a timer to another time`, `history has +4 TimerMoved`},
		nil,
	},
	"definitions that are wrong": {
		func(t *testing.T) {
			abidetest.Replay(t, abidetest.Histories(abide.History{Orchestration: "order"}), Order, Order)
		},
		[]string{`orchestration "order" is registered twice`},
		nil,
	},
}

// untilMidnight runs an orchestration that computes the length of a timer from a clock.
func untilMidnight(t *testing.T, now func() time.Time) {
	abidetest.Run(t, func(_ *testing.T, env *abidetest.Env) {
		o := abide.NewOrchestration("midnight", func(ctx abide.Context, _ abide.None) (abide.None, error) {
			midnight := now().Truncate(24 * time.Hour).Add(24 * time.Hour)
			return abide.None{}, abide.Sleep(ctx, midnight.Sub(abide.Now(ctx)), abide.Named("night"))
		})
		env.Register(o)
		env.Advance(90 * time.Minute)
		abidetest.Start(env, o, abide.None{}, abide.ID("w1")).Result()
	})
}

// recordOrder returns the history of an order.
func recordOrder(t *testing.T) (h abide.History) {
	abidetest.Run(t, func(_ *testing.T, env *abidetest.Env) {
		env.Register(Order)
		abidetest.Stub(env, Remind, func(context.Context, string) (abide.None, error) { return abide.None{}, nil })
		abidetest.Stub(env, Charge, func(context.Context, OrderIn) (string, error) { return "c", nil })
		order := abidetest.Start(env, Order, OrderIn{}, abide.ID("o1"))
		env.After(25*time.Hour, func() { abidetest.Raise(env, Approved, "o1", Approval{}) })
		order.Result()
		h = order.History()
	})
	return h
}

const failingCase = "ABIDETEST_FAILING"

// TestFailures: what goes wrong is said in a way that helps, and nothing hangs or panics.
func TestFailures(t *testing.T) {
	t.Parallel()
	for name, tt := range failing {
		t.Run(name, func(t *testing.T) {
			if os.Getenv(failingCase) != "" { // this is the process in which it fails
				tt.test(t)
				return
			}
			t.Parallel()
			this := "-test.run=^TestFailures$/^" + regexp.QuoteMeta(strings.ReplaceAll(name, " ", "_")) + "$"
			cmd := exec.CommandContext(t.Context(), os.Args[0], this, "-test.timeout=1m")
			cmd.Env = append(os.Environ(), failingCase+"="+name)
			out, err := cmd.CombinedOutput()
			if err == nil {
				t.Fatalf("the test did not fail:\n%s", out)
			}
			for _, want := range tt.want {
				if !regexp.MustCompile(want).Match(out) {
					t.Errorf("it does not say %s:\n%s", want, out)
				}
			}
			for _, not := range append(tt.not, `(?m)^panic:`, `(?m)^fatal error:`) {
				if regexp.MustCompile(not).Match(out) {
					t.Errorf("it says %s:\n%s", not, out)
				}
			}
		})
	}
}
