package fleet

import (
	"context"
	"errors"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgxpool"

	"github.com/abidehq/abide"
	"github.com/abidehq/abide/internal/testenv"
	"github.com/abidehq/abide/store"
	"github.com/abidehq/abide/store/pgstore"
	"github.com/abidehq/abide/timer"
)

// shop is a program with a table of its own beside the store.
type shop struct {
	*testing.T
	pool   *pgxpool.Pool
	engine *abide.Engine
	timers *timer.Service
}

var (
	paid   = abide.NewEvent[int]("paid")
	fulfil = abide.NewOrchestration("fulfil", func(ctx abide.Context, order int) (int, error) {
		amount, err := paid.Receive(ctx).Get(ctx)
		return order + amount, err
	})
)

func newShop(t *testing.T, options string) *shop {
	t.Helper()
	t.Parallel()
	u := testenv.SharedPostgres(t).Database(t)
	pool, err := pgxpool.New(t.Context(), u)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(pool.Close)
	if options != "" {
		u += "&" + options // there are some already
	}
	st, err := pgstore.Open(t.Context(), u, pgstore.Options{})
	if err != nil {
		t.Fatal(err)
	}
	engine, err := abide.New(st, abide.Config{Register: []abide.Definition{fulfil}})
	if err != nil {
		t.Fatal(err)
	}
	timers, err := timer.New(timer.Config{Store: st})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := errors.Join(engine.Close(), st.Close()); err != nil {
			t.Error(err)
		}
	})
	s := &shop{T: t, pool: pool, engine: engine, timers: timers}
	s.check(pool.Exec(t.Context(), "CREATE TABLE orders (number int PRIMARY KEY)"))
	// The engine is at work, so that turns are fused where they may be.
	s.check(fulfil.Start(t.Context(), engine, 0, abide.ID("first")))
	s.check(nil, paid.Raise(t.Context(), engine, "first", 0))
	s.result("first")
	return s
}

func (s *shop) check(_ any, err error) {
	s.Helper()
	if err != nil {
		s.Fatal(err)
	}
}

// within runs f in a transaction, which is committed or rolled back.
func (s *shop) within(commit bool, f func(ctx context.Context, tx pgx.Tx)) {
	s.Helper()
	tx, err := s.pool.Begin(s.Context())
	s.check(nil, err)
	defer func() { _ = tx.Rollback(context.Background()) }() // nothing is left to undo after a commit
	f(pgstore.WithTx(s.Context(), tx), tx)
	if commit {
		s.check(nil, tx.Commit(s.Context()))
	} else {
		s.check(nil, tx.Rollback(s.Context()))
	}
}

// place inserts an order and starts its instance.
func (s *shop) place(ctx context.Context, tx pgx.Tx, number int, id string) {
	s.Helper()
	s.check(tx.Exec(ctx, "INSERT INTO orders VALUES ($1)", number))
	s.check(fulfil.Start(ctx, s.engine, number, abide.ID(id)))
}

func (s *shop) orders() (n int) {
	s.Helper()
	s.check(nil, s.pool.QueryRow(s.Context(), "SELECT count(*) FROM orders").Scan(&n))
	return n
}

// result returns the result of an instance that must come soon.
func (s *shop) result(id string) int {
	s.Helper()
	ctx, cancel := context.WithTimeout(s.Context(), time.Minute)
	defer cancel()
	out, err := fulfil.Instance(s.engine, id).Result(ctx)
	s.check(nil, err)
	return out
}

func TestTransactionOfTheCaller(t *testing.T) {
	for name, options := range map[string]string{"notified": "", "not notified": "notify=off"} {
		t.Run(name, func(t *testing.T) {
			s := newShop(t, options)
			s.within(false, func(ctx context.Context, tx pgx.Tx) {
				s.place(ctx, tx, 1, "order-1")
				s.check(nil, paid.Raise(ctx, s.engine, "order-1", 1))
				s.check(s.timers.Schedule(ctx, timer.Request{Tenant: "acme", Key: "reminder", DueAt: time.Now().Add(time.Hour)}))
				if _, err := s.engine.Get(ctx, abide.Ref{ID: "order-1"}); err != nil {
					t.Errorf("the transaction does not see what it started: %v", err)
				}
				if _, err := s.engine.Get(s.Context(), abide.Ref{ID: "order-1"}); !errors.Is(err, abide.ErrNotFound) {
					t.Errorf("others see it before the commit: %v", err)
				}
			})
			if n := s.orders(); n != 0 {
				t.Errorf("%d orders after a rollback", n)
			}
			if _, err := s.engine.Get(s.Context(), abide.Ref{ID: "order-1"}); !errors.Is(err, abide.ErrNotFound) {
				t.Errorf("an instance after a rollback: %v", err)
			}
			if _, err := s.timers.Get(s.Context(), "acme", "reminder"); !errors.Is(err, timer.ErrNotFound) {
				t.Errorf("a timer after a rollback: %v", err)
			}

			s.within(true, func(ctx context.Context, tx pgx.Tx) {
				s.place(ctx, tx, 1, "order-1")
				s.check(s.timers.Schedule(ctx, timer.Request{Tenant: "acme", Key: "reminder", DueAt: time.Now().Add(time.Hour)}))
			})
			info, err := s.engine.Get(s.Context(), abide.Ref{ID: "order-1"})
			for err == nil && info.Status != abide.Running { // until its first turn
				info, err = s.engine.WaitChange(s.Context(), info.Ref, info.Revision)
			}
			s.check(nil, err)
			s.within(false, func(ctx context.Context, _ pgx.Tx) {
				s.check(nil, paid.Raise(ctx, s.engine, "order-1", 1000))
			})
			s.within(true, func(ctx context.Context, _ pgx.Tx) {
				s.check(nil, paid.Raise(ctx, s.engine, "order-1", 41))
			})
			if got := s.result("order-1"); got != 42 {
				t.Errorf("the result is %d", got)
			}
			if n := s.orders(); n != 1 {
				t.Errorf("%d orders after a commit", n)
			}
			if _, err := s.timers.Get(s.Context(), "acme", "reminder"); err != nil {
				t.Errorf("no timer after a commit: %v", err)
			}
		})
	}
}

func TestTransactionGoesOnAfterAConflict(t *testing.T) {
	s := newShop(t, "")
	s.check(fulfil.Start(s.Context(), s.engine, 1, abide.ID("order-1")))
	s.within(true, func(ctx context.Context, tx pgx.Tx) {
		s.check(tx.Exec(ctx, "INSERT INTO orders VALUES (2)"))
		if _, err := fulfil.Start(ctx, s.engine, 1, abide.ID("order-1"), abide.RejectExisting()); !errors.Is(err, abide.ErrExists) {
			t.Errorf("start of what exists: %v", err)
		}
		s.check(fulfil.Start(ctx, s.engine, 2, abide.ID("order-2")))
	})
	s.check(nil, paid.Raise(s.Context(), s.engine, "order-2", 1))
	if got := s.result("order-2"); got != 3 || s.orders() != 1 {
		t.Errorf("the result is %d, and there are %d orders", got, s.orders())
	}
}

func TestWhatWaitsHasNoPlaceInATransaction(t *testing.T) {
	s := newShop(t, "")
	s.within(false, func(ctx context.Context, _ pgx.Tx) {
		st := s.engine.Store()
		_, claim := st.Claim(ctx, store.ClaimRequest{Queue: "q", Routes: []string{"r"}, Max: 1, Lease: time.Second})
		_, await := st.Await(ctx, store.RecordKey{Kind: "k", ID: "1"}, 0)
		_, renew := st.Renew(ctx, time.Second, nil)
		release := st.Release(ctx, store.Release{Lease: store.Lease{Key: store.Key{Queue: "q", Name: "n"}, Token: "t"}})
		for name, err := range map[string]error{"claim": claim, "await": await, "renew": renew, "release": release} {
			if !errors.Is(err, store.ErrInvalid) {
				t.Errorf("%s: %v", name, err)
			}
		}
	})
}
