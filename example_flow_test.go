package abide_test

import (
	"context"
	"errors"
	"fmt"
	"log"
	"log/slog"
	"time"

	"github.com/abidehq/abide"
	"github.com/abidehq/abide/store/memstore"
)

// open returns an engine on a store in memory.
func open(definitions ...abide.Definition) *abide.Engine {
	e, err := abide.New(memstore.New(memstore.Options{}), abide.Config{Register: definitions, Logger: slog.New(slog.DiscardHandler)})
	if err != nil {
		log.Fatal(err)
	}
	return e
}

// run runs an orchestration to its end, and prints its result.
func run[In, Out any](e *abide.Engine, o *abide.Orchestration[In, Out], in In) {
	defer e.Close()
	ctx := context.Background()
	instance, err := o.Start(ctx, e, in)
	if err != nil {
		log.Fatal(err)
	}
	out, err := instance.Result(ctx)
	fmt.Println(out, err)
}

// An activity that fails is attempted again, with a delay that grows.
func ExampleRetry() {
	charge := abide.NewActivity("charge", func(ctx context.Context, cents int) (string, error) {
		info, _ := abide.ActivityOf(ctx)
		if info.Attempt < 3 {
			return "", errors.New("the bank does not answer")
		}
		return fmt.Sprintf("charged %d at attempt %d", cents, info.Attempt), nil
	})
	order := abide.NewOrchestration("order", func(ctx abide.Context, cents int) (string, error) {
		return charge.Call(ctx, cents, abide.Retry(5).Backoff(time.Millisecond, 2, time.Second))
	})
	run(open(order, charge), order, 4200)
	// Output: charged 4200 at attempt 3 <nil>
}

// An error of a type that is excepted from the retries fails the activity at once.
func ExampleRetryOption_Except() {
	charge := abide.NewActivity("charge", func(context.Context, int) (string, error) {
		return "", abide.NewError("declined", "no money")
	})
	order := abide.NewOrchestration("order", func(ctx abide.Context, cents int) (string, error) {
		_, err := charge.Call(ctx, cents, abide.Retry(5).Except("declined"))
		if failed := new(abide.Error); errors.As(err, &failed) && failed.Type == "declined" {
			return "refused: " + failed.Message, nil
		}
		return "charged", err
	})
	run(open(order, charge), order, 4200)
	// Output: refused: no money <nil>
}

// An orchestration waits for an event, but not for ever.
func ExampleTimeout() {
	approved := abide.NewEvent[string]("approved")
	order := abide.NewOrchestration("order", func(ctx abide.Context, _ abide.None) (string, error) {
		by, err := approved.Wait(ctx, abide.Timeout(time.Millisecond))
		if errors.Is(err, abide.ErrTimeout) {
			return "nobody has approved", nil
		}
		return "approved by " + by, err
	})
	run(open(order), order, abide.None{})
	// Output: nobody has approved <nil>
}

// If a step of a saga fails, the steps before it are undone, the last one first.
func ExampleRunSaga() {
	say := func(ctx abide.Context, text string) error {
		_, err := abide.Step(ctx, text, func(context.Context) (abide.None, error) { fmt.Println(text); return abide.None{}, nil })
		return err
	}
	trip := abide.NewOrchestration("trip", func(ctx abide.Context, _ abide.None) (abide.None, error) {
		return abide.None{}, abide.RunSaga(ctx, func(saga *abide.Saga) error {
			for _, what := range []string{"flight", "hotel"} {
				if err := say(ctx, "book "+what); err != nil {
					return err
				}
				saga.Undo(func(ctx abide.Context) error { return say(ctx, "cancel "+what) })
			}
			return abide.NewError("sold-out", "there is no car")
		})
	})
	e := open(trip)
	defer e.Close()
	instance, err := trip.Start(context.Background(), e, abide.None{})
	if err != nil {
		log.Fatal(err)
	}
	_, err = instance.Result(context.Background())
	fmt.Println("failed:", err != nil)
	// Output:
	// book flight
	// book hotel
	// cancel hotel
	// cancel flight
	// failed: true
}

// An orchestration calls another one, its child, like an activity.
func ExampleOrchestration_Call() {
	parcel := abide.NewOrchestration("parcel", func(_ abide.Context, to string) (string, error) { return "sent to " + to, nil })
	order := abide.NewOrchestration("order", func(ctx abide.Context, to string) (string, error) {
		return parcel.Call(ctx, to, abide.ID("parcel-of-order-1"))
	})
	run(open(order, parcel), order, "Berlin")
	// Output: sent to Berlin <nil>
}

// Fan-out: activities run concurrently, and All waits for their results.
func ExampleAll() {
	square := abide.NewActivity("square", func(_ context.Context, n int) (int, error) { return n * n, nil })
	sum := abide.NewOrchestration("sum", func(ctx abide.Context, most int) (sum int, err error) {
		var squares []*abide.Future[int]
		for n := range most {
			squares = append(squares, square.Go(ctx, n))
		}
		values, err := abide.All(ctx, squares...)
		for _, v := range values {
			sum += v
		}
		return sum, err
	})
	run(open(sum, square), sum, 10)
	// Output: 285 <nil>
}

// Select waits for the first of several things.
func ExampleSelect() {
	paid := abide.NewEvent[int]("paid")
	trial := abide.NewOrchestration("trial", func(ctx abide.Context, d time.Duration) (string, error) {
		payment, end := paid.Receive(ctx), abide.NewTimer(ctx, d)
		if abide.Select(ctx, payment, end) == 1 {
			payment.Cancel(ctx)
			return "the trial has ended", nil
		}
		end.Cancel(ctx)
		cents, err := payment.Get(ctx)
		return fmt.Sprintf("paid %d", cents), err
	})
	run(open(trial), trial, time.Millisecond)
	// Output: the trial has ended <nil>
}

// An orchestration that runs for years begins a new execution now and then, so that its
// history stays short.
func ExampleContinueAsNew() {
	count := abide.NewOrchestration("count", func(ctx abide.Context, n int) (string, error) {
		if n < 3 {
			return "", abide.ContinueAsNew(ctx, n+1)
		}
		return fmt.Sprintf("counted to %d in execution %d", n, abide.Execution(ctx)), nil
	})
	run(open(count), count, 0)
	// Output: counted to 3 in execution 4 <nil>
}

// Go runs a coroutine of an orchestration beside others.
func ExampleGo() {
	greet := abide.NewActivity("greet", func(_ context.Context, name string) (string, error) { return "hello " + name, nil })
	party := abide.NewOrchestration("party", func(ctx abide.Context, names []string) ([]string, error) {
		var greetings []*abide.Future[string]
		for _, name := range names {
			greetings = append(greetings, abide.Go(ctx, func(ctx abide.Context) (string, error) {
				if err := abide.Sleep(ctx, time.Millisecond); err != nil {
					return "", err
				}
				return greet.Call(ctx, name)
			}))
		}
		return abide.All(ctx, greetings...)
	})
	run(open(party, greet), party, []string{"Ada", "Grace"})
	// Output: [hello Ada hello Grace] <nil>
}

// A step is code with a side effect whose result is recorded: a replay does not run it again.
func ExampleStep() {
	lottery := abide.NewOrchestration("lottery", func(ctx abide.Context, _ abide.None) (int, error) {
		drawn, err := abide.Step(ctx, "draw", func(context.Context) (int, error) { return 7, nil })
		if err != nil {
			return 0, err
		}
		return drawn, abide.Sleep(ctx, time.Millisecond)
	})
	run(open(lottery), lottery, abide.None{})
	// Output: 7 <nil>
}

// A long activity says that it is alive, and the next attempt goes on where the last one failed.
func ExampleHeartbeat() {
	imports := abide.NewActivity("import", func(ctx context.Context, rows int) (string, error) {
		first, resumed, err := abide.LastHeartbeat[int](ctx)
		if err != nil {
			return "", err
		}
		for row := first; row < rows; row++ {
			if err := abide.Heartbeat(ctx, row); err != nil {
				return "", err
			}
			if row == 500 && !resumed {
				return "", errors.New("the connection broke")
			}
		}
		return fmt.Sprintf("the last attempt began with row %d", first), nil
	})
	job := abide.NewOrchestration("job", func(ctx abide.Context, rows int) (string, error) {
		return imports.Call(ctx, rows, abide.HeartbeatTimeout(time.Minute), abide.Retry(3).Backoff(time.Millisecond, 1, time.Millisecond))
	})
	run(open(job, imports), job, 1000)
	// Output: the last attempt began with row 500 <nil>
}
