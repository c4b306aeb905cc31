package workers_test

import (
	"fmt"
	"testing"

	"github.com/abidehq/abide"
	"github.com/abidehq/abide/internal/check"
)

// pinnedTo returns an orchestration whose instances are pinned to a build, which is their result.
func pinnedTo(build string) *abide.Orchestration[string, string] {
	return abide.NewOrchestration("pinned", func(ctx abide.Context, _ string) (string, error) {
		_, err := approved.Wait(ctx)
		return build, err
	}, abide.Builds(abide.Pinned))
}

// TestBuildsOfWorkers: instances stay with workers of the build that began them, workers of a build that is drained get
// nothing new, and what needs a build is told over the connection.
func TestBuildsOfWorkers(t *testing.T) {
	t.Parallel()
	h := newHost(t)
	as := func(build string) *abide.Engine {
		return h.work(func(c *abide.Config) { c.Build, c.WorkerName = build, "worker-"+build }, pinnedTo(build))
	}
	ctx := soon(t)
	buildOf := func(e *abide.Engine, id string) string {
		t.Helper()
		_, err := pinnedTo("").Start(ctx, e, "", abide.ID(id))
		check.OK(t, err)
		info, err := e.Get(ctx, abide.Ref{ID: id})
		for err == nil && info.Status == abide.Pending {
			info, err = e.WaitChange(ctx, info.Ref, info.Revision)
		}
		check.OK(t, err)
		return info.Build
	}
	a := as("a")
	check.Equal(t, "build of the first", buildOf(a, "first"), "a")
	b := as("b")
	check.OK(t, b.SetBuild(ctx, "a", abide.BuildChange{Drained: new(true)}))
	// That b is alive is known within seconds; from then on nothing new begins on a.
	n := 0
	check.Eventually(t, "a new instance begins on b", func() bool {
		n++
		return buildOf(a, fmt.Sprintf("new-%d", n)) == "b"
	})
	for i := range 20 {
		check.Equal(t, "build of one that is started later", buildOf(a, fmt.Sprintf("later-%d", i)), "b")
	}
	check.OK(t, approved.Raise(ctx, b, "first", "x"))
	result, err := pinnedTo("").Instance(b, "first").Result(ctx)
	check.OK(t, err)
	check.Equal(t, "result of the first", result, "a")

	list, err := b.Builds(ctx, "b")
	check.OK(t, err)
	if len(list) != 1 || list[0].Workers != 1 || len(list[0].Needs) != 1 || list[0].Needs[0] != (abide.BuildNeed{Orchestration: "pinned", Open: 21}) {
		t.Errorf("builds: %+v", list)
	}
	check.OK(t, b.Close())
	check.OK(t, approved.Raise(ctx, a, "later-0", "x"))
	check.Eventually(t, "it waits for a worker of its build", func() bool {
		unserved, err := a.Unserved(ctx)
		check.OK(t, err)
		return len(unserved) == 1 && unserved[0].Route == "pinned" && unserved[0].Build == "b"
	})
	moved, err := a.MoveBuild(ctx, abide.BuildMove{From: "b", To: "a"})
	check.OK(t, err)
	check.Equal(t, "moved", moved, abide.BuildMoved{Moved: 21})
	result, err = pinnedTo("").Instance(a, "later-0").Result(ctx)
	check.OK(t, err)
	check.Equal(t, "result of one that was moved", result, "a")
}
