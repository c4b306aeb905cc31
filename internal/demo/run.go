package demo

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"time"

	"github.com/abidehq/abide"
	"github.com/abidehq/abide/action"
	"github.com/abidehq/abide/internal/base"
	"github.com/abidehq/abide/timer"
)

// Config is what the demo lives on.
type Config struct {
	Client  abide.Caller
	Timers  *timer.Service
	Actions *action.Service

	// Clock is that of the process if it is nil.
	Clock base.Clock

	// Logger gets what a person should know. Nil means [slog.Default].
	Logger *slog.Logger
}

// beat is how often the demo does something.
const beat = time.Second

// Run keeps the demo going until ctx ends. What fails is logged, and tried again with the
// next beat.
func Run(ctx context.Context, cfg Config) error {
	if cfg.Clock == nil {
		cfg.Clock = base.System{}
	}
	if cfg.Logger == nil {
		cfg.Logger = slog.Default()
	}
	ready, trouble := false, false
	for {
		err := error(nil)
		if !ready {
			if err = prepare(ctx, &cfg); err == nil {
				ready = true
			}
		}
		if err = errors.Join(err, once(ctx, &cfg, cfg.Clock.Now())); err != nil && !trouble && ctx.Err() == nil {
			cfg.Logger.Warn("demo failed", "error", err)
		}
		trouble = err != nil
		if base.Sleep(ctx, cfg.Clock, beat) != nil {
			return nil //nolint:nilerr // the end of ctx is how it stops
		}
	}
}

// prepare makes what there is one of.
func prepare(ctx context.Context, cfg *Config) error {
	if err := schedule(ctx, cfg.Actions); err != nil {
		return err
	}
	for i, customer := range []string{"a customer", "another customer", "a third customer"} {
		if _, err := Trials.Start(ctx, cfg.Client, customer, abide.ID(fmt.Sprintf("trial-%d", i+1)), tagged); err != nil {
			return err
		}
	}
	_, err := Broken.Start(ctx, cfg.Client, abide.None{}, abide.ID("broken-1"), tagged)
	return err
}

// tagged is what all instances have that the demo starts.
var tagged = abide.Tag("by", "demo")

// once does what is to be done in a second. What is started has an ID made of the time, so
// that two processes on one store do things once.
func once(ctx context.Context, cfg *Config, now time.Time) error {
	n := now.Unix()
	var errs []error
	every := func(seconds, at int64, f func() error) {
		if n%seconds == at {
			errs = append(errs, f())
		}
	}
	every(2, 0, func() error {
		in := Order{Number: n / 2, Cents: int(1000 + n%17*250), Item: items[n/2%int64(len(items))]}
		_, err := Orders.Start(ctx, cfg.Client, in, id("order", n), tagged)
		return err
	})
	every(3, 2, func() error {
		in := Delivery{Courier: couriers[n/3%int64(len(couriers))], Seconds: distances[n/3%int64(len(distances))]}
		_, err := Deliveries.Start(ctx, cfg.Client, in, id("delivery", n), tagged, abide.UnderKey(Couriers, in.Courier), express(n))
		return err
	})
	every(10, 1, func() error { return expense(ctx, cfg.Client, n) })
	every(20, 3, func() error {
		_, err := Reports.Start(ctx, cfg.Client, Report{Pages: int(3 + n/20%4)}, id("report", n), tagged)
		return err
	})
	every(30, 5, func() error {
		_, err := Imports.Start(ctx, cfg.Client, fmt.Sprintf("import-%d.csv", n), id("import", n), tagged)
		return err
	})
	every(2, 1, func() error { return remind(ctx, cfg.Timers, n) })
	return errors.Join(errs...)
}

var items = []string{"a kettle", "two lamps", "a ladder", "coffee", "a bicycle pump"}

// couriers are the keys of a limit. The first one has as much to do as the others together.
// It has a little less to do than it can.
var (
	couriers  = []string{"north", "south", "north", "harbour"}
	distances = []int{12, 9, 4, 3, 2, 2, 6} // in seconds
)

// express gives one of five deliveries a place before the others.
func express(n int64) abide.PriorityOption {
	if n/3%5 == 0 {
		return abide.Priority(1)
	}
	return abide.Priority(0)
}

func id(kind string, n int64) abide.StartOption { return abide.ID(fmt.Sprintf("%s-%d", kind, n)) }

// expense starts an approval, and decides about one that has waited for a while. Every
// third is left to the user of the page.
func expense(ctx context.Context, client abide.Caller, n int64) error {
	in := Expense{What: items[n/10%int64(len(items))], Cents: int(500 + n%13*100)}
	if _, err := Approvals.Start(ctx, client, in, id("expense", n), tagged); err != nil {
		return err
	}
	if n/10%3 == 0 {
		return nil
	}
	waited := fmt.Sprintf("expense-%d", n-20)
	if _, err := client.AsClient().Get(ctx, abide.Ref{ID: waited}); errors.Is(err, abide.ErrNotFound) {
		return nil // the demo has begun after that
	}
	return Approved.Raise(ctx, client, waited, Decision{Approved: n/10%5 != 0, By: "an operator"}, abide.IfAwaited())
}
