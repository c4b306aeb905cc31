//go:build unix

package web_test

import (
	"fmt"
	"net/http"
	"testing"

	"github.com/abidehq/abide"
	"github.com/abidehq/abide/internal/browser"
	"github.com/abidehq/abide/internal/check"
)

// Labels of boxes.
const (
	terminateChildren = "Terminate the children that it waits for too, and theirs"
	deleteChildren    = "Delete its children that have ended too, and theirs"
)

func childOf(n int) abide.Ref { return abide.Ref{Tenant: "default", ID: fmt.Sprint("fan-1-part-", n)} }

// TestTheBoxOfChildren: an instance is terminated and deleted with its children if the box is ticked, and without them
// if it is not. Changes that have no box do not take it.
func TestTheBoxOfChildren(t *testing.T) {
	t.Parallel()
	for _, recursive := range []string{"", "yes"} {
		t.Run("recursive="+recursive, func(t *testing.T) {
			t.Parallel()
			w := newWorld(t)
			ref := w.startFan(2)
			w.contains(w.see("/instances/default/fan-1/terminate"), terminateChildren)
			w.done("/instances/default/fan-1/terminate", "reason", "enough", "recursive", recursive)
			want, code := abide.Cancelled, http.StatusOK // by the close policy
			if recursive != "" {
				want, code = abide.Terminated, http.StatusNotFound
			}
			w.until(ref, func(i abide.Info) bool { return i.Status == abide.Terminated })
			for i := range 2 {
				child := w.until(childOf(i), func(i abide.Info) bool { return i.Status.Ended() })
				check.Equal(t, "child", child.Status, want)
			}
			w.contains(w.see("/instances/default/fan-1/delete"), deleteChildren)
			w.done("/instances/default/fan-1/delete", "recursive", recursive)
			for i := range 2 {
				check.Equal(t, "page of a child", w.get("/instances/default/"+childOf(i).ID).status, code)
			}
			w.start("nap", "nap-1", "", abide.Running)
			w.lacks(w.see("/instances/default/nap-1/cancel"), `name="recursive"`)
			check.Equal(t, "a cancel with a box", w.post("/instances/default/nap-1/cancel", "recursive", "yes").status, http.StatusBadRequest)
		})
	}
}

// TestTheBoxOfChildrenInABrowser: in a dialog, of each width and colour.
func TestTheBoxOfChildrenInABrowser(t *testing.T) {
	t.Parallel()
	chromium := browser.New(t)
	for _, look := range looks {
		t.Run(look.String(), func(t *testing.T) {
			t.Parallel()
			w := newWorld(t)
			w.startFan(2)
			b := openTab(t, chromium, w, look)
			b.Open("/instances/default/fan-1")
			b.Press("Terminate")
			b.Tick(terminateChildren)
			b.check("terminate")
			b.Shoot("terminate-children")
			b.Press("Terminate")
			b.Shows("It was terminated.")
			for i := range 2 {
				child := w.until(childOf(i), func(i abide.Info) bool { return i.Status.Ended() })
				check.Equal(t, "child", child.Status, abide.Terminated)
			}
			b.Press("Delete")
			b.Tick(deleteChildren)
			b.check("delete")
			b.Press("Delete")
			b.Shows("It was deleted.")
			check.Equal(t, "page of a child", w.get("/instances/default/"+childOf(0).ID).status, http.StatusNotFound)
		})
	}
}
