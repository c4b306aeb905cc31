package outage_test

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"log/slog"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/abidehq/abide/internal/base"
	"github.com/abidehq/abide/internal/outage"
	"github.com/abidehq/abide/store"
	"github.com/abidehq/abide/store/memstore"
)

// rig is a watched store that answers as it is told, in virtual time.
type rig struct {
	store.Store // watched
	log         bytes.Buffer
	failed      []error
	answer      func(ctx context.Context) error
}

// inner is the store behind.
type inner struct {
	store.Store
	r *rig
}

func (s *inner) Commit(ctx context.Context, _ *store.Tx) error { return s.r.answer(ctx) }

func (s *inner) Renew(ctx context.Context, _ time.Duration, _ []store.Lease) ([]store.Lease, error) {
	return nil, s.r.answer(ctx)
}

func (s *inner) Claim(ctx context.Context, _ store.ClaimRequest) ([]store.Claim, error) {
	return nil, s.r.answer(ctx)
}

func bubble(t *testing.T, f func(t *testing.T, r *rig)) {
	t.Helper()
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		r := &rig{}
		m := memstore.New(memstore.Options{})
		defer m.Close()
		r.Store = outage.Watch(outage.Config{
			Store: &inner{m, r}, Clock: base.System{}, Logger: slog.New(slog.NewTextHandler(&r.log, nil)), Part: "engine",
			Limit: time.Minute, Failed: func(err error) { r.failed = append(r.failed, err) },
		})
		f(t, r)
	})
}

func (r *rig) commit(err error) error {
	r.answer = func(context.Context) error { return err }
	return r.Commit(context.Background(), &store.Tx{})
}

// lines returns what was logged, without the time.
func (r *rig) lines() []string {
	var lines []string
	for line := range strings.Lines(r.log.String()) {
		_, line, _ = strings.Cut(strings.TrimSpace(line), " ")
		lines = append(lines, line)
	}
	return lines
}

func check(t *testing.T, r *rig, want ...string) {
	t.Helper()
	if got := strings.Join(r.lines(), "\n"); got != strings.Join(want, "\n") {
		t.Errorf("logged:\n%s\nwant:\n%s", got, strings.Join(want, "\n"))
	}
}

var errDown = errors.New("refused")

// TestOneOutage: a line when it begins, one each minute, and one when it is over.
func TestOneOutage(t *testing.T) {
	bubble(t, func(t *testing.T, r *rig) {
		for range 1500 {
			if err := r.commit(errDown); !errors.Is(err, errDown) {
				t.Fatal(err)
			}
			<-time.After(50 * time.Millisecond)
		}
		<-time.After(10 * time.Second)
		for range 10 {
			if err := r.commit(nil); err != nil {
				t.Fatal(err)
			}
		}
		check(t, r,
			`level=WARN msg="store unavailable" part=engine call=commit error=refused`,
			`level=ERROR msg="store still unavailable" part=engine for=1m0s errors=1201 call=commit error=refused`,
			`level=INFO msg="store available again" part=engine after=1m14.95s errors=1500`)
	})
}

// TestCallsThatFailNowAndThen are one outage.
func TestCallsThatFailNowAndThen(t *testing.T) {
	bubble(t, func(t *testing.T, r *rig) {
		for range 50 {
			_ = r.commit(errDown)
			_ = r.commit(nil)
			<-time.After(time.Second)
		}
		<-time.After(9 * time.Second)
		_ = r.commit(fmt.Errorf("it answers: %w", store.ErrConflict))
		_ = r.commit(errDown)
		check(t, r,
			`level=WARN msg="store unavailable" part=engine call=commit error=refused`,
			`level=INFO msg="store available again" part=engine after=49s errors=50`,
			`level=WARN msg="store unavailable" part=engine call=commit error=refused`)
	})
}

// TestOneCallThatFails: that others succeed does not end the outage.
func TestOneCallThatFails(t *testing.T) {
	bubble(t, func(t *testing.T, r *rig) {
		_ = r.commit(errDown)
		<-time.After(time.Minute)
		r.answer = func(context.Context) error { return nil }
		_, _ = r.Claim(t.Context(), store.ClaimRequest{})
		check(t, r, `level=WARN msg="store unavailable" part=engine call=commit error=refused`)
		_ = r.commit(nil)
		check(t, r,
			`level=WARN msg="store unavailable" part=engine call=commit error=refused`,
			`level=INFO msg="store available again" part=engine after=0s errors=1`)
	})
}

// TestAnswersAreNoOutage, nor is a caller who goes away.
func TestAnswersAreNoOutage(t *testing.T) {
	bubble(t, func(t *testing.T, r *rig) {
		for _, err := range []error{store.ErrConflict, store.ErrClaimLost, store.ErrNotFound, store.ErrTooLarge, store.ErrCorrupt, store.ErrClosed} {
			_ = r.commit(fmt.Errorf("so: %w", err))
		}
		ctx, cancel := context.WithCancel(context.Background())
		cancel()
		r.answer = func(ctx context.Context) error { return ctx.Err() }
		_, _ = r.Claim(ctx, store.ClaimRequest{})
		_ = r.Commit(ctx, &store.Tx{})
		check(t, r)
	})
}

// TestLimit: a call without an answer ends, and counts.
func TestLimit(t *testing.T) {
	bubble(t, func(t *testing.T, r *rig) {
		r.answer = func(ctx context.Context) error {
			<-ctx.Done()
			return ctx.Err()
		}
		for _, ctx := range []context.Context{context.Background(), t.Context()} {
			var calls sync.WaitGroup
			for range 5 { // some of them share a limit
				calls.Go(func() {
					began := time.Now()
					err := r.Commit(ctx, &store.Tx{})
					if took := time.Since(began); !errors.Is(err, context.DeadlineExceeded) || took < time.Minute || took > time.Minute+100*time.Millisecond {
						t.Errorf("error %v after %v", err, took)
					}
				})
				<-time.After(30 * time.Millisecond)
			}
			calls.Wait()
		}
		check(t, r,
			`level=WARN msg="store unavailable" part=engine call=commit error="context deadline exceeded"`,
			`level=ERROR msg="store still unavailable" part=engine for=1m0.12s errors=6 call=commit error="context deadline exceeded"`)
	})
}

// TestRenewalWithoutAnAnswer counts, although its caller has set the time.
func TestRenewalWithoutAnAnswer(t *testing.T) {
	bubble(t, func(t *testing.T, r *rig) {
		r.answer = func(ctx context.Context) error {
			<-ctx.Done()
			return ctx.Err()
		}
		ctx, cancel := context.WithTimeout(context.Background(), time.Second)
		defer cancel()
		_, _ = r.Renew(ctx, time.Second, nil)
		check(t, r, `level=WARN msg="store unavailable" part=engine call=renew error="context deadline exceeded"`)
	})
}

// TestFailedStore is logged and told once.
func TestFailedStore(t *testing.T) {
	bubble(t, func(t *testing.T, r *rig) {
		for range 3 {
			_ = r.commit(fmt.Errorf("sync: %w", store.ErrFailed))
		}
		if len(r.failed) != 1 || !errors.Is(r.failed[0], store.ErrFailed) {
			t.Errorf("told %v", r.failed)
		}
		check(t, r, `level=ERROR msg="store failed" part=engine call=commit error="sync: store has failed"`)
	})
}

// TestWatchedTwice is watched once.
func TestWatchedTwice(t *testing.T) {
	bubble(t, func(t *testing.T, r *rig) {
		if again := outage.Watch(outage.Config{Store: r.Store}); again != r.Store {
			t.Error("another one")
		}
	})
}
