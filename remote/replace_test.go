package remote_test

import (
	"testing"
	"time"

	"github.com/abidehq/abide"
	"github.com/abidehq/abide/internal/check"
	"github.com/abidehq/abide/internal/rig"
)

// answered waits for an event, and returns it after its input.
func answered(event *abide.Event[string]) func(ctx abide.Context, in string) (string, error) {
	return func(ctx abide.Context, in string) (string, error) {
		v, err := event.Wait(ctx)
		return in + " " + v, err
	}
}

// TestStartReplacesIf: a start replaces an instance whose status is one of those it names, also one that runs, and
// refuses any other.
func TestStartReplacesIf(t *testing.T) {
	event := abide.NewEvent[string]("go")
	flow := abide.NewOrchestration("flow", answered(event))
	both(t, []abide.Definition{flow}, func(s *stage) {
		start := func(in string, opts ...abide.StartOption) error {
			_, err := flow.Start(s.Context(), s, in, append(opts, abide.ID("i"))...)
			rig.Pass(time.Second)
			return err
		}
		end := func(want string) {
			s.Helper()
			check.OK(s.T, event.Raise(s.Context(), s, "i", "now"))
			got, err := flow.Instance(s, "i").Result(s.month())
			check.OK(s.T, err)
			check.Equal(s.T, "result", got, want)
		}
		check.OK(s.T, start("first", abide.ReplaceIf(abide.Running)))
		check.Error(s.T, start("refused", abide.ReplaceIf()), abide.ErrExists, "running")
		check.Error(s.T, start("refused", abide.ReplaceIf(abide.Completed, abide.Failed)), abide.ErrExists, "running")
		check.Error(s.T, start("refused", abide.ReplaceIf("asleep")), abide.ErrInvalid, "asleep")
		check.OK(s.T, start("second", abide.ReplaceIf(abide.Suspended, abide.Running)))
		end("second now")
		check.Error(s.T, start("refused", abide.ReplaceIf(abide.Running)), abide.ErrExists, "completed")
		check.OK(s.T, start("third", abide.ReplaceIf(abide.Completed)))
		end("third now")
	})
}
