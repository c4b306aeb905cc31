package engine

import (
	"fmt"
	"testing"
	"time"

	"github.com/abidehq/abide/internal/replay"
)

// TestReportOfBuilds: what is open is counted, with the latest timer.
func TestReportOfBuilds(t *testing.T) {
	inBubble(t, func(r *rig) {
		r.flow("flow", func(c *replay.Context, in []byte) replay.Outcome {
			d, _ := time.ParseDuration(string(in))
			sleep(c, d)
			return done("x")
		})
		r.flow("other@2", waiter)
		r.serve(build("a"), func(c *Config) { c.Pins = map[string]Pin{"flow": Pinned, "other@2": PinnedUntilContinue} })
		r.pass(time.Second)
		began := time.Now()
		for i := range 5 {
			r.begin(fmt.Sprintf("i-%d", i), "flow", fmt.Sprintf("%dh", i))
		}
		r.begin("o", "other", "", func(s *Start) { s.Version = "2" })
		r.pass(time.Second)
		list, err := r.Builds(r.Context(), "a")
		r.must(err)
		if len(list) != 1 || list[0].ID != "a" || list[0].Workers != 1 || len(list[0].Needs) != 2 || list[0].More {
			r.Fatalf("builds: %+v", list)
		}
		flow, other := list[0].Needs[0], list[0].Needs[1]
		want(r, "orchestrations", flow.Route+" "+other.Route, "flow other@2")
		want(r, "open instances", [2]int{flow.Open, other.Open}, [2]int{4, 1})
		if late := flow.Until.Sub(began.Add(4 * time.Hour)); late < 0 || late > time.Second || !other.Until.IsZero() {
			r.Errorf("until %v and %v", flow.Until, other.Until)
		}
		r.pass(5 * time.Hour)
		list, err = r.Builds(r.Context(), "")
		r.must(err)
		if len(list) != 1 || len(list[0].Needs) != 1 || list[0].Needs[0].Route != "other@2" {
			r.Errorf("builds in the end: %+v", list)
		}
		_, err = r.Builds(r.Context(), "b")
		r.wantErr(err, ErrNotFound, "b")
	})
}

func TestSettingsOfBuildsAreChecked(t *testing.T) {
	inBubble(t, func(r *rig) {
		c := r.client()
		r.must(c.SetBuild(r.Context(), "a", BuildChange{Percent: new(60)}))
		r.wantErr(c.SetBuild(r.Context(), "b", BuildChange{Percent: new(41)}), ErrInvalid, "101")
		r.wantErr(c.SetBuild(r.Context(), "b", BuildChange{Percent: new(101)}), ErrInvalid, "101")
		r.wantErr(c.SetBuild(r.Context(), "b", BuildChange{Percent: new(-2)}), ErrInvalid, "-2")
		r.wantErr(c.SetBuild(r.Context(), "", BuildChange{}), ErrInvalid, "empty")
		r.must(c.SetBuild(r.Context(), "a", BuildChange{Drained: new(true)}))
		r.must(c.SetBuild(r.Context(), "b", BuildChange{Percent: new(41)}))
		r.wantErr(c.SetBuild(r.Context(), "a", BuildChange{Drained: new(false)}), ErrInvalid, "101")
		list, err := c.Builds(r.Context(), "")
		r.must(err)
		if len(list) != 2 || list[0].Percent != 60 || !list[0].Drained || list[1].Percent != 41 || list[1].Drained {
			r.Errorf("builds: %+v", list)
		}
	})
}

// TestMoveToAnotherBuild: instances whose build is gone go on with another one, whatever state they are in; those of
// a live build are not moved by mistake, and if they are, a worker that has them in its cache does not go on.
func TestMoveToAnotherBuild(t *testing.T) {
	inBubble(t, func(r *rig) {
		var log ran
		whole := func(c *Config) { c.CacheSize = 100 }
		a := r.pinned(&log, "a", Pinned, whole)
		r.pass(time.Second)
		for _, id := range []string{"cached", "suspended", "later", "ended"} {
			r.begin(id, "flow", "", func(s *Start) {
				if id == "later" {
					s.After = time.Hour
				}
			})
		}
		r.pass(time.Second)
		r.must(r.Client.Suspend(r.Context(), Ref{ID: "suspended"}, "why"))
		r.raise("ended", "go", "end")
		r.pass(time.Second)
		b := r.pinned(&log, "b", Pinned, whole)
		r.pass(time.Second)
		move := BuildMove{From: "a", To: "b"}
		_, _, err := r.MoveBuild(r.Context(), move)
		r.wantErr(err, ErrState, "alive")
		move.Live = true
		_, _, err = r.MoveBuild(r.Context(), BuildMove{From: "a", To: "c", Live: true})
		r.wantErr(err, ErrState, `"c"`)
		moved, more, err := r.MoveBuild(r.Context(), move)
		r.must(err)
		want(r, "moved", moved, 2)
		want(r, "more", more, false)
		r.pass(time.Second)
		r.Engine = a // which has the instance in its cache
		r.warm()
		r.raise("cached", "go", "x")
		r.pass(time.Second)
		want(r, "builds of the one that was moved", log.of("cached"), "a b")
		r.Engine = b
		r.raise("cached", "go", "end")
		want(r, "result", r.result("cached"), "b")
		r.raise("suspended", "go", "end")
		r.pass(time.Second)
		want(r, "status", r.info("suspended").Status, Suspended)
		r.must(r.Client.Resume(r.Context(), Ref{ID: "suspended"}))
		want(r, "result of the one that was suspended", r.result("suspended"), "b")
		want(r, "build of the one that had ended", r.info("ended").Build, "a")
		r.stop(a)
		r.Engine = b
	})
}

// TestMoveFollows: instances that are moved to no build are run by any.
func TestMoveFollows(t *testing.T) {
	inBubble(t, func(r *rig) {
		var log ran
		a := r.pinned(&log, "a", Pinned)
		r.pass(time.Second)
		r.begin("i", "flow", "")
		r.pass(time.Second)
		r.stop(a)
		r.pinned(&log, "b", Follow)
		r.raise("i", "go", "x")
		r.pass(time.Minute)
		want(r, "builds", log.of("i"), "a")
		moved, _, err := r.MoveBuild(r.Context(), BuildMove{From: "a", Routes: []string{"other"}})
		r.must(err)
		want(r, "moved of another orchestration", moved, 0)
		moved, _, err = r.MoveBuild(r.Context(), BuildMove{From: "a", Routes: []string{"flow"}})
		r.must(err)
		want(r, "moved", moved, 1)
		r.pass(time.Second)
		want(r, "builds", log.of("i"), "a b")
		r.raise("i", "go", "end")
		want(r, "result", r.result("i"), "b")
		want(r, "build", r.info("i").Build, "")
	})
}

// TestAStalledInstanceIsMovedToItsFix: the build that it is moved to resumes it by itself.
func TestAStalledInstanceIsMovedToItsFix(t *testing.T) {
	inBubble(t, func(r *rig) {
		r.stalledOnBuildA()
		r.pass(time.Second)
		moved, _, err := r.MoveBuild(r.Context(), BuildMove{From: "a", To: "b"})
		r.must(err)
		want(r, "moved", moved, 1)
		want(r, "result", r.result("i"), "x")
		want(r, "build", r.info("i").Build, "b")
	})
}
