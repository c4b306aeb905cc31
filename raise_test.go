package abide_test

import (
	"context"
	"encoding/json"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/abidehq/abide"
	"github.com/abidehq/abide/history"
)

type decision struct {
	Approved bool   `json:"approved"`
	By       string `json:"by"`
}

var (
	decided   = abide.NewEvent[decision]("decided")
	forgotten = abide.ActivityNamed[abide.None, abide.None]("forgotten")

	refund = abide.NewOrchestration("refund", func(ctx abide.Context, _ abide.None) (bool, error) {
		d, err := decided.Wait(ctx, abide.Timeout(72*time.Hour))
		return d.Approved, err
	})
	careless = abide.NewOrchestration("careless", func(ctx abide.Context, _ abide.None) (abide.None, error) {
		return forgotten.Call(ctx, abide.None{})
	})
)

// TestOutcomeOfRaise: a caller learns what its event has found, in this process and in another.
func TestOutcomeOfRaise(t *testing.T) {
	onStage(t, []abide.Definition{refund}, func(s *stage) {
		_, err := refund.Start(s.Context(), s.Engine, abide.None{}, abide.ID("i"))
		s.check(err)
		s.wait(time.Second)
		for _, c := range []*abide.Client{s.Client, abide.NewClient(s.store, nil)} {
			raise := func(id, event string, opts ...abide.RaiseOption) (abide.Raised, error) {
				req, err := abide.NewEvent[decision](event).Prepare(c, id, decision{By: "an operator"}, opts...)
				s.check(err)
				raised, err := c.Raise(s.Context(), req)
				if err != nil {
					return abide.Raised{}, err
				}
				return raised[0], nil
			}
			outcome := func(want abide.Outcome, id, event string, opts ...abide.RaiseOption) {
				s.Helper()
				got, err := raise(id, event, opts...)
				s.check(err)
				same(s, "outcome of "+event+" for "+id, got.Outcome, want)
			}
			outcome(abide.OutcomeKept, "i", "decied")
			outcome(abide.OutcomeDropped, "i", "decied", abide.IfAwaited())
			outcome(abide.OutcomeNoInstance, "nobody", "decided", abide.KeepFor(time.Minute))
			outcome(abide.OutcomeUnknown, "i", "decied", abide.Unchecked())
			_, err := raise("nobody", "decided", abide.MustExist())
			refuses(s.T, err, abide.ErrNotFound, "nobody")
		}
		req, err := decided.Prepare(s, "i", decision{Approved: true})
		s.check(err)
		raised, err := s.Raise(s.Context(), req)
		s.check(err)
		same(s, "outcome", raised[0].Outcome, abide.OutcomeAwaited)
		if !slices.Equal(raised[0].Awaited, []string{"decided"}) || raised[0].Status != abide.Running {
			s.Errorf("it was %+v", raised[0])
		}
		s.wait(time.Second)
		refuses(s.T, decided.Raise(s.Context(), s, "i", decision{}), abide.ErrState, "completed")
		s.check(decided.Raise(s.Context(), s, "i", decision{}, abide.IgnoreEnded()))
	})
}

// TestAwaitedEvents: what code waits for is known without running it: the event, its type, since when
// and until when.
func TestAwaitedEvents(t *testing.T) {
	onStage(t, []abide.Definition{refund}, func(s *stage) {
		_, err := refund.Start(s.Context(), s.Engine, abide.None{}, abide.ID("i"))
		s.check(err)
		s.wait(time.Second)
		began := time.Now()
		s.wait(time.Hour)
		for _, c := range []*abide.Client{s.Client, abide.NewClient(s.store, nil)} {
			waits, err := c.Waits(s.Context(), abide.Ref{ID: "i"})
			s.check(err)
			at := slices.IndexFunc(waits, func(w abide.Waiting) bool { return w.Kind == history.EventReceived })
			if at < 0 {
				s.Fatalf("no event in %+v", waits)
			}
			w := waits[at]
			same(s, "name", w.Name, "decided")
			if d := began.Sub(w.Since); d < 0 || d > 2*time.Second {
				s.Errorf("since %v, began %v", w.Since, began)
			}
			same(s, "limit", w.At.Sub(w.Since), 72*time.Hour)
			var example decision
			s.check(json.Unmarshal(abide.ExampleOf(w.Schema), &example))
			if !strings.Contains(string(abide.ExampleOf(w.Schema)), `"approved": false`) {
				s.Errorf("the example is %s", abide.ExampleOf(w.Schema))
			}
		}
		s.check(decided.Raise(s.Context(), s, "i", decision{}))
		s.wait(time.Second)
		info, err := s.Get(s.Context(), abide.Ref{ID: "i"})
		s.check(err)
		same(s, "awaited after its end", len(info.Awaited), 0)
	})
}

// TestUnservedNames: a name that no worker serves is refused at a start, logged within seconds if code
// schedules it, and named by the error of a result that does not come.
func TestUnservedNames(t *testing.T) {
	onStage(t, []abide.Definition{refund, careless}, func(s *stage) {
		_, err := abide.OrchestrationNamed[abide.None, abide.None]("refnud").Start(s.Context(), s, abide.None{})
		refuses(s.T, err, abide.ErrUnserved, `"refnud"`, "careless, refund")
		_, err = abide.OrchestrationNamed[abide.None, abide.None]("refund", abide.Version("2")).Start(s.Context(), s, abide.None{})
		refuses(s.T, err, abide.ErrUnserved, `version "2"`, "its versions are none")
		req, err := abide.OrchestrationNamed[abide.None, abide.None]("later").Prepare(s, abide.None{}, abide.Unchecked())
		s.check(err)
		started, err := s.Start(s.Context(), req)
		s.check(err)
		same(s, "unserved", started[0].Unserved, true)

		i, err := careless.Start(s.Context(), s, abide.None{})
		s.check(err)
		s.wait(5 * time.Second)
		same(s, "lines in the log after five seconds", s.log.count("activity=forgotten"), 1)
		ctx, cancel := context.WithTimeout(s.Context(), time.Minute)
		defer cancel()
		_, err = i.Result(ctx)
		refuses(s.T, err, context.DeadlineExceeded, `activity "forgotten"`, "no live worker")
		ctx, cancel = context.WithTimeout(s.Context(), time.Minute)
		defer cancel()
		_, err = abide.OrchestrationNamed[abide.None, abide.None]("later").Instance(s, started[0].Ref.ID).Result(ctx)
		refuses(s.T, err, context.DeadlineExceeded, `orchestration "later"`, "no live worker")
	})
}
