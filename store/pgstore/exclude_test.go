package pgstore

import (
	"errors"
	"fmt"
	"testing"
	"time"

	"github.com/abidehq/abide/store"
)

// TestWhoDiedIsGone: a process that was not seen for a while does not keep the store in
// use, and one that has it for itself does not keep it for ever.
func TestWhoDiedIsGone(t *testing.T) {
	t.Parallel()
	u := newURL(t)
	soon := Options{presence: presence{every: 50 * time.Millisecond, gone: 600 * time.Millisecond}}
	a, b := open(t, u, soon), open(t, u, soon)
	if _, err := b.Exclude(t.Context()); !errors.Is(err, store.ErrInUse) {
		t.Fatalf("exclude while it is open elsewhere: %v, want ErrInUse", err)
	}
	kill(a)
	eventually(t, "who died counts as gone", func() bool {
		_, err := b.Exclude(t.Context())
		if err != nil && !errors.Is(err, store.ErrInUse) {
			t.Fatal(err)
		}
		return err == nil
	})
	if _, err := Open(t.Context(), u, soon); !errors.Is(err, store.ErrInUse) {
		t.Fatalf("open while it is excluded: %v, want ErrInUse", err)
	}
	kill(b)
	eventually(t, "who excluded others and died counts as gone", func() bool {
		s, err := Open(t.Context(), u, soon)
		if err != nil {
			if !errors.Is(err, store.ErrInUse) {
				t.Fatal(err)
			}
			return false
		}
		return s.Close() == nil
	})
}

// TestDeadProcessesAreForgotten: a process that was killed and started again within a minute
// knows, once the other one counts as gone, that it is alone, and removes its row.
func TestDeadProcessesAreForgotten(t *testing.T) {
	t.Parallel()
	u := newURL(t)
	killed := open(t, u, Options{})
	kill(killed)
	s := open(t, u, Options{presence: presence{every: time.Hour, gone: time.Second}})
	commit := func(i int) {
		t.Helper()
		if err := s.Commit(t.Context(), put("turns", fmt.Sprint(i), "a", "order")); err != nil {
			t.Fatal(err)
		}
	}
	i := 0
	eventually(t, "the process that was killed does not count any more", func() bool {
		i++
		commit(i)
		return s.db.Alone()
	})
	if n := count(t, u, "processes", s.db.config.schema); n != 2 {
		t.Fatalf("%d processes are noted, want that of the dead one too", n)
	}
	if err := s.db.heartbeat(t.Context()); err != nil {
		t.Fatal(err)
	}
	if n := count(t, u, "processes", s.db.config.schema); n != 1 {
		t.Errorf("%d processes are noted, want this one alone", n)
	}
}

// TestWhoWasFrozenStaysOut: a process that stood still for so long that it counted as gone,
// and wakes up while another one has the store for itself, changes nothing.
func TestWhoWasFrozenStaysOut(t *testing.T) {
	t.Parallel()
	u := newURL(t)
	frozen := open(t, u, Options{presence: presence{every: time.Hour, gone: 300 * time.Millisecond}})
	other := open(t, u, Options{presence: presence{every: 50 * time.Millisecond, gone: 300 * time.Millisecond}})
	var release func() error
	eventually(t, "who is frozen counts as gone", func() (ok bool) {
		var err error
		release, err = other.Exclude(t.Context())
		return err == nil
	})
	tx := put("turns", "order-1", "a", "order")
	if err := frozen.Commit(t.Context(), tx); !errors.Is(err, store.ErrInUse) {
		t.Errorf("commit of a process that is kept out: %v, want ErrInUse", err)
	}
	if err := other.Commit(t.Context(), tx); err != nil {
		t.Errorf("commit of the one that has the store: %v", err)
	}
	if claims, err := frozen.Claim(t.Context(), request(1, 0)); !errors.Is(err, store.ErrInUse) {
		t.Errorf("claim of a process that is kept out: %v, %v, want ErrInUse", claims, err)
	}
	if claims, err := other.Claim(t.Context(), request(1, 0)); err != nil || len(claims) != 1 {
		t.Errorf("claim of the one that has the store: %v, %v", claims, err)
	}
	if err := release(); err != nil {
		t.Fatal(err)
	}
	if err := frozen.Commit(t.Context(), put("turns", "order-2", "a", "order")); err != nil {
		t.Errorf("commit after the release: %v", err)
	}
	if err := frozen.db.heartbeat(t.Context()); err != nil {
		t.Errorf("entering again: %v", err)
	}
	if _, err := other.Exclude(t.Context()); !errors.Is(err, store.ErrInUse) {
		t.Errorf("exclude, now that the other is back: %v, want ErrInUse", err)
	}
}
