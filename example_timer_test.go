package abide_test

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"time"

	"github.com/abidehq/abide"
)

type Subscription struct {
	Email string
	Trial time.Duration
}

var (
	RemindActivity = abide.NewActivity("remind", remind)
	Paid           = abide.NewEvent[int]("paid")

	Reminder = abide.NewOrchestration("reminder", reminderFlow)
	Trial    = abide.NewOrchestration("trial", trialFlow)
	Parcel   = abide.NewOrchestration("parcel", parcelFlow)
	Digest   = abide.NewOrchestration("digest", digestFlow)
)

func remind(_ context.Context, email string) (string, error) { return "reminded " + email, nil }

// reminderFlow sleeps under a name, and then reminds.
func reminderFlow(ctx abide.Context, s Subscription) (string, error) {
	if err := abide.Sleep(ctx, s.Trial, abide.Named("trial-end")); err != nil {
		return "", err // the instance was cancelled
	}
	return RemindActivity.Call(ctx, s.Email)
}

// trialFlow waits for an event, for so long at most.
func trialFlow(ctx abide.Context, s Subscription) (string, error) {
	amount, err := Paid.Wait(ctx, abide.Timeout(s.Trial))
	switch {
	case errors.Is(err, abide.ErrTimeout):
		return "trial ended", nil
	case err != nil:
		return "", err
	}
	return fmt.Sprintf("paid %d", amount), nil
}

// parcelFlow reminds again and again until an event comes, or a window closes.
func parcelFlow(ctx abide.Context, s Subscription) (string, error) {
	window := abide.NewTimer(ctx, s.Trial, abide.Named("return-window"))
	paid := Paid.Receive(ctx)
	for reminders := 0; ; reminders++ {
		next := abide.NewTimer(ctx, s.Trial/4, abide.Named("reminder"))
		switch abide.Select(ctx, paid, window, next) {
		case 0:
			window.Cancel(ctx)
			next.Cancel(ctx)
			amount, err := paid.Get(ctx)
			return fmt.Sprintf("paid %d", amount), err
		case 1:
			paid.Cancel(ctx) // or it would take the next event
			next.Cancel(ctx)
			return fmt.Sprintf("returned after %d reminders", reminders), window.Wait(ctx)
		default:
			if _, err := RemindActivity.Call(ctx, s.Email); err != nil {
				return "", err
			}
		}
	}
}

// digestFlow puts its timer off each time that something comes in, for half an hour at most.
func digestFlow(ctx abide.Context, quiet time.Duration) (int, error) {
	latest := abide.Now(ctx).Add(30 * time.Minute)
	timer := abide.NewTimer(ctx, quiet, abide.Named("quiet"))
	for n := 0; ; n++ {
		more := Paid.Receive(ctx)
		if abide.Select(ctx, more, timer) == 1 {
			more.Cancel(ctx)
			return n, timer.Wait(ctx)
		}
		if at := abide.Now(ctx).Add(quiet); at.Before(latest) {
			timer.Move(ctx, at)
		}
	}
}

// timerEngine serves the orchestrations of these examples.
func timerEngine(ctx context.Context) (*abide.Engine, error) {
	return abide.Open(ctx, abide.Config{
		Store: "memory:", Register: []abide.Definition{Reminder, Trial, Parcel, Digest, RemindActivity}, Logger: slog.New(slog.DiscardHandler),
	})
}

func Example_sleep() {
	ctx := context.Background()
	e, err := timerEngine(ctx)
	if err != nil {
		fmt.Println(err)
		return
	}
	defer e.Close()
	reminder, err := Reminder.Start(ctx, e, Subscription{Email: "buyer@example.com", Trial: time.Millisecond})
	if err != nil {
		fmt.Println(err)
		return
	}
	fmt.Println(reminder.Result(ctx))
	// Output: reminded buyer@example.com <nil>
}

func Example_timeout() {
	ctx := context.Background()
	e, err := timerEngine(ctx)
	if err != nil {
		fmt.Println(err)
		return
	}
	defer e.Close()
	late, err := Trial.Start(ctx, e, Subscription{Trial: time.Millisecond})
	if err != nil {
		fmt.Println(err)
		return
	}
	fmt.Println(late.Result(ctx))
	prompt, err := Trial.Start(ctx, e, Subscription{Trial: time.Hour})
	if err != nil {
		fmt.Println(err)
		return
	}
	if err := Paid.Raise(ctx, e, prompt.ID(), 42); err != nil {
		fmt.Println(err)
		return
	}
	fmt.Println(prompt.Result(ctx))
	// Output:
	// trial ended <nil>
	// paid 42 <nil>
}

func Example_timerAndEvent() {
	ctx := context.Background()
	e, err := timerEngine(ctx)
	if err != nil {
		fmt.Println(err)
		return
	}
	defer e.Close()
	parcel, err := Parcel.Start(ctx, e, Subscription{Email: "buyer@example.com", Trial: time.Hour})
	if err != nil {
		fmt.Println(err)
		return
	}
	if err := Paid.Raise(ctx, e, parcel.ID(), 42); err != nil {
		fmt.Println(err)
		return
	}
	fmt.Println(parcel.Result(ctx))
	// Output: paid 42 <nil>
}

// A timer with a name can be moved from outside, by any client that knows the ID of the instance.
func Example_moveTimer() {
	ctx := context.Background()
	e, err := timerEngine(ctx)
	if err != nil {
		fmt.Println(err)
		return
	}
	defer e.Close()

	ref := abide.Ref{ID: "subscription-1"}
	waits, err := e.Waits(ctx, ref)
	if err != nil {
		fmt.Println(err)
		return
	}
	for _, w := range waits {
		fmt.Println(w.Kind, w.Name, w.At)
	}
	if err := e.MoveTimer(ctx, ref, "trial-end", time.Now().Add(time.Hour)); errors.Is(err, abide.ErrNotFound) {
		fmt.Println("it has fired, was cancelled, or is not set yet")
	}
}
