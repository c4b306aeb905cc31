package web_test

import (
	"log/slog"
	"net/http"
	"testing"

	"github.com/abidehq/abide"
	"github.com/abidehq/abide/internal/check"
)

// TestBuildsPage: which builds there are, what needs them, and a form that sets their share.
func TestBuildsPage(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	pinned := abide.NewOrchestration("pinned", func(ctx abide.Context, _ abide.None) (abide.None, error) {
		_, err := abide.NewEvent[string]("go").Wait(ctx)
		return abide.None{}, err
	}, abide.Builds(abide.Pinned))
	e, err := abide.New(w.store, abide.Config{Register: []abide.Definition{pinned}, Build: "4f2a/9c1", WorkerName: "press", Logger: slog.New(slog.DiscardHandler)})
	check.OK(t, err)
	closed := false
	t.Cleanup(func() {
		if !closed {
			_ = e.Close()
		}
	})
	run, err := pinned.Start(t.Context(), e, abide.None{}, abide.ID("p-1"))
	check.OK(t, err)
	info, err := e.Get(t.Context(), run.Ref())
	for err == nil && info.Status == abide.Pending {
		info, err = e.WaitChange(t.Context(), run.Ref(), info.Revision)
	}
	check.OK(t, err)
	w.contains(w.see("/builds"), "4f2a/9c1", ">1</a> of pinned", "/builds/4f2a%2F9c1/set")
	page := w.see("/instances/default/p-1")
	w.contains(page, "4f2a/9c1")
	w.lacks(page, "A worker of build")
	w.contains(w.see("/instances?build=4f2a%2F9c1"), "p-1")
	w.lacks(w.see("/instances?build=other"), "p-1")

	w.contains(w.see("/builds/4f2a%2F9c1/set"), "New instances of build 4f2a/9c1", "Drain it")
	for _, bad := range []string{"half", "-1", "101"} {
		a := w.post("/builds/4f2a%2F9c1/set", "percent", bad)
		check.Equal(t, "status of "+bad, a.status, http.StatusBadRequest)
	}
	w.done("/builds/4f2a%2F9c1/set", "percent", "10%", "drained", "yes")
	w.contains(w.see("/builds"), "drained", "10 %")
	w.done("/builds/4f2a%2F9c1/set", "percent", "", "drained", "")
	w.lacks(w.see("/builds"), "drained", "10 %")
	check.Equal(t, "status of a build that is not known", w.get("/builds/none/set").status, http.StatusNotFound)

	closed = true
	check.OK(t, e.Close())
	check.OK(t, abide.NewEvent[string]("go").Raise(t.Context(), w.engine, "p-1", "x"))
	w.contains(w.see("/builds"), "none")
	w.contains(w.see("/instances/default/p-1"), "A worker of build 4f2a/9c1")
	w.contains(w.see("/workers"), "pinned", "of build 4f2a/9c1")
}
