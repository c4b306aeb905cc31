package abidetest_test

import (
	"context"
	"encoding/json"
	"errors"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/abidehq/abide"
	"github.com/abidehq/abide/abidetest"
	"github.com/abidehq/abide/history"
)

// loop continues as new until it has counted down.
var loop = abide.NewOrchestration("loop", func(ctx abide.Context, n int) (int, error) {
	if err := abide.Sleep(ctx, time.Hour); err != nil || n == 0 {
		return n, err
	}
	return 0, abide.ContinueAsNew(ctx, n-1)
}, abide.Version("2"))

// TestRecordedHistoriesAreReplayed: those that have ended, in each way, those that are
// under way, and those of executions that went on as the next one.
func TestRecordedHistoriesAreReplayed(t *testing.T) {
	t.Parallel()
	dir := filepath.Join(t.TempDir(), "a", "folder")
	var files []string
	abidetest.Run(t, func(t *testing.T, env *abidetest.Env) {
		env.Register(Order, loop)
		abidetest.Stub(env, Remind, func(context.Context, string) (abide.None, error) { return abide.None{}, nil })
		abidetest.Stub(env, Charge, func(_ context.Context, in OrderIn) (string, error) {
			if in.Cents == 0 {
				return "", abide.Final(abide.NewError("nothing", "nothing to charge"))
			}
			return "c", nil
		})
		c := env.Client()
		for id, in := range map[string]OrderIn{"completed": {Cents: 1}, "failed": {}, "cancelled": {Cents: 1}, "terminated": {Cents: 1}, "running": {Cents: 1}} {
			abidetest.Start(env, Order, in, abide.ID(id))
		}
		abidetest.Start(env, Order, OrderIn{Cents: 1}, abide.ID("pending"), abide.StartAfter(365*24*time.Hour))
		abidetest.Start(env, loop, 3, abide.ID("ended"), abide.Tenant("acme"))
		env.Advance(25 * time.Hour)
		for _, id := range []string{"completed", "failed"} {
			abidetest.Raise(env, Approved, id, Approval{By: "the manager"})
		}
		must(t, c.Cancel(t.Context(), abide.Ref{ID: "cancelled"}, "enough"))
		must(t, c.Terminate(t.Context(), abide.Ref{ID: "terminated"}, "enough"))
		abidetest.Start(env, loop, 3, abide.ID("a/b~c"))
		env.Advance(90 * time.Minute)

		var err error
		files, err = abidetest.RecordAll(t.Context(), c, abide.Filter{Limit: 2}, dir)
		must(t, err)
		again, err := abidetest.RecordAll(t.Context(), c, abide.Filter{}, dir)
		must(t, err)
		if !slices.Equal(files, again) {
			t.Errorf("recorded again as %q, before as %q", again, files)
		}
		one, err := abidetest.Record(t.Context(), c, abide.Ref{ID: "running"}, t.TempDir())
		if err != nil || len(one) != 1 || filepath.Base(one[0]) != "order~running~1.json" {
			t.Errorf("one: %q, %v", one, err)
		}
		if _, err := abidetest.Record(t.Context(), c, abide.Ref{ID: "nobody"}, dir); !errors.Is(err, abide.ErrNotFound) {
			t.Errorf("one that is not there: %v", err)
		}
	})
	var names []string
	for _, file := range files {
		names = append(names, filepath.Base(file))
	}
	slices.Sort(names)
	if want := []string{
		"loop@2~a%2Fb%7Ec~1.json", "loop@2~a%2Fb%7Ec~2.json", "loop@2~acme~ended~3.json", "loop@2~acme~ended~4.json",
		"order~cancelled~1.json", "order~completed~1.json", "order~failed~1.json", "order~running~1.json", "order~terminated~1.json",
	}; !slices.Equal(names, want) {
		t.Errorf("recorded %q, want %q", names, want)
	}
	last := map[string]history.Kind{}
	for _, file := range files {
		data, err := os.ReadFile(file)
		must(t, err)
		if !strings.HasPrefix(string(data), "{\n  \"instance\": {\n") || !strings.HasSuffix(string(data), "\n}\n") {
			t.Errorf("%s is not for people:\n%s", file, data)
		}
		var h abide.History
		must(t, json.Unmarshal(data, &h))
		last[filepath.Base(file)] = h.Events[len(h.Events)-1].Kind
	}
	for name, want := range map[string]history.Kind{
		"order~completed~1.json": history.ExecutionCompleted, "order~failed~1.json": history.ExecutionFailed, "order~cancelled~1.json": history.ExecutionCancelled,
		"order~terminated~1.json": history.ExecutionTerminated, "order~running~1.json": history.TimerCreated,
		"loop@2~acme~ended~3.json": history.ExecutionContinued, "loop@2~acme~ended~4.json": history.ExecutionCompleted,
	} {
		if last[name] != want {
			t.Errorf("%s ends with %s, want %s", name, last[name], want)
		}
	}
	for name, source := range map[string]abidetest.Source{
		"folder": abidetest.Files(dir), "pattern": abidetest.Files(filepath.Join(dir, "*.json")), "files": abidetest.Files(files...),
		"file system": abidetest.FS(os.DirFS(filepath.Dir(dir))),
	} {
		t.Run(name, func(t *testing.T) { abidetest.Replay(t, source, Order, loop, Charge) })
	}
}

func must(t *testing.T, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
}

// TestHistoryKnowsItsVersion: an execution that went on as another version is a history of
// the old one.
func TestHistoryKnowsItsVersion(t *testing.T) {
	t.Parallel()
	one := abide.NewOrchestration("moving", func(ctx abide.Context, n int) (int, error) {
		return 0, abide.ContinueAsNew(ctx, n+1, abide.Version("2"))
	}, abide.Version("1"))
	two := abide.NewOrchestration("moving", func(_ abide.Context, n int) (int, error) { return n, nil }, abide.Version("2"))
	dir := t.TempDir()
	abidetest.Run(t, func(t *testing.T, env *abidetest.Env) {
		env.Register(one, two)
		if got := abidetest.Start(env, one, 1, abide.ID("m")).Result(); got != 2 {
			t.Errorf("got %d", got)
		}
		files, err := abidetest.RecordAll(t.Context(), env.Client(), abide.Filter{}, dir)
		if len(files) != 2 || filepath.Base(files[0]) != "moving@2~m~2.json" || filepath.Base(files[1]) != "moving@1~m~1.json" {
			t.Errorf("recorded %q, %v", files, err)
		}
	})
	abidetest.Replay(t, abidetest.Files(dir), one, two)
}

// TestReplayWithAnotherCodec: bytes that are not JSON come back as they were.
func TestReplayWithAnotherCodec(t *testing.T) {
	t.Parallel()
	o := abide.NewOrchestration("echo", func(ctx abide.Context, s string) (string, error) {
		return s, abide.Sleep(ctx, time.Minute, abide.Named(s))
	})
	dir := t.TempDir()
	abidetest.Run(t, func(t *testing.T, env *abidetest.Env) {
		env.Config.Codec = base64JSON{}
		env.Register(o)
		abidetest.Start(env, o, "hello").Result()
		_, err := abidetest.RecordAll(t.Context(), env.Client(), abide.Filter{}, dir)
		must(t, err)
	})
	abidetest.Replay(t, abidetest.Files(dir).WithCodec(base64JSON{}), o)
}

// TestReplayOfAFork: a history that breaks off within a turn is replayed as far as whole
// turns go.
func TestReplayOfAFork(t *testing.T) {
	t.Parallel()
	var h abide.History
	abidetest.Run(t, func(t *testing.T, env *abidetest.Env) {
		env.Register(Order)
		remind := abidetest.Stub(env, Remind, func(context.Context, string) (abide.None, error) { return abide.None{}, nil })
		abidetest.Start(env, Order, OrderIn{}, abide.ID("o1"))
		env.Advance(30 * time.Hour)
		c := env.Client()
		ref, err := c.Fork(t.Context(), abide.Ref{ID: "o1"}, 5, "o2")
		must(t, err)
		h, err = c.History(t.Context(), ref, 0)
		must(t, err)
		if !h.Partial || len(h.Events) != 5 {
			t.Errorf("partial: %v, with %d events", h.Partial, len(h.Events))
		}
		env.Advance(time.Hour)
		if remind.Calls() != 2 {
			t.Errorf("%d reminders, want one of each", remind.Calls())
		}
	})
	abidetest.Replay(t, abidetest.Histories(h), Order)
}

// TestReplayRunsNoSteps: it has no effects.
func TestReplayRunsNoSteps(t *testing.T) {
	t.Parallel()
	steps := 0
	o := abide.NewOrchestration("stepping", func(ctx abide.Context, _ abide.None) (int, error) {
		n, err := abide.Step(ctx, "step", func(context.Context) (int, error) {
			steps++
			return steps, nil
		})
		if err != nil {
			return 0, err
		}
		return n, abide.Sleep(ctx, time.Hour)
	})
	var h abide.History
	abidetest.Run(t, func(_ *testing.T, env *abidetest.Env) {
		env.Register(o)
		i := abidetest.Start(env, o, abide.None{})
		i.Result()
		h = i.History()
	})
	abidetest.Replay(t, abidetest.Histories(h), o)
	if steps != 1 {
		t.Errorf("the step was run %d times", steps)
	}
}

// TestLongNames: a file's name is not longer than file systems allow, and still that of one
// history alone.
func TestLongNames(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	abidetest.Run(t, func(t *testing.T, env *abidetest.Env) {
		env.Register(loop)
		for _, id := range []string{strings.Repeat("ä", 250) + "1", strings.Repeat("ä", 250) + "2"} {
			abidetest.Start(env, loop, 0, abide.ID(id)).Result()
		}
		files, err := abidetest.RecordAll(t.Context(), env.Client(), abide.Filter{}, dir)
		must(t, err)
		if len(files) != 2 || files[0] == files[1] || len(filepath.Base(files[0])) > 255 {
			t.Errorf("recorded %q", files)
		}
	})
	abidetest.Replay(t, abidetest.Files(dir), loop)
}
