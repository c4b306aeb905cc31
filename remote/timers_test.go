package remote_test

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"log/slog"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/abidehq/abide/bus"
	"github.com/abidehq/abide/bus/outbox"
	"github.com/abidehq/abide/internal/check"
	"github.com/abidehq/abide/remote"
	"github.com/abidehq/abide/server"
	"github.com/abidehq/abide/server/api"
	"github.com/abidehq/abide/store"
	"github.com/abidehq/abide/store/memstore"
	"github.com/abidehq/abide/timer"
)

// newTimers returns timers of a server, and the service behind them.
func newTimers(t *testing.T, transport string) (*remote.Client, *timer.Service) {
	t.Helper()
	st := memstore.New(memstore.Options{})
	t.Cleanup(func() { _ = st.Close() })
	quiet := slog.New(slog.DiscardHandler)
	local, err := timer.New(timer.Config{
		Store: st, Sinks: []outbox.Sink{{Name: "local", Bus: &bus.Local{}}}, Logger: quiet,
		QuotaOf: func(tenant string) int { return map[string]int{"small": 1}[tenant] },
	})
	check.OK(t, err)
	s, err := server.New(server.Config{Store: store.Store(st), Timers: local, Logger: quiet})
	check.OK(t, err)
	return dial(t, transport, s), local
}

// fire has timers fire until the test ends.
func fire(t *testing.T, s *timer.Service) {
	t.Helper()
	ctx, cancel := context.WithCancel(context.Background())
	done := make(chan struct{})
	go func() {
		defer close(done)
		_ = s.Run(ctx)
	}()
	t.Cleanup(func() {
		cancel()
		<-done
	})
}

func TestTimers(t *testing.T) {
	t.Parallel()
	for _, transport := range []string{"tcp", "unix"} {
		t.Run(transport, func(t *testing.T) {
			t.Parallel()
			c, local := newTimers(t, transport)
			far := c.Timers()
			ctx := t.Context()
			for _, key := range slices.Concat(odd, []string{".", "..", "../x", "//", "😀"}) {
				r := timer.Request{
					Tenant: "t/" + key, Key: key, Delay: time.Hour, CorrelationID: "c", Payload: json.RawMessage(`{"k":[1,"<x>"]}`), IfAbsent: true,
				}
				got, err := far.Schedule(ctx, r)
				if err != nil {
					t.Fatalf("schedule %q: %v", key, err)
				}
				there, err := local.Get(ctx, r.Tenant, key)
				check.OK(t, err)
				same(t, "schedule", got, there)
				if _, err = far.Schedule(ctx, r); !errors.Is(err, timer.ErrExists) || errors.Is(err, timer.ErrConflict) {
					t.Errorf("schedule %q again: %v", key, err)
				}
				r.IfAbsent, r.IfVersion, r.Delay, r.DueAt = false, 1, 0, time.Date(2099, 1, 1, 0, 0, 0, 5e6, time.UTC)
				if got, err = far.Schedule(ctx, r); err != nil || !got.DueAt.Equal(r.DueAt) || got.Version != 2 {
					t.Errorf("move %q: %+v, %v", key, got, err)
				}
				if _, err = far.Schedule(ctx, r); !errors.Is(err, timer.ErrConflict) {
					t.Errorf("move %q again: %v", key, err)
				}
				if got, err = far.Snooze(ctx, r.Tenant, key, time.Hour); err != nil || !got.DueAt.Equal(r.DueAt.Add(time.Hour)) {
					t.Errorf("snooze %q: %+v, %v", key, got, err)
				}
				if _, err = far.CancelIf(ctx, r.Tenant, key, 2); !errors.Is(err, timer.ErrConflict) {
					t.Errorf("cancel version 2 of %q: %v", key, err)
				}
				if got, err = far.CancelIf(ctx, r.Tenant, key, 3); err != nil || got.Status != timer.Cancelled {
					t.Errorf("cancel %q: %+v, %v", key, got, err)
				}
				if got, err = far.Cancel(ctx, r.Tenant, key); err != nil || got.Version != 4 {
					t.Errorf("cancel %q again: %+v, %v", key, got, err)
				}
				got, err = far.Get(ctx, r.Tenant, key)
				check.OK(t, err)
				there, _ = local.Get(ctx, r.Tenant, key)
				same(t, "get", got, there)
			}
		})
	}
}

func TestManyTimers(t *testing.T) {
	t.Parallel()
	c, local := newTimers(t, "unix")
	far := c.Timers()
	ctx := t.Context()
	var requests []timer.Request
	for i := range 300 {
		requests = append(requests, timer.Request{
			Tenant: "acme", Key: fmt.Sprintf("k%03d", i), Delay: time.Duration(i+1) * time.Hour, CorrelationID: fmt.Sprint("c", i%3), IfAbsent: i%2 == 0, Payload: json.RawMessage(`1`),
		})
	}
	made, err := far.ScheduleAll(ctx, requests)
	if err != nil || len(made) != 300 || made[299].Key != "k299" || made[0].Status != timer.Armed {
		t.Fatalf("%d are made, %v", len(made), err)
	}
	if none, err := far.ScheduleAll(ctx, nil); err != nil || len(none) != 0 {
		t.Errorf("none: %v, %v", none, err)
	}
	if _, err = far.ScheduleAll(ctx, requests[:1]); !errors.Is(err, timer.ErrExists) {
		t.Errorf("what is there: %v", err)
	}
	for _, f := range []timer.Filter{
		{}, {Tenant: "acme"}, {Tenant: "nobody"}, {Descending: true}, {CorrelationID: "c1"}, {KeyPrefix: "k02"},
		{Statuses: []timer.Status{timer.Armed, timer.Fired}}, {Statuses: []timer.Status{timer.Cancelled}},
		{From: made[10].DueAt, To: made[20].DueAt},
	} {
		f.Limit = 1000
		want := check.All(t, local.All(ctx, f))
		f.Limit = 70
		same(t, fmt.Sprintf("%+v", f), check.All(t, far.All(ctx, f)), want)
	}
	if n, err := far.CancelAll(ctx, timer.Filter{Tenant: "acme", CorrelationID: "c2"}); n != 100 || err != nil {
		t.Errorf("%d are cancelled, %v", n, err)
	}
	if n, err := far.CancelAll(ctx, timer.Filter{Tenant: "acme"}); n != 200 || err != nil {
		t.Errorf("%d are cancelled, %v", n, err)
	}
}

// TestTimerErrors are those of the service, and say what it said.
func TestTimerErrors(t *testing.T) {
	t.Parallel()
	c, local := newTimers(t, "tcp")
	far := c.Timers()
	ctx := t.Context()
	if _, err := local.Schedule(ctx, timer.Request{Tenant: "t", Key: "a", Delay: time.Hour}); err != nil {
		t.Fatal(err)
	}
	if _, err := local.Schedule(ctx, timer.Request{Tenant: "small", Key: "a", Delay: time.Hour}); err != nil {
		t.Fatal(err)
	}
	schedule := func(r timer.Request) func() error {
		return func() error { _, err := far.Schedule(ctx, r); return err }
	}
	for name, tt := range map[string]struct {
		call func() error
		is   error
		says string
	}{
		"not found":       {func() error { _, err := far.Get(ctx, "t", "none"); return err }, timer.ErrNotFound, "t/none"},
		"cancel none":     {func() error { _, err := far.Cancel(ctx, "t", "none"); return err }, timer.ErrNotFound, "t/none"},
		"state":           {func() error { _, err := far.Redeliver(ctx, "t", "a", "local"); return err }, timer.ErrState, "it is armed"},
		"quota":           {schedule(timer.Request{Tenant: "small", Key: "b", Delay: time.Hour}), timer.ErrQuota, "small"},
		"two times":       {schedule(timer.Request{Tenant: "t", Key: "b", Delay: time.Hour, DueAt: time.Now()}), timer.ErrInvalid, "only one"},
		"payload":         {schedule(timer.Request{Tenant: "t", Key: "b", Payload: json.RawMessage(`"` + strings.Repeat("x", 100<<10) + `"`)}), timer.ErrInvalid, "payload"},
		"size":            {schedule(timer.Request{Tenant: "t", Key: "b", Payload: json.RawMessage(`"` + strings.Repeat("x", 2<<20) + `"`)}), timer.ErrInvalid, ""},
		"long key":        {schedule(timer.Request{Tenant: "t", Key: strings.Repeat("x", 10<<10)}), timer.ErrInvalid, "10240"},
		"NUL":             {schedule(timer.Request{Tenant: "t", Key: "a\x00b"}), timer.ErrInvalid, "control"},
		"no UTF-8":        {schedule(timer.Request{Tenant: "t", Key: "a\xffb"}), timer.ErrInvalid, "UTF-8"},
		"no UTF-8 in all": {func() error { _, err := far.ScheduleAll(ctx, []timer.Request{{Tenant: "t", Key: "\xff"}}); return err }, timer.ErrInvalid, "UTF-8"},
		"no key":          {schedule(timer.Request{Tenant: "t"}), timer.ErrInvalid, "needed"},
		"no tenant":       {func() error { _, err := far.Get(ctx, "", "a"); return err }, timer.ErrInvalid, "needed"},
		"a slash":         {func() error { _, err := far.Get(ctx, "t", "/"); return err }, timer.ErrInvalid, "slash"},
		"position":        {schedule(timer.Request{Tenant: "t", Key: "b", Position: bus.Position{Source: "s"}}), timer.ErrInvalid, "position"},
		"version":         {func() error { _, err := far.CancelIf(ctx, "t", "a", -1); return err }, timer.ErrInvalid, "If-Match"},
		"snooze":          {func() error { _, err := far.Snooze(ctx, "t", "a", -time.Hour); return err }, timer.ErrInvalid, "more than 0"},
		"page":            {func() error { _, err := far.List(ctx, timer.Filter{Limit: 5000}); return err }, timer.ErrInvalid, "page_size"},
		"cursor":          {func() error { _, err := far.List(ctx, timer.Filter{Cursor: "forged"}); return err }, timer.ErrInvalid, "cursor"},
		"cancel all":      {func() error { _, err := far.CancelAll(ctx, timer.Filter{}); return err }, timer.ErrInvalid, "tenant"},
		"cancel some":     {func() error { _, err := far.CancelAll(ctx, timer.Filter{Tenant: "t", Limit: 5}); return err }, timer.ErrInvalid, "a limit"},
		"cancel statuses": {func() error {
			_, err := far.CancelAll(ctx, timer.Filter{Tenant: "t", Statuses: []timer.Status{timer.Fired}})
			return err
		}, timer.ErrInvalid, "statuses"},
	} {
		err := tt.call()
		if !errors.Is(err, tt.is) || !strings.Contains(err.Error(), tt.says) {
			t.Errorf("%s: %v; want %v with %q", name, err, tt.is, tt.says)
		}
	}
	_, err := far.Get(ctx, "t", "none")
	var p *api.Problem
	if !errors.As(err, &p) || p.Code != api.CodeNotFound || p.Status != 404 {
		t.Errorf("what the server said is not in %v", err)
	}
}

func TestSinksAndDeliveries(t *testing.T) {
	t.Parallel()
	c, local := newTimers(t, "tcp")
	fire(t, local)
	ctx := t.Context()
	sinks, err := c.Sinks(ctx)
	if err != nil || len(sinks) != 1 || sinks[0].Name != "local" || !sinks[0].Configured {
		t.Errorf("the sinks are %v, %v", sinks, err)
	}
	for _, key := range []string{"a", "b"} {
		if _, err := c.Timers().Schedule(ctx, timer.Request{Tenant: "acme", Key: key}); err != nil {
			t.Fatal(err)
		}
		published := func() bool {
			got, err := c.Timers().Get(ctx, "acme", key)
			check.OK(t, err)
			return len(got.Deliveries) == 1 && got.Deliveries[0].State == outbox.Published
		}
		for !published() {
			if ctx.Err() != nil {
				t.Fatal("it is not published")
			}
		}
	}
	list, err := c.Deliveries(ctx, remote.DeliveryFilter{Tenant: "acme", Sink: "local", State: "published", Limit: 1})
	if err != nil || len(list.Deliveries) != 1 || list.Deliveries[0].Key != "b" || list.NextPageToken == "" {
		t.Fatalf("the deliveries are %+v, %v", list, err)
	}
	list, err = c.Deliveries(ctx, remote.DeliveryFilter{Tenant: "acme", Sink: "local", State: "published", Limit: 1, Cursor: list.NextPageToken})
	if err != nil || len(list.Deliveries) != 1 || list.Deliveries[0].Key != "a" || list.Deliveries[0].Sink != "local" {
		t.Fatalf("the deliveries are %+v, %v", list, err)
	}
	if list, err = c.Deliveries(ctx, remote.DeliveryFilter{State: "failed"}); err != nil || len(list.Deliveries) != 0 {
		t.Errorf("the failed ones are %+v, %v", list, err)
	}
	if _, err = c.Deliveries(ctx, remote.DeliveryFilter{State: "lost"}); !errors.Is(err, timer.ErrInvalid) {
		t.Errorf("a state that is none: %v", err)
	}
	if got, err := c.Timers().Redeliver(ctx, "acme", "a", "local"); err != nil || got.EnvelopeID != "" && got.Status != timer.Fired {
		t.Errorf("redeliver: %+v, %v", got, err)
	}
	if _, err := c.Timers().Redeliver(ctx, "acme", "a", "nowhere"); !errors.Is(err, timer.ErrInvalid) {
		t.Errorf("redeliver to nowhere: %v", err)
	}
}
