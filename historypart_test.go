package abide_test

import (
	"encoding/json"
	"fmt"
	"testing"
	"time"

	"github.com/abidehq/abide"
	"github.com/abidehq/abide/history"
)

// TestHistoryPartsMakeTheWhole: from any place, in parts of any size.
func TestHistoryPartsMakeTheWhole(t *testing.T) {
	event := abide.NewEvent[int]("e")
	flow := abide.NewOrchestration("flow", func(ctx abide.Context, n int) (int, error) {
		if _, err := event.Wait(ctx); err != nil || n == 3 {
			return n, err
		}
		return n, abide.ContinueAsNew(ctx, n+1)
	})
	onStage(t, []abide.Definition{flow}, func(s *stage) {
		text := func(events []history.Event) string {
			data, err := json.Marshal(events)
			s.check(err)
			return string(data)
		}
		i, err := flow.Start(s.Context(), s.Engine, 1, abide.ID("i"))
		s.check(err)
		for range 3 {
			s.wait(time.Minute)
			s.check(event.Raise(s.Context(), s.Engine, "i", 1))
		}
		_, err = i.Result(s.month())
		s.check(err)
		for _, execution := range []int{0, 2, 3} {
			want, err := s.History(s.Context(), i.Ref(), execution)
			s.check(err)
			for _, size := range []int{0, 1, 50, 1 << 20} {
				var got []history.Event
				for more := true; more; {
					var part abide.History
					part, more, err = s.HistoryPart(s.Context(), abide.Ref{Tenant: abide.DefaultTenant, ID: "i"}, abide.HistoryRange{Execution: execution, After: len(got), MaxBytes: size})
					s.check(err)
					same(s, "execution", part.Execution, want.Execution)
					same(s, "of", part.Ref, want.Ref)
					if len(part.Events) == 0 || size == 1 && len(part.Events) != 1 {
						s.Fatalf("a part of %d bytes has %d events", size, len(part.Events))
					}
					got = append(got, part.Events...)
				}
				same(s, fmt.Sprintf("execution %d in parts of %d", execution, size), text(got), text(want.Events))
			}
			n := len(want.Events)
			length, err := s.HistoryLength(s.Context(), i.Ref(), execution)
			s.check(err)
			same(s, "length", length, n)
			part, more, err := s.HistoryPart(s.Context(), i.Ref(), abide.HistoryRange{Execution: execution, After: n, MaxBytes: 1 << 20})
			s.check(err)
			same(s, "after the last one", fmt.Sprint(len(part.Events), more), "0 false")
			_, _, err = s.HistoryPart(s.Context(), i.Ref(), abide.HistoryRange{Execution: execution, After: n + 1, MaxBytes: 1 << 20})
			refuses(s.T, err, abide.ErrNotFound, fmt.Sprint("no event ", n+1))
		}
		_, _, err = s.HistoryPart(s.Context(), i.Ref(), abide.HistoryRange{Execution: 1, MaxBytes: 1})
		refuses(s.T, err, abide.ErrNotFound, "execution 3")
		_, _, err = s.HistoryPart(s.Context(), abide.Ref{ID: "nobody"}, abide.HistoryRange{MaxBytes: 1})
		refuses(s.T, err, abide.ErrNotFound, "nobody")
	})
}

// TestWaitsAmongTheNewestEvents: of all events they are those of Waits, and of the newest ones
// those that these asked for.
func TestWaitsAmongTheNewestEvents(t *testing.T) {
	flow := abide.NewOrchestration("flow", func(ctx abide.Context, _ abide.None) (abide.None, error) {
		abide.NewTimer(ctx, 10*time.Hour, abide.Named("first"))
		if err := abide.Sleep(ctx, time.Minute); err != nil {
			return abide.None{}, err
		}
		return abide.None{}, abide.Sleep(ctx, 20*time.Hour, abide.Named("second"))
	})
	onStage(t, []abide.Definition{flow}, func(s *stage) {
		i, err := flow.Start(s.Context(), s.Engine, abide.None{}, abide.ID("i"))
		s.check(err)
		s.wait(time.Hour)
		h, err := i.History(s.Context())
		s.check(err)
		names := func(waits []abide.Waiting, err error) string {
			s.check(err)
			var list []string
			for _, w := range waits {
				list = append(list, w.Name)
			}
			return fmt.Sprint(list)
		}
		same(s, "all", names(s.Waits(s.Context(), i.Ref())), "[first second]")
		same(s, "among all", names(s.WaitsAmong(s.Context(), i.Ref(), h.Events)), "[first second]")
		n, err := s.HistoryLength(s.Context(), i.Ref(), 0)
		s.check(err)
		same(s, "length", n, len(h.Events))
		same(s, "among the newest", names(s.WaitsAmong(s.Context(), i.Ref(), h.Events[len(h.Events)-3:])), "[second]")
	})
}

func TestFailuresAreErrorsAgain(t *testing.T) {
	t.Parallel()
	declined := abide.NewError("declined", "the card was declined")
	f := abide.FailureOf(fmt.Errorf("charge: %w", abide.Final(declined)))
	if f.Type != "declined" || f.Message != "charge: the card was declined" || !f.Final {
		t.Errorf("%+v", f)
	}
	refuses(t, abide.ErrorOf(f), declined, "charge: the card was declined")
	if again := abide.FailureOf(abide.ErrorOf(f)); fmt.Sprint(*again) != fmt.Sprint(*f) {
		t.Errorf("%+v, want %+v", again, f)
	}
	if abide.FailureOf(nil) != nil || abide.ErrorOf(nil) != nil {
		t.Error("no error is one")
	}
}
