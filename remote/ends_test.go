package remote_test

import (
	"testing"
	"time"

	"github.com/abidehq/abide"
	"github.com/abidehq/abide/internal/check"
	"github.com/abidehq/abide/internal/rig"
)

// TestEndsOfFamilies: an instance is terminated with a result and with its children, whatever their close policies
// are, and deleted with them.
func TestEndsOfFamilies(t *testing.T) {
	event := abide.NewEvent[string]("go")
	child := abide.NewOrchestration("child", answered(event))
	parent := abide.NewOrchestration("parent", func(ctx abide.Context, in string) (string, error) {
		return child.Call(ctx, in, abide.ID(in+"-child"), abide.OnParentClose(abide.AbandonChild))
	})
	both(t, []abide.Definition{parent, child}, func(s *stage) {
		start := func(id string) (ref, child abide.Ref) {
			i, err := parent.Start(s.Context(), s, id, abide.ID(id))
			check.OK(s.T, err)
			rig.Pass(time.Second)
			return i.Ref(), abide.Ref{ID: id + "-child"}
		}
		status := func(ref abide.Ref, want abide.Status) abide.Info {
			s.Helper()
			info, err := s.Get(s.Context(), ref)
			check.OK(s.T, err)
			check.Equal(s.T, "status of "+ref.ID, info.Status, want)
			return info
		}
		alone, left := start("alone")
		check.OK(s.T, s.TerminateWith(s.Context(), alone, abide.Termination{Reason: "that is all", Result: []byte(`"so far"`)}))
		rig.Pass(time.Second)
		info := status(alone, abide.Terminated)
		check.Equal(s.T, "result", string(info.Result), `"so far"`)
		check.Equal(s.T, "reason", info.Reason, "that is all")
		status(left, abide.Running)

		whole, gone := start("whole")
		check.Error(s.T, s.DeleteWith(s.Context(), whole, abide.Deletion{Recursive: true}), abide.ErrState, "running")
		check.OK(s.T, s.TerminateWith(s.Context(), whole, abide.Termination{Recursive: true}))
		rig.Pass(time.Second)
		status(whole, abide.Terminated)
		status(gone, abide.Terminated)
		check.OK(s.T, s.DeleteWith(s.Context(), whole, abide.Deletion{Recursive: true}))
		for _, ref := range []abide.Ref{whole, gone} {
			_, err := s.Get(s.Context(), ref)
			check.Error(s.T, err, abide.ErrNotFound)
		}
		check.OK(s.T, s.DeleteWith(s.Context(), alone, abide.Deletion{}))
		status(left, abide.Running)
		check.Error(s.T, s.TerminateWith(s.Context(), whole, abide.Termination{Recursive: true}), abide.ErrNotFound)
		check.Error(s.T, s.DeleteWith(s.Context(), whole, abide.Deletion{Recursive: true}), abide.ErrNotFound)
	})
}

// TestRestartAs: a new instance begins with the input and the tags of one that stays as it is; with its own ID it is
// restarted itself.
func TestRestartAs(t *testing.T) {
	event := abide.NewEvent[string]("go")
	flow := abide.NewOrchestration("flow", answered(event))
	both(t, []abide.Definition{flow}, func(s *stage) {
		i, err := flow.Start(s.Context(), s, "in", abide.ID("i"), abide.Tag("customer", "7"))
		check.OK(s.T, err)
		rig.Pass(time.Second)
		again := func(id string) abide.Ref {
			s.Helper()
			ref, err := s.RestartAs(s.Context(), i.Ref(), id)
			check.OK(s.T, err)
			rig.Pass(time.Second)
			return ref
		}
		end := func(ref abide.Ref, say string) {
			s.Helper()
			check.OK(s.T, event.Raise(s.Context(), s, ref.ID, say))
			got, err := flow.Instance(s, ref.ID).Result(s.month())
			check.OK(s.T, err)
			check.Equal(s.T, "result of "+ref.ID, got, "in "+say)
		}
		other := again("j")
		check.Equal(s.T, "ID", other.ID, "j")
		info, err := s.Get(s.Context(), other)
		check.OK(s.T, err)
		check.Equal(s.T, "tag", info.Tags["customer"], "7")
		end(i.Ref(), "first")
		end(other, "second")
		end(again(""), "third")
		_, err = s.RestartAs(s.Context(), i.Ref(), "j")
		check.Error(s.T, err, abide.ErrExists, "j")
		end(again("i"), "fourth")
		_, err = s.RestartAs(s.Context(), abide.Ref{ID: "nobody"}, "k")
		check.Error(s.T, err, abide.ErrNotFound, "nobody")
	})
}
