package abide_test

import (
	"context"
	"errors"
	"fmt"
	"testing"
	"time"

	"github.com/abidehq/abide"
	"github.com/abidehq/abide/history"
	"github.com/abidehq/abide/internal/check"
	"github.com/abidehq/abide/store/memstore"
)

type balance struct{ Cents int }

type transferIn struct {
	From, To string
	Cents    int
}

var (
	errFunds = errors.New("insufficient funds")

	account  = abide.NewEntity[balance]("Account")
	deposit  = abide.NewOperation(account, "deposit", depositCents)
	withdraw = abide.NewOperation(account, "withdraw", withdrawCents)
	closing  = abide.NewOperation(account, "close", closeAccount)
	forward  = abide.NewOperation(account, "forward", forwardCents)

	audited = abide.NewOrchestration("audited", func(_ abide.Context, text string) (string, error) { return text, nil })

	transfers = abide.NewOrchestration("transfer", transferCents)
)

func depositCents(_ abide.EntityContext, b *balance, cents int) (int, error) {
	b.Cents += cents
	return b.Cents, nil
}

// withdrawCents changes the state before it fails, which must have no effect.
func withdrawCents(ctx abide.EntityContext, b *balance, cents int) (int, error) {
	b.Cents -= cents
	if b.Cents < 0 {
		if err := abide.OperationNamed[int, int]("account", "deposit").SignalFrom(ctx, "fines", 1); err != nil {
			return 0, err
		}
		return 0, errFunds
	}
	return b.Cents, nil
}

func closeAccount(ctx abide.EntityContext, _ *balance, _ abide.None) (abide.None, error) {
	ctx.Delete()
	return abide.None{}, nil
}

// forwardCents sends all that there is to another account, and has it audited.
func forwardCents(ctx abide.EntityContext, b *balance, to string) (string, error) {
	if err := deposit.SignalFrom(ctx, to, b.Cents, abide.Delay(time.Hour)); err != nil {
		return "", err
	}
	text := fmt.Sprintf("%s forwards %d to %s", ctx.ID(), b.Cents, to)
	b.Cents = 0
	return audited.StartFrom(ctx, text, abide.ID("audit-"+ctx.ID().Key))
}

// transferCents moves money from one account to another, and no one sees it in neither or both.
func transferCents(ctx abide.Context, in transferIn) (string, error) {
	unlock, err := abide.Lock(ctx, account.ID(in.From), account.ID(in.To))
	if err != nil {
		return "", err
	}
	defer unlock()
	if _, err := withdraw.Call(ctx, in.From, in.Cents); err != nil {
		var failed *abide.EntityError
		if !errors.As(err, &failed) {
			return "", err
		}
		return fmt.Sprintf("%s of %s: %v", failed.Operation, failed.Entity, failed.Err), nil
	}
	if err := abide.Sleep(ctx, time.Minute); err != nil {
		return "", err
	}
	left, err := deposit.Call(ctx, in.To, in.Cents)
	return fmt.Sprint(left), err
}

func cents(t *testing.T, c abide.Caller, key string) int {
	t.Helper()
	b, _, err := account.Get(t.Context(), c, key)
	if err != nil {
		t.Fatal(err)
	}
	return b.Cents
}

// TestTransfer: orchestrations lock, call and unlock entities; a failure of an operation is an EntityError, and
// changes and sends nothing.
func TestTransfer(t *testing.T) {
	onStage(t, []abide.Definition{account, transfers}, func(s *stage) {
		engine := s.Engine
		for _, key := range []string{"a", "b"} {
			if err := deposit.Send(s.Context(), engine, key, 100); err != nil {
				t.Fatal(err)
			}
		}
		begin := func(in transferIn) *abide.Instance[string] {
			instance, err := transfers.Start(s.Context(), engine, in)
			s.check(err)
			return instance
		}
		there := begin(transferIn{"a", "b", 70})
		s.wait(0)
		back := begin(transferIn{"b", "a", 170})
		s.wait(0)
		much := begin(transferIn{"b", "a", 1})
		s.wait(time.Second)
		if got := cents(s.T, engine, "a"); got != 30 {
			t.Errorf("a has %d while it is locked", got)
		}
		info, err := engine.Entity(s.Context(), abide.Ref{ID: "@account@a"})
		if err != nil || info.LockedBy != there.ID() || info.Backlog != 2 || info.Waiting[0].Kind != history.EntityLockRequested {
			t.Errorf("a is %+v, %v", info, err)
		}
		for instance, want := range map[*abide.Instance[string]]string{there: "170", back: "200", much: "withdraw of @account@b: insufficient funds"} {
			if got, err := instance.Result(s.Context()); got != want || err != nil {
				t.Errorf("result %q, %v, want %q", got, err, want)
			}
		}
		s.wait(0)
		if a, b, fines := cents(s.T, engine, "a"), cents(s.T, engine, "b"), cents(s.T, engine, "fines"); a != 200 || b != 0 || fines != 0 {
			t.Errorf("a has %d, b %d, fines %d", a, b, fines)
		}
	})
}

// TestEntitySends: an operation signals entities, later too, starts orchestrations, and deletes its own state; lists show
// what there is, and a signal that is sent again is dropped.
func TestEntitySends(t *testing.T) {
	onStage(t, []abide.Definition{account, audited}, func(s *stage) {
		engine := s.Engine
		for range 3 {
			if err := deposit.Send(s.Context(), engine, "a", 5, abide.ID("once")); err != nil {
				t.Fatal(err)
			}
		}
		if err := forward.Send(s.Context(), engine, "a", "b"); err != nil {
			t.Fatal(err)
		}
		s.wait(time.Minute)
		if a, b := cents(s.T, engine, "a"), cents(s.T, engine, "b"); a != 0 || b != 0 {
			t.Errorf("before: a has %d, b %d", a, b)
		}
		audit, err := audited.Instance(engine, "audit-a").Result(s.Context())
		if err != nil || audit != "@account@a forwards 5 to b" {
			t.Errorf("audited %q, %v", audit, err)
		}
		s.wait(time.Hour)
		if got := cents(s.T, engine, "b"); got != 5 {
			t.Errorf("after: b has %d", got)
		}
		if err := closing.Send(s.Context(), engine, "a", abide.None{}, abide.Delay(time.Second)); err != nil {
			t.Fatal(err)
		}
		s.wait(time.Minute)
		page, err := engine.Entities(s.Context(), abide.EntityFilter{Prefix: "@Account@"})
		if err != nil || len(page.Entities) != 1 || page.Entities[0].Ref.ID != "@account@b" {
			t.Errorf("entities %+v, %v", page, err)
		}
		if _, ok, err := account.Get(s.Context(), engine, "a"); ok || err != nil {
			t.Errorf("a exists, %v", err)
		}
	})
}

// TestEntityDeclarations: what cannot be registered is refused.
func TestEntityDeclarations(t *testing.T) {
	t.Parallel()
	twice := abide.NewEntity[int]("twice")
	for range 2 {
		abide.NewOperation(twice, "add", func(_ abide.EntityContext, _ *int, _ int) (int, error) { return 0, nil })
	}
	for _, d := range []abide.Definition{twice, abide.NewEntity[int]("none"), abide.NewEntity[int]("a@b"), (*abide.Entity[int])(nil)} {
		s := memstore.New(memstore.Options{})
		t.Cleanup(func() { check.OK(t, s.Close()) })
		if _, err := abide.New(s, abide.Config{Register: []abide.Definition{d}}); !errors.Is(err, abide.ErrInvalid) {
			t.Errorf("%T: error %v", d, err)
		}
	}
}

// TestOperationThatIsToldToStop: an operation that fails because its process is closing runs again elsewhere; one before it
// in its batch has run.
func TestOperationThatIsToldToStop(t *testing.T) {
	kind := func(ran *[]string, closing bool) *abide.Entity[[]string] {
		e := abide.NewEntity[[]string]("list")
		abide.NewOperation(e, "add", func(ctx abide.EntityContext, s *[]string, what string) (abide.None, error) {
			*ran = append(*ran, what)
			if closing && what == "b" {
				<-ctx.Done()
				return abide.None{}, context.Cause(ctx)
			}
			*s = append(*s, what)
			return abide.None{}, nil
		})
		return e
	}
	var ran, again []string
	first := kind(&ran, true)
	onStage(t, nil, func(s *stage) {
		for _, what := range []string{"a", "b", "c"} {
			s.check(abide.OperationNamed[string, abide.None]("list", "add").Send(s.Context(), s.Engine, "x", what))
		}
		s.open(first)
		s.wait(time.Second)
		if err := s.Engine.Close(); !errors.Is(err, context.DeadlineExceeded) {
			s.Errorf("closed: %v", err)
		}
		s.Engine = nil
		s.open(kind(&again, false))
		s.wait(time.Second)
		state, _, err := first.Get(s.Context(), s.Engine, "x")
		s.check(err)
		check.Equal(s.T, "state", state, []string{"a", "b", "c"})
		check.Equal(s.T, "operations that ran first", ran, []string{"a", "b"})
		check.Equal(s.T, "operations that ran again", again, []string{"b", "c"})
	})
}
