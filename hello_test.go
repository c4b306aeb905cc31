package abide_test

import (
	"context"
	"runtime"
	"testing"
	"time"

	"github.com/abidehq/abide"
)

func TestHello(t *testing.T) {
	greet := abide.NewActivity("greet", func(_ context.Context, name string) (string, error) { return "Hello, " + name, nil })
	hello := abide.NewOrchestration("hello", func(ctx abide.Context, name string) (string, error) {
		if err := abide.Sleep(ctx, 10*time.Millisecond); err != nil {
			return "", err
		}
		return greet.Call(ctx, name)
	})
	e, err := abide.Open(t.Context(), abide.Config{Store: "memory:", Register: []abide.Definition{hello, greet}})
	if err != nil {
		t.Fatal(err)
	}
	defer e.Close()
	i, err := hello.Start(t.Context(), e, "world")
	if err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithTimeout(t.Context(), 5*time.Second)
	defer cancel()
	out, err := i.Result(ctx)
	t.Log(out, err)
	if err != nil {
		t.Fatal(err)
	}
	h, err := i.History(ctx)
	if err != nil {
		t.Fatal(err)
	}
	for _, ev := range h.Events {
		t.Log(ev.String())
	}
	if out != "Hello, world" {
		t.Fatal(out)
	}
	// What is durable is counted a moment later.
	counted := func(c abide.Counts) bool { return c.Started == 1 && c.Ended == 1 && c.Activities == 1 && c.Turns == 3 }
	for !counted(e.Counts()) && ctx.Err() == nil {
		runtime.Gosched()
	}
	if c := e.Counts(); !counted(c) {
		t.Errorf("counted %+v", c)
	}
}
