// Package teststore gives tests a store of the kind that the environment of the run asks for.
//
// Most tests of the engine, the timers and the actions run in virtual time, inside a
// bubble of testing/synctest. The store in memory can live there, and nothing else can: a
// bubble's time stands still while a goroutine waits for a disk or a network, and a
// goroutine that waits for ever keeps it from ending. So the other backends are used from
// the bubble and live outside.
package teststore

import (
	"context"
	"errors"
	"maps"
	"os"
	"slices"
	"strings"
	"testing"

	"github.com/abidehq/abide/internal/base"
	"github.com/abidehq/abide/store"
	"github.com/abidehq/abide/store/memstore"
)

// Env names the environment variable that says on which kind of store tests run. If it is
// not set they run on memstore, as it is. The other kinds run outside of the bubble;
// memory does too, which tells what is due to the backend from what is due to that.
const Env = "ABIDE_TEST_STORE"

// opener opens a fresh and empty store that lives by clock. It is called outside of the
// bubble.
type opener func(ctx context.Context, t testing.TB, clock base.Clock) (store.Store, error)

// kinds are the values of the environment variable.
var kinds = map[string]opener{
	"memory": openMemory,
	"least":  openLeast,
	"pebble": openPebble,
	"shards": openShards,
	"sqlite": openSQLite,
}

// New returns an empty store of the kind that the environment asks for. It lives by the
// clock of the caller's bubble, or of the machine, and is closed at the end of the test.
func New(t testing.TB) store.Store {
	t.Helper()
	return NewWithClock(t, base.System{})
}

// NewWithClock is New for a store that lives by a clock of the test's own.
func NewWithClock(t testing.TB, clock base.Clock) store.Store {
	t.Helper()
	s := newStore(t, os.Getenv(Env), clock)
	t.Cleanup(func() {
		if err := s.Close(); err != nil {
			t.Errorf("close the store: %v", err)
		}
	})
	return s
}

func newStore(t testing.TB, kind string, clock base.Clock) store.Store {
	t.Helper()
	return newStoreOf(t, kind, kinds, clock)
}

func newStoreOf(t testing.TB, kind string, kinds map[string]opener, clock base.Clock) store.Store {
	t.Helper()
	if kind == "" {
		return memstore.New(memstore.Options{Clock: clock})
	}
	open := kinds[kind]
	if open == nil {
		t.Fatalf("%s is %q; it can be %s, or nothing", Env, kind, strings.Join(slices.Sorted(maps.Keys(kinds)), ", "))
	}
	hidden := hiddenClock(clock)
	backend, err := opened(t, open, hidden)
	if err != nil {
		t.Fatal(err)
	}
	return wrap(backend, clock, hidden)
}

// opened opens a backend outside of the bubble. What fails the test there fails it here.
func opened(t testing.TB, open opener, clock base.Clock) (backend store.Store, err error) {
	t.Helper()
	err = errors.New("no store was opened")
	outside(context.Background(), func(context.Context) {
		backend, err = open(context.Background(), t, clock)
	})
	return backend, err
}
