package abidetest_test

import (
	"context"
	"log/slog"
	"os"
	"strings"
	"testing"
	"time"

	"github.com/abidehq/abide"
	"github.com/abidehq/abide/abidetest"
)

// shipping is an orchestration, and changes of its code.
func shipping(change string) *abide.Orchestration[OrderIn, string] {
	is := func(name string) bool { return change == name }
	return abide.NewOrchestration("shipping", func(ctx abide.Context, in OrderIn) (string, error) {
		text := "waits"
		if is("the text of `SetStatus`") {
			text = "is waiting"
		}
		abide.SetStatus(ctx, text)
		if is("an added `SetStatus`") {
			abide.SetStatus(ctx, "more")
		}
		if is("an added activity behind `abide.Changed`") && abide.Changed(ctx, "remind") {
			if _, err := Remind.Call(ctx, in.ID); err != nil {
				return "", err
			}
		}
		if is("an added activity, timer, child or event") {
			if _, err := Remind.Call(ctx, in.ID); err != nil {
				return "", err
			}
		}
		length, name := time.Hour, "pause"
		if is("the length of a timer") {
			length = 2 * time.Hour
		}
		if is("the name of a timer") {
			name = "break"
		}
		if err := abide.Sleep(ctx, length, abide.Named(name)); err != nil {
			return "", err
		}
		if is("a removed activity, timer, child or event") {
			return "none", nil
		}
		opts := []abide.ActivityOption{}
		if is("retries and time limits of an activity") {
			opts = append(opts, abide.Retry(9))
		}
		if is("the input of an activity") {
			in.ID += "-2"
		}
		id, err := Charge.Call(ctx, in, opts...)
		if is("the result of the orchestration") {
			id += "!"
		}
		return id, err
	})
}

// changes are the rows of docs/deploying.md: what may change without a guard, and what may not.
var changes = map[string]bool{
	"the text of `SetStatus`":                   true,
	"the length of a timer":                     true,
	"the input of an activity":                  true,
	"retries and time limits of an activity":    true,
	"the result of the orchestration":           true,
	"an added activity behind `abide.Changed`":  true,
	"an added `SetStatus`":                      false,
	"the name of a timer":                       false,
	"an added activity, timer, child or event":  false,
	"a removed activity, timer, child or event": false,
}

// TestWhatMayChange: what docs/deploying.md says of changes is so.
func TestWhatMayChange(t *testing.T) {
	t.Parallel()
	document, err := os.ReadFile("../docs/deploying.md")
	if err != nil {
		t.Fatal(err)
	}
	var h abide.History
	abidetest.Run(t, func(_ *testing.T, env *abidetest.Env) {
		env.Register(shipping(""))
		abidetest.Stub(env, Charge, func(context.Context, OrderIn) (string, error) { return "c", nil })
		instance := abidetest.Start(env, shipping(""), OrderIn{ID: "1"})
		instance.Result()
		h = instance.History()
	})
	for change, allowed := range changes {
		replayer, err := abide.NewReplayer(nil, slog.New(slog.DiscardHandler), shipping(change))
		if err != nil {
			t.Fatal(err)
		}
		if _, err := replayer.Replay(&h); (err == nil) != allowed {
			t.Errorf("%s: allowed %v, and the replay: %v", change, allowed, err)
		}
		row := "| " + change + " | " + map[bool]string{true: "yes", false: "no"}[allowed]
		if !strings.Contains(string(document), row) {
			t.Errorf("docs/deploying.md has no row %q", row)
		}
	}
}
