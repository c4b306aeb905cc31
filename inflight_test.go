package abide_test

import (
	"context"
	"fmt"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/abidehq/abide"
	"github.com/abidehq/abide/internal/teststore"
)

// TestMaxInFlight: an activity that is slow takes no more than its share of the slots, in each process, and another
// one begins at once.
func TestMaxInFlight(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		s := teststore.New(t)
		defer s.Close()
		var now, most atomic.Int64
		render := abide.NewActivity("render", func(context.Context, string) (string, error) {
			if n := now.Add(1); n > most.Load() {
				most.Store(n)
			}
			<-time.After(time.Minute)
			now.Add(-1)
			return "", nil
		})
		greet := abide.NewActivity("greet", func(ctx context.Context, _ string) (time.Duration, error) {
			info, _ := abide.ActivityOf(ctx)
			return time.Since(info.ScheduledAt), nil
		})
		film := abide.NewOrchestration("film", func(ctx abide.Context, n int) (string, error) {
			frames := make([]*abide.Future[string], n)
			for i := range frames {
				frames[i] = render.Go(ctx, "")
			}
			_, err := abide.All(ctx, frames...)
			return "", err
		})
		hello := abide.NewOrchestration("hello", func(ctx abide.Context, _ string) (time.Duration, error) { return greet.Call(ctx, "") })
		cfg := abide.Config{Register: []abide.Definition{render, greet, film, hello}, MaxActivities: 4, MaxInFlight: map[string]int{"render": 3}, Unlisted: true}
		var engines []*abide.Engine
		for range 2 {
			e, err := abide.New(s, cfg)
			if err != nil {
				t.Fatal(err)
			}
			defer func() { _ = e.Close() }() //nolint:gocritic // each engine is closed in the end
			engines = append(engines, e)
		}
		began := time.Now()
		long, err := film.Start(t.Context(), engines[0], 60)
		if err != nil {
			t.Fatal(err)
		}
		for i := range 60 {
			<-time.After(7 * time.Second)
			short, err := hello.Start(t.Context(), engines[i%2], "")
			if err != nil {
				t.Fatal(err)
			}
			if waited, err := short.Result(t.Context()); err != nil || waited != 0 {
				t.Errorf("after %v, the quick activity has waited for %v: %v", time.Since(began), waited, err)
			}
		}
		if _, err := long.Result(t.Context()); err != nil {
			t.Error(err)
		}
		if took := time.Since(began); took != 10*time.Minute || most.Load() != 6 {
			t.Errorf("60 of a minute, 3 at a time in each of 2 processes, took %v, with %d at a time", took, most.Load())
		}
	})
}

// TestMaxInFlightIsChecked: it names activities that are registered.
func TestMaxInFlightIsChecked(t *testing.T) {
	t.Parallel()
	s := teststore.New(t)
	defer s.Close()
	mail := abide.NewActivity("mail", func(context.Context, string) (string, error) { return "", nil })
	for most, words := range map[int]string{0: "must be 1 at least", -1: "must be 1 at least"} {
		_, err := abide.New(s, abide.Config{Register: []abide.Definition{mail}, MaxInFlight: map[string]int{"mail": most}})
		refuses(t, err, abide.ErrInvalid, fmt.Sprint(most), words)
	}
	_, err := abide.New(s, abide.Config{Register: []abide.Definition{mail}, MaxInFlight: map[string]int{"mali": 1}})
	refuses(t, err, abide.ErrInvalid, `"mali"`, "not in Register")
}
