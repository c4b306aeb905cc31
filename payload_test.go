package abide_test

import (
	"context"
	"errors"
	"slices"
	"strconv"
	"testing"
	"time"

	"github.com/abidehq/abide"
	"github.com/abidehq/abide/history"
)

// fits are an orchestration that waits for an event or calls an activity, and handles with other
// types on all of them, as a program with a mistake has.
var fits = struct {
	asText      *abide.Orchestration[string, int]
	event       *abide.Event[int]
	eventAsText *abide.Event[string]
	act         *abide.Activity[abide.None, string]
	actAsNumber *abide.Activity[abide.None, int]
}{
	asText:      abide.OrchestrationNamed[string, int]("flow"),
	event:       abide.NewEvent[int]("e"),
	eventAsText: abide.NewEvent[string]("e"),
	act:         abide.NewActivity("act", func(context.Context, abide.None) (string, error) { return "text", nil }),
	actAsNumber: abide.ActivityNamed[abide.None, int]("act"),
}

var fitsFlow = abide.NewOrchestration("flow", func(ctx abide.Context, which int) (int, error) {
	if which == 1 {
		return fits.event.Wait(ctx)
	}
	return fits.actAsNumber.Call(ctx, abide.None{})
})

// TestPayloadThatDoesNotFitIsRefused before it is durable, with the place and what is allowed.
func TestPayloadThatDoesNotFitIsRefused(t *testing.T) {
	onStage(t, []abide.Definition{fitsFlow, fits.act}, func(s *stage) {
		_, err := fits.asText.Start(s.Context(), s.Engine, "not a number", abide.ID("i"))
		refuses(s.T, err, abide.ErrPayload, `the input of orchestration "flow"`, `it is "not a number", want an integer`)
		_, err = s.Get(s.Context(), abide.Ref{ID: "i"})
		refuses(s.T, err, abide.ErrNotFound)
		_, err = fitsFlow.Start(s.Context(), s.Engine, 1, abide.ID("j"))
		s.check(err)
		s.wait(time.Second)
		err = fits.eventAsText.Raise(s.Context(), s.Engine, "j", "text")
		refuses(s.T, err, abide.ErrPayload, `the payload of event "e"`, `it is "text", want an integer`)
		other := abide.NewClient(s.store, nil) // another process
		refuses(s.T, fits.eventAsText.Raise(s.Context(), other, "j", "text"), abide.ErrPayload, "want an integer")
		_, err = fits.asText.Start(s.Context(), other, "not a number")
		refuses(s.T, err, abide.ErrPayload, "want an integer")
		s.check(fits.event.Raise(s.Context(), other, "j", 7))
		got, err := fitsFlow.Instance(s.Engine, "j").Result(s.month())
		s.check(err)
		same(s, "result", got, 7)
	})
}

// TestCorrection: an input, an event and a result that do not fit stall their instances, which go on
// when an operator corrects the payload.
func TestCorrection(t *testing.T) {
	onStage(t, []abide.Definition{fitsFlow, fits.act}, func(s *stage) {
		number := func(n int) abide.Correction { return abide.Correction{Data: []byte(strconv.Itoa(n))} }
		ctx := abide.WithActor(s.Context(), "operator")

		i, err := fits.asText.Start(s.Context(), s.Engine, "not a number", abide.ID("i"), abide.Unchecked())
		s.check(err)
		s.stalled(i.Ref(), `the input of orchestration "flow" does not fit`)
		s.badPayload(i.Ref(), history.ExecutionStarted, `"not a number"`)
		refuses(s.T, s.Correct(ctx, i.Ref(), abide.Correction{Discard: true}), abide.ErrInvalid, "cannot be discarded")
		refuses(s.T, s.Correct(ctx, i.Ref(), abide.Correction{Data: []byte(`"x"`)}), abide.ErrPayload, "want an integer")
		refuses(s.T, s.Resume(ctx, i.Ref()), abide.ErrStalled, "does not fit")
		s.check(s.Correct(ctx, i.Ref(), number(1)))
		s.check(fits.event.Raise(s.Context(), s.Engine, "i", 5))
		got, err := i.Result(s.month())
		s.check(err)
		same(s, "result of the corrected input", got, 5)

		j, err := fitsFlow.Start(s.Context(), s.Engine, 1, abide.ID("j"))
		s.check(err)
		s.wait(time.Second)
		s.check(fits.eventAsText.Raise(s.Context(), s.Engine, "j", "text", abide.Unchecked()))
		s.stalled(j.Ref(), `the payload of event "e" does not fit`)
		s.badPayload(j.Ref(), history.EventReceived, `"text"`)
		s.check(fits.event.Raise(s.Context(), s.Engine, "j", 8)) // behind it
		s.check(s.Correct(ctx, j.Ref(), number(7)))
		got, err = j.Result(s.month())
		s.check(err)
		same(s, "result of the corrected event", got, 7)

		k, err := fitsFlow.Start(s.Context(), s.Engine, 2, abide.ID("k"))
		s.check(err)
		s.stalled(k.Ref(), `the result of activity "act" does not fit`)
		s.badPayload(k.Ref(), history.ActivityCompleted, `"text"`)
		s.check(s.Correct(ctx, k.Ref(), number(9)))
		got, err = k.Result(s.month())
		s.check(err)
		same(s, "result of the corrected activity", got, 9)

		for _, ref := range []abide.Ref{i.Ref(), j.Ref(), k.Ref()} {
			h, err := s.History(s.Context(), ref, 0)
			s.check(err)
			at := slices.IndexFunc(h.Events, func(e history.Event) bool { return e.Kind == history.PayloadCorrected })
			if at < 0 || h.Events[at].By != "operator" {
				s.Errorf("%v: no correction by the operator in %s", ref, h.Tail(20))
			}
			_, err = s.replay(&h, fitsFlow)
			s.check(err)
		}
	})
}

// TestDiscardedEvent: an event that does not fit is dropped, whether it stalled the instance when it
// came or was kept in the history before.
func TestDiscardedEvent(t *testing.T) {
	other := abide.NewEvent[int]("other")
	late := abide.NewOrchestration("flow", func(ctx abide.Context, _ int) (int, error) {
		if _, err := other.Wait(ctx); err != nil {
			return 0, err
		}
		return fits.event.Wait(ctx)
	})
	for name, first := range map[string]bool{"when it comes": true, "in the history": false} {
		t.Run(name, func(t *testing.T) {
			onStage(t, []abide.Definition{late}, func(s *stage) {
				i, err := late.Start(s.Context(), s.Engine, 0, abide.ID("i"))
				s.check(err)
				wrong := func() { s.check(fits.eventAsText.Raise(s.Context(), s.Engine, "i", "text", abide.Unchecked())) }
				if !first {
					wrong()
					s.wait(time.Second)
				}
				s.check(other.Raise(s.Context(), s.Engine, "i", 0))
				s.wait(time.Second)
				if first {
					wrong()
				}
				s.stalled(i.Ref(), "does not fit")
				s.check(s.Correct(s.Context(), i.Ref(), abide.Correction{Discard: true}))
				s.wait(time.Hour)
				info, err := i.Info(s.Context())
				s.check(err)
				same(s, "status", info.Status, abide.Running)
				s.check(fits.event.Raise(s.Context(), s.Engine, "i", 3))
				got, err := i.Result(s.month())
				s.check(err)
				same(s, "result", got, 3)
				h, err := i.History(s.Context())
				s.check(err)
				_, err = s.replay(&h, late)
				s.check(err)
			})
		})
	}
}

// TestInvalidAsError: code that asks for it handles an event that does not fit.
func TestInvalidAsError(t *testing.T) {
	flow := abide.NewOrchestration("flow", func(ctx abide.Context, _ abide.None) (int, error) {
		for {
			n, err := fits.event.Wait(ctx, abide.InvalidAsError())
			if !errors.Is(err, abide.ErrInvalidPayload) {
				return n, err
			}
		}
	})
	onStage(t, []abide.Definition{flow}, func(s *stage) {
		i, err := flow.Start(s.Context(), s.Engine, abide.None{}, abide.ID("i"))
		s.check(err)
		s.check(fits.eventAsText.Raise(s.Context(), s.Engine, "i", "text", abide.Unchecked()))
		s.check(fits.event.Raise(s.Context(), s.Engine, "i", 4))
		got, err := i.Result(s.month())
		s.check(err)
		same(s, "result", got, 4)
	})
}
