package remote_test

import (
	"context"
	"encoding/json"
	"errors"
	"net"
	"net/http"
	"net/http/httptest"
	"net/url"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/abidehq/abide/action"
	"github.com/abidehq/abide/internal/check"
	"github.com/abidehq/abide/remote"
	"github.com/abidehq/abide/server"
	"github.com/abidehq/abide/store/memstore"
)

// dial returns a client of a handler that is served over real HTTP.
func dial(t *testing.T, transport string, h http.Handler) *remote.Client {
	t.Helper()
	s := httptest.NewUnstartedServer(h)
	address := ""
	if transport == "unix" {
		// Characters that mean something in a URL mean nothing in a path.
		path := filepath.Join(t.TempDir(), "a b%20?.sock")
		_ = s.Listener.Close()
		var err error
		if s.Listener, err = net.Listen("unix", path); err != nil {
			t.Fatal(err)
		}
		address = (&url.URL{Scheme: "unix", Path: path}).String()
	}
	s.Start()
	t.Cleanup(s.Close)
	if address == "" {
		address = s.URL + "/"
	}
	c, err := remote.New(address)
	check.OK(t, err)
	t.Cleanup(c.Close)
	return c
}

// newService returns actions of which none is ever run.
func newService(t *testing.T) *action.Service {
	t.Helper()
	st := memstore.New(memstore.Options{})
	t.Cleanup(func() { _ = st.Close() })
	s, err := action.New(action.Config{Store: st})
	check.OK(t, err)
	return s
}

// same compares what came over the wire with what is there.
func same(t *testing.T, verb string, got, want any) {
	t.Helper()
	g, err := json.Marshal(got)
	check.OK(t, err)
	w, err := json.Marshal(want)
	check.OK(t, err)
	if string(g) != string(w) {
		t.Errorf("%s: got\n%s\nwant\n%s", verb, g, w)
	}
}

// Names that mean something in a path are as good as others.
var odd = []string{"a", "a/b", "a b", "a%2Fb", "ä?x=1&y", "a#b", "a;b", "+"}

func TestActions(t *testing.T) {
	t.Parallel()
	for _, transport := range []string{"tcp", "unix"} {
		t.Run(transport, func(t *testing.T) {
			t.Parallel()
			local := newService(t)
			far := dial(t, transport, serve(t, local)).Actions()
			ctx := t.Context()
			for _, id := range odd {
				r := action.Request{
					Tenant: "t/" + id, Slug: "billing", Target: "none", ID: id, Delay: time.Hour,
					Payload: json.RawMessage(`{"k":[1,"<x>"]}`), Idempotent: true,
				}
				a, existed, err := far.Add(ctx, r)
				if err != nil || existed {
					t.Fatalf("add %q: %v, %v", id, existed, err)
				}
				there, err := local.Get(ctx, r.Tenant, id)
				check.OK(t, err)
				if a.Warning == "" {
					t.Errorf("add %q: no warning, and nobody serves the target", id)
				}
				same(t, "add", a, there)
				if _, existed, err = far.Add(ctx, r); err != nil || !existed {
					t.Errorf("add %q again: %v, %v", id, existed, err)
				}
				got, err := far.Get(ctx, r.Tenant, id)
				if err != nil {
					t.Errorf("get %q: %v", id, err)
				}
				same(t, "get", got, there)
				got, err = far.Cancel(ctx, r.Tenant, id, "why & how")
				if err != nil || got.Status != action.Cancelled || got.Reason != "why & how" {
					t.Errorf("cancel %q: %+v, %v", id, got, err)
				}
				got, err = far.Retry(ctx, r.Tenant, id)
				if err != nil || got.Status != action.Pending {
					t.Errorf("retry %q: %+v, %v", id, got, err)
				}
			}
			body := []byte("\x00\xff not text")
			hook, _, err := local.Receive(ctx, action.Received{Tenant: "t", Slug: "s", Target: "none", Header: map[string]string{"A": "b"}, Body: body})
			check.OK(t, err)
			if got, err := far.Body(ctx, "t", hook.ID); err != nil || string(got) != string(body) {
				t.Errorf("body: %q, %v", got, err)
			}
			got, err := far.Get(ctx, "t", hook.ID)
			if err != nil {
				t.Error(err)
			}
			same(t, "webhook", got, hook)
		})
	}
}

func TestListIsThatOfTheService(t *testing.T) {
	t.Parallel()
	local := newService(t)
	far := dial(t, "unix", serve(t, local)).Actions()
	ctx := t.Context()
	at := time.Date(2099, 1, 1, 0, 0, 0, 0, time.UTC)
	for i, slug := range []string{"a", "b", "a", "b", "a"} {
		id := slug + string(rune('0'+i))
		if _, _, err := far.Add(ctx, action.Request{Tenant: "t", Slug: slug, Target: "none", ID: id, At: at.Add(time.Duration(i) * time.Hour)}); err != nil {
			t.Fatal(err)
		}
	}
	if _, err := far.Cancel(ctx, "t", "a0", ""); err != nil {
		t.Fatal(err)
	}
	for _, f := range []action.Filter{
		{},
		{Tenant: "t"},
		{Tenant: "nobody"},
		{Slug: "b"},
		{Descending: true},
		{Statuses: []action.Status{action.Cancelled}},
		{Statuses: []action.Status{action.Cancelled, action.Pending}},
		{From: at.Add(time.Hour), To: at.Add(3*time.Hour + 1)},
	} {
		want, err := local.List(ctx, f)
		check.OK(t, err)
		f.Limit = 2
		got := check.All(t, far.All(ctx, f))
		same(t, "list", slices.Concat([]action.Action{}, got), slices.Concat([]action.Action{}, want.Actions))
	}
}

func TestSchedules(t *testing.T) {
	t.Parallel()
	for _, transport := range []string{"tcp", "unix"} {
		t.Run(transport, func(t *testing.T) {
			t.Parallel()
			local := newService(t)
			far := dial(t, transport, serve(t, local)).Actions()
			ctx := t.Context()
			plan := action.Plan{
				Tenant: "t", ID: "n/1", Slug: "billing", Target: "none", Cron: "30 2 * * *", Zone: "Europe/Berlin",
				Gap: action.GapSkip, Fold: action.FoldBoth, Jitter: time.Minute, Overlap: action.OverlapQueue,
				CatchUp: action.CatchUpAll, Window: time.Hour, Cap: 3, Count: 1000, Payload: json.RawMessage(`1`), Idempotent: true,
				From: time.Date(2020, 1, 1, 0, 0, 0, 0, time.UTC), Until: time.Date(2099, 1, 1, 0, 0, 0, 0, time.UTC),
			}
			made, err := far.AddSchedule(ctx, plan)
			check.OK(t, err)
			same(t, "plan", made.Plan, plan)
			there, err := local.GetSchedule(ctx, "t", "n/1")
			check.OK(t, err)
			got, err := far.GetSchedule(ctx, "t", "n/1")
			if err != nil || !got.Next.Equal(there.Next) || got.CreatedAt != there.CreatedAt || got.Version != there.Version {
				t.Errorf("got %+v, %v, want %+v", got, err, there)
			}
			page, err := far.ListSchedules(ctx, action.ScheduleFilter{Tenant: "t", Limit: 10})
			if err != nil || len(page.Schedules) != 1 || page.Schedules[0].ID != "n/1" {
				t.Errorf("list: %+v, %v", page, err)
			}
			plan.Cron, plan.Every = "", time.Hour
			if got, err = far.UpdateSchedule(ctx, plan, got.Version); err != nil || got.Every != time.Hour || got.Cron != "" {
				t.Errorf("update: %+v, %v", got, err)
			}
			if got, err = far.Pause(ctx, "t", "n/1", "for now"); err != nil || got.Status != action.Paused || got.Reason != "for now" {
				t.Errorf("pause: %+v, %v", got, err)
			}
			if got, err = far.Resume(ctx, "t", "n/1"); err != nil || got.Status != action.Active {
				t.Errorf("resume: %+v, %v", got, err)
			}
			if a, err := far.Trigger(ctx, "t", "n/1"); err != nil || a.Schedule != "n/1" {
				t.Errorf("trigger: %+v, %v", a, err)
			}
			from := time.Date(2026, 1, 1, 0, 0, 0, 0, time.UTC)
			if made, err := far.Backfill(ctx, "t", "n/1", from, from.Add(3*time.Hour)); err != nil || len(made) != 3 || !made[0].RunAt.Equal(from) {
				t.Errorf("backfill: %+v, %v", made, err)
			}
			if err := far.RemoveSchedule(ctx, "t", "n/1"); err != nil {
				t.Error(err)
			}
			if page, err := far.ListSchedules(ctx, action.ScheduleFilter{}); err != nil || len(page.Schedules) != 0 {
				t.Errorf("what is left: %+v, %v", page, err)
			}
		})
	}
}

// Errors are those of the service, and say what it said.
func TestErrors(t *testing.T) {
	t.Parallel()
	local := newService(t)
	far := dial(t, "tcp", serve(t, local)).Actions()
	ctx := t.Context()
	plan := action.Plan{Tenant: "t", ID: "n", Slug: "s", Target: "none", Every: time.Hour}
	if _, err := far.AddSchedule(ctx, plan); err != nil {
		t.Fatal(err)
	}
	if _, _, err := far.Add(ctx, action.Request{Tenant: "t", ID: "a", Slug: "s", Target: "none"}); err != nil {
		t.Fatal(err)
	}
	for name, tt := range map[string]struct {
		call func() error
		is   error
		says string
	}{
		"not found": {func() error { _, err := far.Get(ctx, "t", "none"); return err }, action.ErrNotFound, "t/none"},
		"exists":    {func() error { _, err := far.AddSchedule(ctx, plan); return err }, action.ErrExists, "t/n"},
		"state":     {func() error { _, err := far.Retry(ctx, "t", "a"); return err }, action.ErrState, "it is pending"},
		"conflict":  {func() error { _, err := far.UpdateSchedule(ctx, plan, 9); return err }, action.ErrConflict, "expected 9"},
		"rule": {func() error {
			_, _, err := far.Add(ctx, action.Request{Tenant: "t", Slug: "-x", Target: "none"})
			return err
		}, action.ErrInvalid, "slug"},
		"form": {func() error { _, err := far.List(ctx, action.Filter{Limit: 5000}); return err }, action.ErrInvalid, "page_size"},
		"size": {func() error {
			_, _, err := far.Add(ctx, action.Request{Tenant: "t", Slug: "x", Target: "none", Payload: json.RawMessage(`"` + strings.Repeat("x", 2<<20) + `"`)})
			return err
		}, action.ErrInvalid, ""},
		"remove": {func() error { return far.RemoveSchedule(ctx, "t", "none") }, action.ErrNotFound, "t/none"},
	} {
		err := tt.call()
		if !errors.Is(err, tt.is) || !strings.Contains(err.Error(), tt.says) {
			t.Errorf("%s: %v; want %v with %q", name, err, tt.is, tt.says)
		}
	}
}

func TestServersThatAreNotThereOrNotOurs(t *testing.T) {
	t.Parallel()
	gone := httptest.NewServer(http.NotFoundHandler())
	gone.Close()
	for _, address := range []string{gone.URL, "unix://" + filepath.Join(t.TempDir(), "none.sock")} {
		c, err := remote.New(address)
		check.OK(t, err)
		if _, err := c.Actions().Get(t.Context(), "t", "a"); !errors.Is(err, remote.ErrUnreachable) {
			t.Errorf("%s: %v", address, err)
		}
	}
	ended, cancel := context.WithCancel(t.Context())
	cancel()
	c := dial(t, "tcp", http.NotFoundHandler())
	if _, err := c.Actions().Get(ended, "t", "a"); !errors.Is(err, context.Canceled) || errors.Is(err, remote.ErrUnreachable) {
		t.Errorf("a call that was cancelled: %v", err)
	}
	if _, err := c.Actions().Get(t.Context(), "t", "a"); err == nil || errors.Is(err, action.ErrNotFound) || !strings.Contains(err.Error(), "404") {
		t.Errorf("a server that is not ours: %v", err)
	}
	other := dial(t, "tcp", http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) { _, _ = w.Write([]byte("<html>")) }))
	if _, err := other.Actions().Get(t.Context(), "t", "a"); err == nil || !strings.Contains(err.Error(), "not understood") {
		t.Errorf("an answer that is not ours: %v", err)
	}
	for _, address := range []string{"", "127.0.0.1:80", "http://", "ftp://host", "http://us er@x\x7f"} {
		if _, err := remote.New(address); err == nil {
			t.Errorf("address %q is accepted", address)
		}
	}
}

// serve returns a server of actions.
func serve(t *testing.T, actions *action.Service) *server.Server {
	t.Helper()
	s, err := server.New(server.Config{Actions: actions})
	check.OK(t, err)
	return s
}
