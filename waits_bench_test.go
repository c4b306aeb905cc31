package abide_test

import (
	"context"
	"fmt"
	"log/slog"
	"testing"
	"time"

	"github.com/abidehq/abide"
	"github.com/abidehq/abide/store/memstore"
)

// BenchmarkWaits measures Waits of an instance with a history of some 10,000 events: the first call of
// a client, and later ones.
func BenchmarkWaits(b *testing.B) {
	flow := abide.NewOrchestration("long", func(ctx abide.Context, n int) (abide.None, error) {
		for i := range n {
			if _, err := abide.Step(ctx, "step", func(context.Context) (string, error) { return fmt.Sprintf("result %d of a step", i), nil }); err != nil {
				return abide.None{}, err
			}
		}
		_, err := abide.NewEvent[bool]("go").Wait(ctx, abide.Timeout(time.Hour))
		return abide.None{}, err
	})
	st := memstore.New(memstore.Options{})
	defer st.Close()
	engine, err := abide.New(st, abide.Config{Register: []abide.Definition{flow}, Logger: slog.New(slog.DiscardHandler)})
	if err != nil {
		b.Fatal(err)
	}
	defer engine.Close()
	i, err := flow.Start(b.Context(), engine, 10_000)
	if err != nil {
		b.Fatal(err)
	}
	for {
		info, err := engine.Get(b.Context(), i.Ref())
		if err != nil {
			b.Fatal(err)
		}
		if len(info.Awaited) > 0 {
			break
		}
		if _, err := engine.WaitChange(b.Context(), i.Ref(), info.Revision); err != nil {
			b.Fatal(err)
		}
	}
	n, err := engine.HistoryLength(b.Context(), i.Ref(), 0)
	if err != nil || n < 10_000 {
		b.Fatalf("%d events, %v", n, err)
	}
	measure := func(client func() *abide.Client) func(b *testing.B) {
		return func(b *testing.B) {
			b.ReportAllocs()
			for b.Loop() {
				if waits, err := client().Waits(b.Context(), i.Ref()); err != nil || len(waits) != 2 {
					b.Fatalf("%+v, %v", waits, err)
				}
			}
		}
	}
	b.Run("first", measure(func() *abide.Client { return abide.NewClient(st, nil) }))
	b.Run("again", measure(func() *abide.Client { return engine.Client }))
}
