package abide_test

import (
	"context"
	"errors"
	"testing"
	"testing/synctest"
	"time"

	"github.com/abidehq/abide"
	"github.com/abidehq/abide/internal/teststore"
	"github.com/abidehq/abide/store/memstore"
)

var watched = abide.NewOrchestration("watched", func(ctx abide.Context, _ string) (string, error) {
	return tenantGo.Wait(ctx)
}, abide.Version("3"))

// TestChanges: the changes that a program reads have the state of its instances.
func TestChanges(t *testing.T) {
	onStage(t, []abide.Definition{watched}, func(s *stage) {
		var w abide.Watcher = s.Engine
		ctx, cancel := context.WithCancel(s.Context())
		defer cancel()
		changes := w.Changes(ctx, "")
		i, err := watched.Start(s.Context(), s, "", abide.ID("a"), abide.Tenant("acme"))
		s.check(err)
		s.wait(time.Second)
		var cursor string
		for c, err := range changes {
			s.check(err)
			info, err := i.Info(s.Context())
			s.check(err)
			want := abide.Change{
				Cursor: c.Cursor, Ref: abide.Ref{Tenant: "acme", ID: "a"}, Orchestration: "watched", Version: "3",
				Status: abide.Running, Revision: info.Revision, At: info.StartedAt,
			}
			if c.Cursor == "" || !c.At.Equal(want.At) {
				s.Errorf("told %+v, want %+v", c, want)
			}
			c.At, want.At = time.Time{}, time.Time{}
			same(s, "change", c, want)
			cursor = c.Cursor
			break
		}
		s.check(tenantGo.Raise(s.Context(), s, "a", "x", abide.Tenant("acme")))
		_, err = i.Result(s.month())
		s.check(err)
		for c, err := range w.Changes(ctx, cursor) {
			s.check(err)
			same(s, "status", c.Status, abide.Completed)
			cancel()
		}
		for _, err := range w.Changes(s.Context(), "another process's") {
			if !errors.Is(err, abide.ErrMissed) {
				s.Errorf("a cursor of another process: %v", err)
			}
		}
	})
}

// TestChangesEndWithTheEngine, also those that nobody waits for.
func TestChangesEndWithTheEngine(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		s := teststore.New(t)
		defer s.Close()
		e, err := abide.New(s, abide.Config{})
		if err != nil {
			t.Fatal(err)
		}
		ended := make(chan error)
		changes := e.Changes(t.Context(), "")
		go func() {
			for _, err := range changes {
				ended <- err
			}
		}()
		synctest.Wait()
		if err := e.Close(); err != nil {
			t.Error(err)
		}
		if err := <-ended; !errors.Is(err, abide.ErrStopping) {
			t.Errorf("ended with %v", err)
		}
	})
}

// TestStoreIsTheOneThatWasGiven, with all that it can do.
func TestStoreIsTheOneThatWasGiven(t *testing.T) {
	t.Parallel()
	s := teststore.New(t)
	defer s.Close()
	e, err := abide.New(s, abide.Config{})
	if err != nil {
		t.Fatal(err)
	}
	if e.Store() != s {
		t.Errorf("it is %T", e.Store())
	}
	if err := e.Close(); err != nil {
		t.Error(err)
	}
	opened, err := abide.Open(t.Context(), abide.Config{Store: "memory://"})
	if err != nil {
		t.Fatal(err)
	}
	if _, ok := opened.Store().(*memstore.Store); !ok {
		t.Errorf("it is %T", opened.Store())
	}
	if err := opened.Close(); err != nil {
		t.Error(err)
	}
}
