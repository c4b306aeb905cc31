package sim

import (
	"context"
	"math/rand/v2"
	"strings"
	"testing"
	"time"

	"github.com/abidehq/abide/internal/testenv"
	"github.com/abidehq/abide/store"
)

// broken is a store that breaks one rule of the contract now and then.
type broken struct {
	store.Store
	w     *world
	rnd   *rand.Rand
	oneIn int

	commit func(b *broken, tx *store.Tx) (drop bool)
	renew  bool // renewals are acknowledged and not made
	extra  int  // slots for activities that processes have beyond their limit
}

// Commit commits something else than it was given, or nothing.
func (b *broken) Commit(ctx context.Context, tx *store.Tx) error {
	if b.commit != nil && b.rnd.IntN(b.oneIn) == 0 && b.commit(b, tx) {
		return nil
	}
	return b.Store.Commit(ctx, tx)
}

// Renew says that it has renewed.
func (b *broken) Renew(ctx context.Context, d time.Duration, leases []store.Lease) ([]store.Lease, error) {
	if b.renew {
		return nil, nil
	}
	return b.Store.Renew(ctx, d, leases)
}

// isEvent reports whether a message is an event that a client raised.
func isEvent(m *store.Message) bool {
	return m.Key.Queue == "turns" && strings.HasPrefix(m.ID, "e/")
}

// TestBreaksAreFound: a store that breaks a rule makes the checks fail, soon.
func TestBreaksAreFound(t *testing.T) {
	for _, tt := range []struct {
		name string
		b    broken
		want string // part of a problem
	}{
		{"a message is lost", broken{oneIn: 40, commit: func(_ *broken, tx *store.Tx) bool {
			if n := len(tx.Put); n > 0 {
				tx.Put = tx.Put[:n-1]
			}
			return false
		}}, ""},
		{"a commit is acknowledged and lost", broken{oneIn: 60, commit: func(*broken, *store.Tx) bool { return true }}, ""},
		{"an event is put twice", broken{oneIn: 2, commit: func(_ *broken, tx *store.Tx) bool {
			for i := range tx.Put {
				if isEvent(&tx.Put[i]) {
					again := tx.Put[i]
					again.ID += "/again"
					tx.Put = append(tx.Put, again)
				}
			}
			return false
		}}, "twice"},
		{"an operation is put twice", broken{oneIn: 2, commit: func(_ *broken, tx *store.Tx) bool {
			for i := range tx.Put {
				if again := tx.Put[i]; again.Key.Queue == "entities" {
					again.ID += "/again"
					tx.Put = append(tx.Put, again)
				}
			}
			return false
		}}, "was put twice"},
		{"operations change places", broken{oneIn: 3, commit: func(b *broken, tx *store.Tx) bool {
			for i := range tx.Put {
				if m := &tx.Put[i]; m.Key.Queue == "entities" && m.VisibleAt.IsZero() {
					m.VisibleAt = b.w.clock.Now().Add(3 * time.Second)
				}
			}
			return false
		}}, "in the order"},
		{"a message comes early", broken{oneIn: 3, commit: func(b *broken, tx *store.Tx) bool {
			for i := range tx.Put {
				if m := &tx.Put[i]; m.VisibleAt.After(b.w.clock.Now()) {
					m.VisibleAt = m.VisibleAt.Add(-time.Second)
				}
			}
			return false
		}}, "early"},
		{"events change places", broken{oneIn: 2, commit: func(b *broken, tx *store.Tx) bool {
			for i := range tx.Put {
				if isEvent(&tx.Put[i]) {
					tx.Put[i].VisibleAt = b.w.clock.Now().Add(3 * time.Second)
				}
			}
			return false
		}}, "were raised"},
		{"a lease ends while it is kept", broken{renew: true}, "at the same time"},
		{"a process runs more than its limit", broken{extra: 3}, "at most"},
		{"history is lost", broken{oneIn: 60, commit: func(_ *broken, tx *store.Tx) bool {
			tx.Append = nil
			return false
		}}, ""},
		{"what was consumed comes back", broken{oneIn: 30, commit: func(_ *broken, tx *store.Tx) bool {
			tx.Finish = nil
			return false
		}}, ""},
		{"a message never becomes visible", broken{oneIn: 60, commit: func(_ *broken, tx *store.Tx) bool {
			if n := len(tx.Put); n > 0 {
				tx.Put[n-1].VisibleAt = time.Date(9000, 1, 1, 0, 0, 0, 0, time.UTC)
			}
			return false
		}}, ""},
	} {
		t.Run(tt.name, func(t *testing.T) {
			const most = 500
			first := testenv.Seed(t)
			for i := range most {
				seed := first + uint64(i)
				problems, _ := simulate(t, seed, func(w *world, s store.Store) store.Store {
					b := tt.b
					w.extraSlots = tt.b.extra
					b.Store, b.w, b.rnd = s, w, rand.New(rand.NewPCG(seed, 2))
					return &b
				})
				for _, p := range problems {
					if strings.Contains(p, tt.want) {
						t.Logf("found with seed %d, the %dth: %s", seed, i+1, p)
						return
					}
				}
			}
			t.Errorf("%d seeds did not find it", most)
		})
	}
}
