package main

import (
	"context"
	"slices"
	"testing"
	"testing/synctest"

	"github.com/abidehq/abide/bus"
	"github.com/abidehq/abide/store/memstore"
)

func TestReminders(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		st := memstore.New(memstore.Options{})
		defer st.Close()
		timers, local, err := open(st)
		if err != nil {
			t.Fatal(err)
		}
		lines := make(chan string)
		local.Subscribe(bus.Filter{}, func(_ context.Context, e bus.Envelope) error {
			line, _, err := remind(e)
			lines <- line
			return err
		})
		ctx, stop := context.WithCancel(t.Context())
		done := make(chan error)
		go func() { done <- timers.Run(ctx) }()
		if err := schedule(ctx, timers); err != nil {
			t.Fatal(err)
		}
		got := []string{<-lines, <-lines}
		want := []string{
			"to the bakery: take the bread out of the oven (order-1)",
			"to the florist: water the roses (order-3)",
		}
		if !slices.Equal(got, want) {
			t.Errorf("it says %q, want %q", got, want)
		}
		stop()
		if err := <-done; err != nil {
			t.Error(err)
		}
	})
}
