package abidetest_test

import (
	"context"
	"errors"
	"fmt"
	"log"
	"testing"
	"time"

	"github.com/abidehq/abide"
	"github.com/abidehq/abide/abidetest"
	"github.com/abidehq/abide/store"
)

type (
	OrderIn struct {
		ID    string
		Cents int
	}
	Approval struct{ By string }
	Receipt  struct{ ChargeID, ApprovedBy string }
)

var (
	Order    = abide.NewOrchestration("order", orderFlow)
	Charge   = abide.NewActivity("charge", charge)
	Remind   = abide.NewActivity("remind", remind)
	Approved = abide.NewEvent[Approval]("approved")
)

// orderFlow waits for an approval, reminds every day that it is missing, and charges.
func orderFlow(ctx abide.Context, in OrderIn) (Receipt, error) {
	var approval Approval
	for {
		var err error
		if approval, err = Approved.Wait(ctx, abide.Timeout(24*time.Hour)); err == nil {
			break
		} else if !errors.Is(err, abide.ErrTimeout) {
			return Receipt{}, err
		}
		if _, err := Remind.Call(ctx, in.ID); err != nil {
			return Receipt{}, err
		}
	}
	id, err := Charge.Call(ctx, in)
	return Receipt{ChargeID: id, ApprovedBy: approval.By}, err
}

func charge(context.Context, OrderIn) (string, error) { return "", errors.New("there is no bank here") }

func remind(context.Context, string) (abide.None, error) {
	return abide.None{}, errors.New("there is no mail here")
}

// TestOrder is an order that is approved after three days: 73 hours pass in milliseconds.
func TestOrder(t *testing.T) {
	t.Parallel()
	abidetest.Run(t, func(t *testing.T, env *abidetest.Env) {
		env.Register(Order)
		reminders := abidetest.Stub(env, Remind, func(context.Context, string) (abide.None, error) { return abide.None{}, nil })
		abidetest.Stub(env, Charge, func(_ context.Context, in OrderIn) (string, error) { return "charge-" + in.ID, nil })

		order := abidetest.Start(env, Order, OrderIn{ID: "7", Cents: 4200})
		env.After(73*time.Hour, func() { abidetest.Raise(env, Approved, order.ID(), Approval{By: "the manager"}) })

		if got, want := order.Result(), (Receipt{ChargeID: "charge-7", ApprovedBy: "the manager"}); got != want {
			t.Errorf("got %+v, want %+v", got, want)
		}
		if reminders.Calls() != 3 {
			t.Errorf("%d reminders, want 3", reminders.Calls())
		}
	})
}

// TestHistories keeps today's code true to what orders have been through.
func TestHistories(t *testing.T) {
	t.Parallel()
	abidetest.Replay(t, abidetest.Files("testdata/histories/*.json"), Order)
}

// Histories are recorded from a store that is in use: by a command beside the program, and
// committed with the tests that replay them.
func ExampleRecordAll() {
	record := func(ctx context.Context) error {
		s, err := store.Open(ctx, abide.DefaultStore)
		if err != nil {
			return err
		}
		defer s.Close()
		files, err := abidetest.RecordAll(ctx, abide.NewClient(s, nil), abide.Filter{
			Orchestrations: []string{"order"},
			From:           time.Now().AddDate(0, 0, -7),
		}, "testdata/histories")
		fmt.Println(len(files), "histories")
		return err
	}
	if err := record(context.Background()); err != nil {
		log.Fatal(err)
	}
}

// TestTrialGoesOn tests a change of code against what is under way, without a recording:
// the trial begins with the old code, and continues with the new.
func TestTrialGoesOn(t *testing.T) {
	t.Parallel()
	before := abide.NewOrchestration("trial", func(ctx abide.Context, _ abide.None) (string, error) {
		return "expired", abide.Sleep(ctx, 14*24*time.Hour)
	})
	after := abide.NewOrchestration("trial", func(ctx abide.Context, _ abide.None) (string, error) {
		if abide.Changed(ctx, "thirty-days") {
			return "expired", abide.Sleep(ctx, 30*24*time.Hour)
		}
		return "expired", abide.Sleep(ctx, 14*24*time.Hour)
	})
	abidetest.Run(t, func(t *testing.T, env *abidetest.Env) {
		env.Register(before)
		trial := abidetest.Start(env, before, abide.None{})
		env.Advance(7 * 24 * time.Hour)
		env.Restart(after)
		trial.Result()
		if want := time.Date(2000, 1, 15, 0, 0, 0, 0, time.UTC); !env.Now().Equal(want) {
			t.Errorf("the trial ended at %v, want %v", env.Now(), want)
		}
	})
}
