package backoff

import (
	"context"
	"errors"
	"testing"
	"testing/synctest"
	"time"

	"github.com/abidehq/abide/internal/base"
)

var (
	errAgain = errors.New("again")
	errOver  = errors.New("over")
)

// TestRetry calls until there is nothing worth another try.
func TestRetry(t *testing.T) {
	t.Parallel()
	for _, tt := range []struct {
		name string
		errs []error // of the calls, the last one again and again
		want error
		n    int
	}{
		{"at once", []error{nil}, nil, 1},
		{"the third time", []error{errAgain, errAgain, nil}, nil, 3},
		{"another error", []error{errAgain, errOver}, errOver, 2},
		{"without end", []error{errAgain}, errAgain, Tries},
	} {
		t.Run(tt.name, func(t *testing.T) {
			t.Parallel()
			synctest.Test(t, func(t *testing.T) {
				n := 0
				err := Retry(t.Context(), base.System{}, func(err error) bool { return errors.Is(err, errAgain) }, func() error {
					n++
					return tt.errs[min(n, len(tt.errs))-1]
				})
				if !errors.Is(err, tt.want) || n != tt.n {
					t.Errorf("error %v after %d calls, want %v after %d", err, n, tt.want, tt.n)
				}
			})
		})
	}
}

// TestRetryPauses twice as long each time, up to a tenth of a second.
func TestRetryPauses(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		var gaps []time.Duration
		last := time.Now()
		_ = Retry(t.Context(), base.System{}, func(error) bool { return true }, func() error {
			gaps, last = append(gaps, time.Since(last)), time.Now()
			return errAgain
		})
		want := time.Millisecond
		for i, gap := range gaps[1:] {
			if gap > want || gap < want-want/5 {
				t.Errorf("pause %d is %v, want %v less a fifth at most", i, gap, want)
			}
			want = min(2*want, 100*time.Millisecond)
		}
	})
}

// TestRetryEndsWithItsContext, and returns what went wrong.
func TestRetryEndsWithItsContext(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		ctx, cancel := context.WithTimeout(t.Context(), 5*time.Millisecond)
		defer cancel()
		began := time.Now()
		err := Retry(ctx, base.System{}, func(error) bool { return true }, func() error { return errAgain })
		if !errors.Is(err, errAgain) || time.Since(began) != 5*time.Millisecond {
			t.Errorf("error %v after %v", err, time.Since(began))
		}
	})
}

func TestPauseDoubles(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		p := Pause{Clock: base.System{}, Min: time.Second, Max: 5 * time.Second}
		want := func(waits ...time.Duration) {
			t.Helper()
			for i, d := range waits {
				began := time.Now()
				err := p.Sleep(t.Context())
				if got := time.Since(began); err != nil || got > d || got < d-d/5 {
					t.Errorf("pause %d is %v, %v; want %v less a fifth at most", i, got, err, d)
				}
			}
		}
		want(time.Second, 2*time.Second, 4*time.Second, 5*time.Second, 5*time.Second)
		p.Reset()
		want(time.Second, 2*time.Second)
		ctx, cancel := context.WithCancel(t.Context())
		cancel()
		if err := p.Sleep(ctx); !errors.Is(err, context.Canceled) {
			t.Errorf("error %v", err)
		}
	})
}
