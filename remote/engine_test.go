package remote_test

import (
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/abidehq/abide"
	"github.com/abidehq/abide/internal/check"
	"github.com/abidehq/abide/internal/rig"
)

func echo[T any](_ abide.Context, in T) (T, error) { return in, nil }

func TestStartPolicies(t *testing.T) {
	flow := abide.NewOrchestration("flow", echo[int])
	other := abide.NewOrchestration("other", echo[int])
	both(t, []abide.Definition{flow, other}, func(s *stage) {
		i, err := flow.Start(s.Context(), s, 1, abide.ID("i"))
		check.OK(s.T, err)
		check.Equal(s.T, "existed", i.Existed(), false)
		got, err := i.Result(s.month())
		check.OK(s.T, err)
		check.Equal(s.T, "result", got, 1)
		i, err = flow.Start(s.Context(), s, 2, abide.ID("i"))
		check.OK(s.T, err)
		check.Equal(s.T, "existed", i.Existed(), true)
		got, err = i.Result(s.month())
		check.OK(s.T, err)
		check.Equal(s.T, "result", got, 1)
		_, err = flow.Start(s.Context(), s, 3, abide.ID("i"), abide.RejectExisting())
		check.Error(s.T, err, abide.ErrExists, `"i"`)
		_, err = other.Start(s.Context(), s, 3, abide.ID("i"))
		check.Error(s.T, err, abide.ErrExists, "flow", "other")
		i, err = flow.Start(s.Context(), s, 4, abide.ID("i"), abide.ReplaceEnded())
		check.OK(s.T, err)
		got, err = i.Result(s.month())
		check.OK(s.T, err)
		check.Equal(s.T, "result", got, 4)
		a, err := flow.Start(s.Context(), s, 1)
		check.OK(s.T, err)
		b, err := flow.Start(s.Context(), s, 1)
		check.OK(s.T, err)
		check.Equal(s.T, "the same ID", a.ID() == b.ID(), false)
		got, err = flow.Instance(s, "i").Result(s.month())
		check.OK(s.T, err)
		check.Equal(s.T, "result", got, 4)
		_, err = flow.Instance(s, "nobody").Result(s.month())
		check.Error(s.T, err, abide.ErrNotFound, "nobody")
	})
}

// TestOddIDs: names that mean something in a path are as good as others.
func TestOddIDs(t *testing.T) {
	flow := abide.NewOrchestration("flow/with a slash?", func(ctx abide.Context, in string) (string, error) {
		word, err := abide.NewEvent[string]("go/on?").Wait(ctx)
		return in + word, err
	}, abide.Version("1/2"))
	both(t, []abide.Definition{flow}, func(s *stage) {
		ids := append([]string{".", "..", "\x00", "😀", "stream", "bulk", "events", strings.Repeat("ä", 256), " ", "a//b", "../x"}, odd...)
		for _, id := range ids {
			for _, tenant := range []string{"", "default", "..", "t/" + id} {
				if len(tenant) > 128 {
					continue
				}
				i, err := flow.Start(s.Context(), s, id, abide.ID(id), abide.Tenant(tenant), abide.ReplaceEnded())
				check.OK(s.T, err)
				check.OK(s.T, abide.NewEvent[string]("go/on?").Raise(s.Context(), s, id, "!", abide.Tenant(tenant)))
				got, err := i.Result(s.month())
				check.OK(s.T, err)
				check.Equal(s.T, "result", got, id+"!")
				info, err := i.Info(s.Context())
				check.OK(s.T, err)
				want := abide.Ref{Tenant: cmp.Or(tenant, abide.DefaultTenant), ID: id}
				check.Equal(s.T, "ref", info.Ref, want)
				check.Equal(s.T, "version", info.Version, "1/2")
				h, err := i.History(s.Context())
				check.OK(s.T, err)
				check.Equal(s.T, "ref of the history", h.Ref, want)
			}
		}
	})
}

func TestBatches(t *testing.T) {
	flow := abide.NewOrchestration("flow", echo[int])
	both(t, []abide.Definition{flow}, func(s *stage) {
		request := func(id string, opts ...abide.StartOption) abide.StartRequest {
			r, err := flow.Prepare(s, 1, append(opts, abide.ID(id))...)
			check.OK(s.T, err)
			return r
		}
		_, err := s.Start(s.Context(), request("a"))
		check.OK(s.T, err)
		_, err = s.Start(s.Context(), request("b"), request("a", abide.RejectExisting()))
		check.Error(s.T, err, abide.ErrExists)
		_, err = s.Get(s.Context(), abide.Ref{ID: "b"})
		check.Error(s.T, err, abide.ErrNotFound)
		started, err := s.Start(s.Context(), request("b"), request("a"),
			request("c", abide.StartAfter(time.Hour), abide.Tenant("acme"), abide.Tag("co:l%or", "r:ed"), abide.Tag("size", "xl")))
		check.OK(s.T, err)
		check.Equal(s.T, "existed", fmt.Sprint(started[0].Existed, started[1].Existed, started[2].Existed), "false true false")
		check.Equal(s.T, "revisions", fmt.Sprint(started[0].Revision, started[1].Revision, started[2].Revision), "1 0 1")
		rig.Pass(time.Minute)
		pending, err := s.List(s.Context(), abide.Filter{Statuses: []abide.Status{abide.Pending}})
		check.OK(s.T, err)
		check.Equal(s.T, "pending", fmt.Sprint(len(pending.Instances), pending.Instances[0].Ref, len(pending.Instances[0].Tags)), `1 "acme/c" 2`)
		for _, tt := range []struct {
			f    abide.Filter
			want string
		}{
			{abide.Filter{}, "abc"},
			{abide.Filter{Descending: true}, "cba"},
			{abide.Filter{Tenant: new("")}, "ab"},
			{abide.Filter{Tenant: new("default")}, "ab"},
			{abide.Filter{Tenant: new("acme")}, "c"},
			{abide.Filter{Tags: map[string]string{"co:l%or": "r:ed", "size": "xl"}}, "c"},
			{abide.Filter{Tags: map[string]string{"size": "s"}}, ""},
			{abide.Filter{Prefix: "b"}, "b"},
			{abide.Filter{Prefix: "b&c=%"}, ""},
			{abide.Filter{Parent: "a"}, ""},
			{abide.Filter{Statuses: []abide.Status{abide.Pending, abide.Completed}}, "abc"},
			{abide.Filter{Orchestrations: []string{"flow", "a,b"}}, "abc"},
			{abide.Filter{Orchestrations: []string{"other"}}, ""},
			{abide.Filter{From: time.Now()}, ""},
			{abide.Filter{To: time.Now(), Limit: 10_000}, "abc"},
		} {
			for _, limit := range []int{tt.f.Limit, 1} {
				var got []string
				tt.f.Limit, tt.f.Cursor = limit, ""
				for {
					page, err := s.List(s.Context(), tt.f)
					check.OK(s.T, err)
					for i := range page.Instances {
						got = append(got, page.Instances[i].Ref.ID)
					}
					if tt.f.Cursor = page.Next; page.Next == "" {
						break
					}
				}
				check.Equal(s.T, fmt.Sprintf("%+v", tt.f), strings.Join(got, ""), tt.want)
			}
		}
		requests := make([]abide.StartRequest, 1001)
		for i := range requests {
			requests[i] = request(fmt.Sprint(i))
		}
		_, err = s.Start(s.Context(), requests...)
		check.Error(s.T, err, abide.ErrInvalid, "1001", "1000")
		started, err = s.Start(s.Context(), requests[:1000]...)
		check.OK(s.T, err)
		check.Equal(s.T, "started", len(started), 1000)
		none, err := s.Start(s.Context())
		check.OK(s.T, err)
		check.Equal(s.T, "started", len(none), 0)
	})
}

func TestBadInput(t *testing.T) {
	flow := abide.NewOrchestration("flow", echo[any])
	event := abide.NewEvent[any]("e")
	both(t, []abide.Definition{flow}, func(s *stage) {
		_, err := flow.Start(s.Context(), s, func() {})
		check.Error(s.T, err, abide.ErrInvalid, "flow", "input")
		check.Error(s.T, event.Raise(s.Context(), s, "i", func() {}), abide.ErrInvalid, "e")
		check.Error(s.T, event.Raise(s.Context(), s, "", 1), abide.ErrInvalid, "ID")
		check.Error(s.T, abide.NewEvent[int]("").Raise(s.Context(), s, "i", 1), abide.ErrInvalid)
		check.Error(s.T, abide.NewEvent[int]("a@b").Raise(s.Context(), s, "i", 1), abide.ErrInvalid, "@")
		_, err = flow.Start(s.Context(), s, strings.Repeat("x", 2<<20))
		check.Error(s.T, err, abide.ErrInvalid, fmt.Sprint(2<<20))
		_, err = flow.Start(s.Context(), s, 1, abide.StartAfter(-time.Second))
		check.Error(s.T, err, abide.ErrInvalid, "negative")
		for year := range map[int]bool{9999: true, 10001: true, -1: true} {
			_, err = flow.Start(s.Context(), s, 1, abide.StartAt(time.Date(year, 1, 1, 0, 0, 0, 0, time.UTC)))
			if year == 10001 {
				check.Error(s.T, err, abide.ErrInvalid)
			}
		}
		_, err = s.Get(s.Context(), abide.Ref{})
		check.Error(s.T, err, abide.ErrInvalid, "ID")
		_, err = s.Get(s.Context(), abide.Ref{ID: strings.Repeat("x", 513)})
		check.Error(s.T, err, abide.ErrInvalid, "513")
		_, err = s.Get(s.Context(), abide.Ref{ID: "\xff"})
		check.Error(s.T, err, abide.ErrInvalid, "UTF-8")
		_, err = s.List(s.Context(), abide.Filter{Limit: -1})
		check.Error(s.T, err, abide.ErrInvalid)
		_, err = s.List(s.Context(), abide.Filter{Limit: 10_001})
		check.Error(s.T, err, abide.ErrInvalid)
		_, err = s.List(s.Context(), abide.Filter{Statuses: []abide.Status{"asleep"}})
		check.Error(s.T, err, abide.ErrInvalid, "asleep")
		_, err = s.List(s.Context(), abide.Filter{Cursor: "nonsense"})
		check.Error(s.T, err, abide.ErrInvalid)
		_, err = s.Quarantine(s.Context(), abide.QuarantineFilter{Cursor: "nonsense"})
		check.Error(s.T, err, abide.ErrInvalid)
		_, err = s.Fork(s.Context(), abide.Ref{ID: "nobody"}, 1, "")
		check.Error(s.T, err, abide.ErrNotFound)
		for name, err := range map[string]error{
			"cancel": s.Cancel(s.Context(), abide.Ref{}, ""), "terminate": s.Terminate(s.Context(), abide.Ref{}, ""),
			"suspend": s.Suspend(s.Context(), abide.Ref{}, ""), "resume": s.Resume(s.Context(), abide.Ref{}),
			"restart": s.Restart(s.Context(), abide.Ref{}), "delete": s.Delete(s.Context(), abide.Ref{}),
			"move": s.MoveTimer(s.Context(), abide.Ref{}, "t", time.Now()), "redrive": s.Redrive(s.Context(), "", ""),
			"discard": s.Discard(s.Context(), "", ""), "reason": s.Cancel(s.Context(), abide.Ref{ID: "i"}, strings.Repeat("x", 5000)),
		} {
			if !errors.Is(err, abide.ErrInvalid) {
				s.Errorf("%s: %v", name, err)
			}
		}
		nobody := abide.Ref{Tenant: "acme", ID: "nobody"}
		for name, err := range map[string]error{
			"cancel": s.Cancel(s.Context(), nobody, "why"), "terminate": s.Terminate(s.Context(), nobody, "why"),
			"suspend": s.Suspend(s.Context(), nobody, "why"), "resume": s.Resume(s.Context(), nobody),
			"restart": s.Restart(s.Context(), nobody), "delete": s.Delete(s.Context(), nobody),
			"move": s.MoveTimer(s.Context(), nobody, "t", time.Now()), "redrive": s.Redrive(s.Context(), "acme", "x"),
			"discard": s.Discard(s.Context(), "acme", "x"),
		} {
			if !errors.Is(err, abide.ErrNotFound) {
				s.Errorf("%s: %v", name, err)
			}
		}
	})
}

func TestValuesAndPayloads(t *testing.T) {
	type progress struct{ Done, Of int }
	published := abide.NewValue[progress]("progress")
	flow := abide.NewOrchestration("flow", func(ctx abide.Context, in json.RawMessage) (json.RawMessage, error) {
		abide.SetStatus(ctx, "packing")
		published.Set(ctx, progress{1, 2})
		return in, abide.Sleep(ctx, time.Hour)
	})
	both(t, []abide.Definition{flow}, func(s *stage) {
		for _, in := range []string{"null", `"<&>"`, `"\u2028"`, "12345678901234567890", "1.50e-3", "[]", `{"$base64":"AAA="}`, `{"a":{"b":[1,2.50,true]}}`, `"😀"`} {
			i, err := flow.Start(s.Context(), s, json.RawMessage(in))
			check.OK(s.T, err)
			rig.Pass(time.Minute)
			info, err := i.Info(s.Context())
			check.OK(s.T, err)
			p, ok, err := published.Get(info)
			check.OK(s.T, err)
			check.Equal(s.T, "value", fmt.Sprint(ok, p, info.StatusText), "true {1 2}packing")
			_, ok, err = abide.NewValue[int]("nothing").Get(info)
			check.OK(s.T, err)
			check.Equal(s.T, "there is one", ok, false)
			_, _, err = abide.NewValue[string]("progress").Get(info)
			check.Equal(s.T, "into another type", err != nil, true)
			_, err = abide.ResultOf[abide.None](info)
			check.Error(s.T, err, abide.ErrState, "running")
			got, err := i.Result(s.month())
			check.OK(s.T, err)
			info, err = i.Info(s.Context())
			check.OK(s.T, err)
			there, err := s.engine.Get(s.Context(), i.Ref())
			check.OK(s.T, err)
			check.Equal(s.T, "result "+in, string(info.Result), string(there.Result))
			check.Equal(s.T, "times", fmt.Sprint(info.StartedAt, info.BegunAt, info.EndedAt), fmt.Sprint(there.StartedAt, there.BegunAt, there.EndedAt))
			check.Equal(s.T, "result read", string(got), string(there.Result))
		}
	})
}

// reversed is a codec whose bytes are not JSON.
type reversed struct{}

func (reversed) Encode(v any) ([]byte, error) {
	data, err := json.Marshal(v)
	slices.Reverse(data)
	return append([]byte{0xff, 0}, data...), err
}

func (reversed) Decode(data []byte, v any) error {
	data = slices.Clone(data[2:])
	slices.Reverse(data)
	return json.Unmarshal(data, v)
}

// TestAnotherCodec: what it wrote arrives as it is, whatever the server thinks of it.
func TestAnotherCodec(t *testing.T) {
	event, value := abide.NewEvent[string]("e"), abide.NewValue[string]("v")
	flow := abide.NewOrchestration("flow", func(ctx abide.Context, in string) (string, error) {
		value.Set(ctx, in+"!")
		more, err := event.Wait(ctx)
		return in + more, err
	})
	far(t, abide.Config{Register: []abide.Definition{flow}, Codec: reversed{}}, func(s *stage) {
		e := s.dial().WithCodec(reversed{})
		i, err := flow.Start(s.Context(), e, "abc", abide.ID("i"))
		check.OK(s.T, err)
		rig.Pass(time.Minute)
		info, err := i.Info(s.Context())
		check.OK(s.T, err)
		v, _, err := value.Get(info)
		check.OK(s.T, err)
		check.Equal(s.T, "value", v, "abc!")
		check.OK(s.T, event.Raise(s.Context(), e, "i", "def"))
		got, err := i.Result(s.month())
		check.OK(s.T, err)
		check.Equal(s.T, "result", got, "abcdef")
	})
}

// TestFailuresAreTheSame: the chain of errors, what they are by errors.Is, and their words.
func TestFailuresAreTheSame(t *testing.T) {
	declined := abide.NewError("declined", "the card was declined")
	charge := abide.NewActivity("charge", func(context.Context, abide.None) (abide.None, error) {
		return abide.None{}, abide.Final(fmt.Errorf("charge: %w", declined))
	})
	flow := abide.NewOrchestration("flow", func(ctx abide.Context, how string) (string, error) {
		switch how {
		case "fail":
			_, err := charge.Call(ctx, abide.None{})
			return "", fmt.Errorf("no luck: %w", err)
		case "stall":
			abide.SetStatus(ctx, strings.Repeat("x", 2000))
		}
		return "", abide.Sleep(ctx, time.Hour)
	})
	both(t, []abide.Definition{flow, charge}, func(s *stage) {
		i, err := flow.Start(s.Context(), s, "fail", abide.Tenant("acme"), abide.ID("i"))
		check.OK(s.T, err)
		_, err = i.Result(s.month())
		check.Error(s.T, err, declined, `"acme/i"`, "failed", "no luck", "the card was declined")
		var ended *abide.InstanceError
		check.Equal(s.T, "an InstanceError", errors.As(err, &ended), true)
		check.Equal(s.T, "of", ended.Ref, i.Ref())
		check.Equal(s.T, "status", ended.Status, abide.Failed)
		info, err := i.Info(s.Context())
		check.OK(s.T, err)
		there, err := s.engine.Get(s.Context(), i.Ref())
		check.OK(s.T, err)
		check.Equal(s.T, "chain", chain(info.Err), chain(there.Err))

		i, err = flow.Start(s.Context(), s, "stall")
		check.OK(s.T, err)
		_, err = i.Result(s.month())
		check.Error(s.T, err, abide.ErrStalled, "2000")
		check.Equal(s.T, "an InstanceError", errors.As(err, &ended), true)
		check.Equal(s.T, "status", ended.Status, abide.Stalled)
		check.OK(s.T, i.Terminate(s.Context(), "it will not do"))
		_, err = i.Result(s.month())
		for errors.Is(err, abide.ErrStalled) {
			_, err = i.Result(s.month())
		}
		check.Error(s.T, err, abide.ErrTerminated, "it will not do")

		i, err = flow.Start(s.Context(), s, "sleep")
		check.OK(s.T, err)
		rig.Pass(time.Minute)
		check.OK(s.T, i.Cancel(s.Context(), "enough & more"))
		_, err = i.Result(s.month())
		check.Error(s.T, err, abide.ErrCancelled, "enough & more")
		check.Error(s.T, i.Cancel(s.Context(), ""), abide.ErrState, "cancelled")
	})
}

func chain(err error) string {
	var parts []string
	for ; err != nil; err = errors.Unwrap(err) {
		typ := ""
		if e, ok := errors.AsType[*abide.Error](err); ok {
			typ = e.Type
		}
		parts = append(parts, fmt.Sprintf("%T %s %q", err, typ, err))
	}
	return strings.Join(parts, " / ")
}

func TestTalkingToInstances(t *testing.T) {
	approved := abide.NewEvent[string]("approved")
	flow := abide.NewOrchestration("wait", func(ctx abide.Context, _ abide.None) (string, error) {
		start := abide.Now(ctx)
		v, err := approved.Wait(ctx, abide.Timeout(time.Hour))
		switch {
		case errors.Is(err, abide.ErrTimeout):
			return "timeout after " + abide.Now(ctx).Sub(start).String(), nil
		case err != nil:
			return "", err
		}
		return v + " after " + abide.Now(ctx).Sub(start).String(), nil
	})
	both(t, []abide.Definition{flow}, func(s *stage) {
		start := func(id string) *abide.Instance[string] {
			i, err := flow.Start(s.Context(), s, abide.None{}, abide.ID(id))
			check.OK(s.T, err)
			rig.Pass(time.Minute)
			return i
		}
		result := func(i *abide.Instance[string], want string) {
			got, err := i.Result(s.month())
			check.OK(s.T, err)
			check.Equal(s.T, i.ID(), got, want)
		}
		result(start("slow"), "timeout after 1h0m0s")
		i := start("i")
		check.OK(s.T, approved.Raise(s.Context(), s, "i", "yes"))
		result(i, "yes after 1m0s")
		check.OK(s.T, approved.Raise(s.Context(), s, "j", "early", abide.KeepFor(time.Hour), abide.ID("once")))
		check.OK(s.T, approved.Raise(s.Context(), s, "j", "late", abide.ID("once")))
		result(start("j"), "early after 0s")
		k := start("k")
		check.OK(s.T, s.MoveTimer(s.Context(), k.Ref(), "approved", time.Now().Add(4*time.Minute)))
		check.Error(s.T, s.MoveTimer(s.Context(), k.Ref(), "nap", time.Now()), abide.ErrNotFound, "nap")
		check.Error(s.T, s.MoveTimer(s.Context(), k.Ref(), "approved", time.Date(9500, 1, 1, 0, 0, 0, 0, time.UTC)), abide.ErrInvalid, "9000")
		result(k, "timeout after 5m0s")
		check.Error(s.T, s.MoveTimer(s.Context(), k.Ref(), "approved", time.Now()), abide.ErrState)

		l := start("l")
		check.Error(s.T, l.Delete(s.Context()), abide.ErrState)
		check.Error(s.T, l.Restart(s.Context()), abide.ErrState)
		check.OK(s.T, l.Suspend(s.Context(), "lunch"))
		rig.Pass(time.Second)
		info, err := l.Info(s.Context())
		check.OK(s.T, err)
		check.Equal(s.T, "suspended", fmt.Sprint(info.Status, " ", info.Reason), "suspended lunch")
		check.OK(s.T, l.Resume(s.Context()))
		check.OK(s.T, approved.Raise(s.Context(), s, "l", "fine", abide.IfAwaited()))
		_, err = l.Result(s.month())
		check.OK(s.T, err)
		check.OK(s.T, l.Restart(s.Context()))
		rig.Pass(time.Second)
		info, err = l.Info(s.Context())
		check.OK(s.T, err)
		check.Equal(s.T, "restarted", info.Status, abide.Running)
		check.OK(s.T, l.Terminate(s.Context(), "that is all"))
		ended, err := s.WaitEnd(s.month(), l.Ref())
		check.OK(s.T, err)
		check.Equal(s.T, "terminated", fmt.Sprint(ended.Status, " ", ended.Reason), "terminated that is all")
		check.OK(s.T, l.Delete(s.Context()))
		_, err = l.Info(s.Context())
		check.Error(s.T, err, abide.ErrNotFound, `"l"`)
	})
}

// TestAwait: an instance that does not exist is waited for, one that is deleted is not.
func TestAwait(t *testing.T) {
	event := abide.NewEvent[int]("e")
	flow := abide.NewOrchestration("flow", func(ctx abide.Context, _ abide.None) (int, error) { return event.Wait(ctx) })
	both(t, []abide.Definition{flow}, func(s *stage) {
		ref := abide.Ref{ID: "i"}
		type answer struct {
			info abide.Info
			err  error
		}
		await := func(after int64) chan answer {
			c := make(chan answer, 1)
			go func() {
				info, err := s.WaitChange(s.month(), ref, after)
				c <- answer{info, err}
			}()
			return c
		}
		first := await(0)
		rig.Pass(5 * time.Minute)
		_, err := flow.Start(s.Context(), s, abide.None{}, abide.ID("i"))
		check.OK(s.T, err)
		a := <-first
		check.OK(s.T, a.err)
		check.Equal(s.T, "revision", a.info.Revision >= 1, true)
		rig.Pass(time.Second)
		info, err := s.Get(s.Context(), ref)
		check.OK(s.T, err)
		next := await(info.Revision)
		rig.Pass(time.Hour)
		check.OK(s.T, event.Raise(s.Context(), s, "i", 1))
		a = <-next
		check.OK(s.T, a.err)
		check.Equal(s.T, "status", a.info.Status, abide.Completed)
		gone := await(a.info.Revision)
		rig.Pass(5 * time.Minute)
		check.OK(s.T, s.Delete(s.Context(), ref))
		a = <-gone
		check.Error(s.T, a.err, abide.ErrNotFound, `"i"`)
		short, cancel := context.WithTimeout(s.Context(), time.Minute)
		defer cancel()
		_, err = s.WaitChange(short, ref, 0)
		check.Error(s.T, err, context.DeadlineExceeded)
	})
}
