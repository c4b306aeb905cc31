package operation_test

import (
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/abidehq/abide"
	"github.com/abidehq/abide/internal/check"
	"github.com/abidehq/abide/internal/rig"
	"github.com/abidehq/abide/server/operation"
	"github.com/abidehq/abide/store"
)

// TestEachKindDoesWhatItSays, to those whose status allows it, and counts the others.
func TestEachKindDoesWhatItSays(t *testing.T) {
	for kind, want := range map[operation.Kind][2]string{
		operation.Cancel:    {"completed: 9 = 5 + 4 + 0", "2 suspended, 4 completed, 3 cancelled"}, // those that are suspended learn of it later
		operation.Terminate: {"completed: 9 = 5 + 4 + 0", "4 completed, 5 terminated"},
		operation.Suspend:   {"completed: 9 = 3 + 6 + 0", "4 completed, 5 suspended"},
		operation.Resume:    {"completed: 9 = 2 + 7 + 0", "4 completed, 5 running"},
		operation.Restart:   {"completed: 9 = 4 + 5 + 0", "4 completed, 3 running, 2 suspended"},
		operation.Rewind:    {"completed: 9 = 0 + 9 + 0", "4 completed, 3 running, 2 suspended"},
		operation.Delete:    {"completed: 9 = 4 + 5 + 0", "3 running, 2 suspended"},
	} {
		t.Run(string(kind), func(t *testing.T) {
			bubble(t, func(t *testing.T, r *fixture) {
				r.start(long, "acme", "run", 3)
				r.start(quick, "acme", "end", 4)
				r.start(long, "acme", "sus", 2)
				for i := range 2 {
					check.OK(r.T, r.engine.Suspend(r.T.Context(), abide.Ref{Tenant: "acme", ID: fmt.Sprintf("sus%04d", i)}, "so"))
				}
				r.start(long, "other", "run", 2)
				r.run(r.Service)
				o := r.begin(operation.Request{Kind: kind, Filter: of("acme"), Reason: "repairs", By: "an operator"})
				if o.Status != operation.Pending || o.ID == "" || o.By != "an operator" || o.Reason != "repairs" || o.CreatedAt.IsZero() || !o.EndedAt.IsZero() {
					t.Errorf("it begins as %+v", o)
				}
				rig.Pass(10 * time.Second)
				r.wantCounts(o.ID, want[0])
				r.wantStatuses("other", "2 running")
				got, expected := strings.Split(r.statuses("acme"), ", "), strings.Split(want[1], ", ")
				if len(got) != len(expected) || !sameParts(got, expected) {
					t.Errorf("the instances are %v, want %v", got, expected)
				}
				done := r.get(o.ID)
				if done.Total != 9 || done.BegunAt.Before(o.CreatedAt) || done.EndedAt.Before(done.BegunAt) || done.By != "an operator" {
					t.Errorf("it has ended as %+v", done)
				}
				if kind == operation.Terminate {
					info, err := r.engine.Get(t.Context(), abide.Ref{Tenant: "acme", ID: "run0000"})
					check.OK(r.T, err)
					if info.Status != abide.Terminated || !strings.Contains(fmt.Sprint(info.Reason, info.Err), "repairs") {
						t.Errorf("an instance does not say why: %q, %v", info.Reason, info.Err)
					}
				}
			})
		})
	}
}

func sameParts(a, b []string) bool {
	seen := map[string]bool{}
	for _, part := range a {
		seen[part] = true
	}
	for _, part := range b {
		if !seen[part] {
			return false
		}
	}
	return true
}

// TestFilterSaysWhichAreMeant, and the total is that of them, where it is known.
func TestFilterSaysWhichAreMeant(t *testing.T) {
	for name, tt := range map[string]struct {
		change func(f *abide.Filter, begun time.Time)
		all    bool
		want   int
		total  int
	}{
		"a tenant":              {func(*abide.Filter, time.Time) {}, false, 6, 6},
		"all tenants":           {func(f *abide.Filter, _ time.Time) { f.Tenant = nil }, true, 11, 11},
		"the default tenant":    {func(f *abide.Filter, _ time.Time) { *f.Tenant = "default" }, false, 3, 3},
		"the empty tenant":      {func(f *abide.Filter, _ time.Time) { *f.Tenant = "" }, false, 3, 3},
		"an orchestration":      {func(f *abide.Filter, _ time.Time) { f.Orchestrations = []string{"quick", "none"} }, false, 2, 2},
		"a status":              {func(f *abide.Filter, _ time.Time) { f.Statuses = []abide.Status{abide.Running} }, false, 4, 4},
		"a tag":                 {func(f *abide.Filter, _ time.Time) { f.Tags = map[string]string{"colour": "red"} }, false, 1, 1},
		"a prefix":              {func(f *abide.Filter, _ time.Time) { f.Prefix = "no such" }, false, 0, 0},
		"a parent":              {func(f *abide.Filter, _ time.Time) { f.Parent = "no such" }, false, 0, 0},
		"from":                  {func(f *abide.Filter, begun time.Time) { f.From = begun.Add(time.Second) }, false, 3, 3},
		"to":                    {func(f *abide.Filter, begun time.Time) { f.To = begun.Add(time.Second) }, false, 3, 3},
		"to, in the far future": {func(f *abide.Filter, begun time.Time) { f.To = begun.Add(time.Hour) }, false, 6, 6},
	} {
		t.Run(name, func(t *testing.T) {
			bubble(t, func(t *testing.T, r *fixture) {
				begun := time.Now()
				r.start(long, "acme", "a", 3)
				r.start(quick, "acme", "b", 2)
				r.start(long, "acme", "c", 1, abide.Tag("colour", "red"))
				r.start(long, "other", "a", 2)
				r.start(long, "", "a", 3)
				f := of("acme")
				tt.change(&f, begun)
				o := r.begin(operation.Request{Kind: operation.Terminate, Filter: f, All: tt.all})
				rig.Pass(2 * time.Millisecond)
				r.start(long, "acme", "later", 2) // which nobody means
				r.run(r.Service)
				rig.Pass(time.Second)
				if got := r.get(o.ID); got.Status != operation.Completed || got.Matched != tt.want || got.Total != tt.total {
					t.Errorf("it is %s with %d of %d instances, want %d of %d", got.Status, got.Matched, got.Total, tt.want, tt.total)
				}
				for i := range 2 {
					info, err := r.engine.Get(t.Context(), abide.Ref{Tenant: "acme", ID: fmt.Sprintf("later%04d", i)})
					check.OK(r.T, err)
					check.Equal(t, "an instance that was started after the operation", info.Status, abide.Running)
				}
			})
		})
	}
}

// TestNobodyEndsEverythingByAccident, nor asks for what makes no sense.
func TestNobodyEndsEverythingByAccident(t *testing.T) {
	bubble(t, func(t *testing.T, r *fixture) {
		f := of("acme")
		with := func(change func(*operation.Request)) operation.Request {
			req := operation.Request{Kind: operation.Delete, Filter: f}
			change(&req)
			return req
		}
		for says, req := range map[string]operation.Request{
			"names no tenant":             {Kind: operation.Terminate},
			"name one, or say that all":   {Kind: operation.Terminate, Filter: abide.Filter{Statuses: []abide.Status{abide.Failed}}},
			"only one is allowed":         with(func(req *operation.Request) { req.All = true }),
			`unknown kind ""`:             with(func(req *operation.Request) { req.Kind = "" }),
			`unknown kind "explode"`:      with(func(req *operation.Request) { req.Kind = "explode" }),
			"how to page":                 with(func(req *operation.Request) { req.Filter.Limit = 5 }),
			"all that match are meant":    with(func(req *operation.Request) { req.Filter.Descending = true }),
			"the filter says how to page": with(func(req *operation.Request) { req.Filter.Cursor = "x" }),
			`unknown status "done"`:       with(func(req *operation.Request) { req.Filter.Statuses = []abide.Status{"done"} }),
			"is not a range": with(func(req *operation.Request) {
				req.Filter.From, req.Filter.To = time.Unix(20, 0), time.Unix(20, 0)
			}),
			"before 1970":                  with(func(req *operation.Request) { req.Filter.To = time.Unix(0, 0) }),
			"after the year 9998":          with(func(req *operation.Request) { req.Filter.To = time.Date(9999, 1, 1, 0, 0, 0, 0, time.UTC) }),
			"the ID has 257 bytes":         with(func(req *operation.Request) { req.ID = strings.Repeat("x", 257) }),
			"the ID is not UTF-8":          with(func(req *operation.Request) { req.ID = "\xff" }),
			"the reason has 1025 bytes":    with(func(req *operation.Request) { req.Reason = strings.Repeat("x", 1025) }),
			"who asks has 257 bytes":       with(func(req *operation.Request) { req.By = strings.Repeat("x", 257) }),
			"65 tags and 0 orchestrations": with(func(req *operation.Request) { req.Filter.Tags = manyTags(65) }),
		} {
			_, err := r.Start(t.Context(), req)
			check.Error(t, err, operation.ErrInvalid, "operation: start: ", says)
		}
		page, err := r.List(t.Context(), operation.Query{})
		if err != nil || len(page.Operations) != 0 {
			t.Errorf("there are %v, %v", page.Operations, err)
		}
	})
}

func manyTags(n int) map[string]string {
	tags := map[string]string{}
	for i := range n {
		tags[fmt.Sprint(i)] = "x"
	}
	return tags
}

// TestStartIsIdempotentByID, also when the operation has ended; but an ID stands for one
// operation.
func TestStartIsIdempotentByID(t *testing.T) {
	bubble(t, func(t *testing.T, r *fixture) {
		r.start(long, "acme", "a", 3)
		req := operation.Request{
			ID: "one", Kind: operation.Terminate, Reason: "first", By: "me",
			Filter: abide.Filter{Tenant: new("acme"), From: time.Unix(5, 12345), Tags: map[string]string{}, Statuses: []abide.Status{abide.Running}},
		}
		first := r.begin(req)
		req.Reason, req.By = "second", "you"
		again := r.begin(req)
		if again.Version != first.Version || again.Reason != "first" || again.By != "me" {
			t.Errorf("the second start is %+v", again)
		}
		r.run(r.Service)
		rig.Pass(time.Second)
		r.wantCounts("one", "completed: 3 = 3 + 0 + 0")
		if again = r.begin(req); again.Status != operation.Completed {
			t.Errorf("the third start is %s", again.Status)
		}
		rig.Pass(time.Second)
		if calls, _ := r.client.total(); calls != 3 {
			t.Errorf("%d calls for 3 instances", calls)
		}
		for name, change := range map[string]func(*operation.Request){
			"kind":   func(req *operation.Request) { req.Kind = operation.Delete },
			"from":   func(req *operation.Request) { req.Filter.From = time.Unix(6, 0) },
			"status": func(req *operation.Request) { req.Filter.Statuses = nil },
			"prefix": func(req *operation.Request) { req.Filter.Prefix = "a" },
			"parent": func(req *operation.Request) { req.Filter.Parent = "a" },
			"tags":   func(req *operation.Request) { req.Filter.Tags = map[string]string{"a": "b"} },
		} {
			other := req
			change(&other)
			if _, err := r.Start(t.Context(), other); err == nil {
				t.Errorf("another %s has the same ID", name)
			} else {
				check.Error(t, err, operation.ErrExists, "one", "terminate")
			}
		}
	})
}

// TestIDsAreThoseOfATenant: operations of different tenants, and about all of them, can have the
// same ID, and each is found, done and cancelled by itself.
func TestIDsAreThoseOfATenant(t *testing.T) {
	bubble(t, func(t *testing.T, r *fixture) {
		for _, tenant := range []string{"acme", "north", ""} {
			r.start(long, tenant, "a", 2)
		}
		for _, req := range []operation.Request{
			{Kind: operation.Suspend, Filter: of("acme")},
			{Kind: operation.Terminate, Filter: of("north")},
			{Kind: operation.Terminate, Filter: of("")},
			{Kind: operation.Restart, All: true},
		} {
			req.ID = "one"
			r.begin(req)
			req.Kind = operation.Delete
			_, err := r.Start(t.Context(), req)
			check.Error(t, err, operation.ErrExists, "one")
		}
		_, err := r.Cancel(t.Context(), "north", "one")
		check.OK(r.T, err)
		r.run(r.Service)
		rig.Pass(time.Second)
		for tenant, want := range map[string]string{
			"acme": "completed: 2 = 2 + 0 + 0", "north": "cancelled: 0 = 0 + 0 + 0", "default": "completed: 2 = 2 + 0 + 0", "": "completed: 6 = 0 + 6 + 0",
		} {
			o, err := r.Get(t.Context(), tenant, "one")
			if check.OK(r.T, err); counts(o) != want || o.Tenant() != tenant {
				t.Errorf("that of tenant %q is %s of tenant %q, want %s", tenant, counts(o), o.Tenant(), want)
			}
		}
		r.wantStatuses("acme", "2 suspended")
		r.wantStatuses("north", "2 running")
		_, err = r.Get(t.Context(), "other", "one")
		check.Error(t, err, operation.ErrNotFound, "one")
		rig.Pass(operation.Retention)
		page, err := r.List(t.Context(), operation.Query{})
		if err != nil || len(page.Operations) > 0 {
			t.Errorf("%d operations are left, %v", len(page.Operations), err)
		}
	})
}

// putOld rewrites an operation that nobody has begun as earlier releases kept it: record and
// message have no tenant.
func (r *fixture) putOld(o operation.Operation) {
	r.T.Helper()
	rec, err := r.Store.Get(r.T.Context(), store.RecordKey{Kind: "operation", Tenant: o.Tenant(), ID: o.ID})
	check.OK(r.T, err)
	key := store.Key{Queue: "operations", Tenant: o.Tenant(), Name: o.ID}
	tx := &store.Tx{
		DeleteRecords: []store.DeleteRecord{{Key: rec.Key, Expect: rec.Version}},
		Delete:        []store.MessageRef{{Key: key, ID: "run"}},
	}
	check.OK(r.T, r.Store.Commit(r.T.Context(), tx)) // by itself: the tenants may be on different shards
	rec.Key.Tenant = ""
	check.OK(r.T, r.Store.Commit(r.T.Context(), &store.Tx{
		Put:        []store.Message{{Key: store.Key{Queue: "operations", Name: o.ID}, ID: "run", Route: "operation", Body: []byte{1}}},
		PutRecords: []store.PutRecord{{Record: rec}},
	}))
}

// TestOperationsOfEarlierReleases, whose records have no tenant, are found, done, cancelled and
// removed, belong to their tenant, and do not keep others from their IDs.
func TestOperationsOfEarlierReleases(t *testing.T) {
	bubble(t, func(t *testing.T, r *fixture) {
		r.start(long, "acme", "a", 300) // more than a page
		request := operation.Request{ID: "old", Kind: operation.Suspend, Filter: of("acme")}
		for _, id := range []string{"old", "stopped"} {
			request.ID = id
			r.putOld(r.begin(request))
		}
		request.ID = "old"
		again := r.begin(request)
		if again.Version != 1 || r.under("old") != "" {
			t.Errorf("starting it again starts another one: version %d, under %q", again.Version, r.under("old"))
		}
		request.Kind = operation.Delete
		_, err := r.Start(t.Context(), request)
		check.Error(t, err, operation.ErrExists, "old")
		_, err = r.Get(t.Context(), "north", "old")
		check.Error(t, err, operation.ErrNotFound, "old")
		_, err = r.Cancel(t.Context(), "north", "old")
		check.Error(t, err, operation.ErrNotFound, "old")
		request.Filter = of("north")
		r.begin(request)
		if _, err = r.Cancel(t.Context(), "acme", "stopped"); err != nil {
			t.Error(err)
		}
		r.run(r.Service)
		rig.Pass(time.Second)
		for _, tenant := range []string{"acme", ""} { // callers with all tenants need not name it
			o, err := r.Get(t.Context(), tenant, "old")
			if check.OK(r.T, err); counts(o) != "completed: 300 = 300 + 0 + 0" {
				t.Errorf("that of tenant %q is %s", tenant, counts(o))
			}
		}
		r.wantCounts("stopped", "cancelled: 0 = 0 + 0 + 0")
		r.wantStatuses("acme", "300 suspended")
		rig.Pass(operation.Retention)
		page, err := r.List(t.Context(), operation.Query{})
		if err != nil || len(page.Operations) > 0 {
			t.Errorf("%d operations are left, %v", len(page.Operations), err)
		}
	})
}

// TestLists are the latest first, by tenant, status and kind, page by page.
func TestLists(t *testing.T) {
	bubble(t, func(t *testing.T, r *fixture) {
		for i, req := range []operation.Request{
			{Kind: operation.Cancel, Filter: of("acme")},
			{Kind: operation.Delete, Filter: of("acme")},
			{Kind: operation.Cancel, Filter: of("")},
			{Kind: operation.Resume, All: true},
			{Kind: operation.Cancel, Filter: of("other")},
		} {
			req.ID = fmt.Sprint(i)
			r.begin(req)
			rig.Pass(time.Second)
		}
		_, err := r.Cancel(t.Context(), "acme", "1")
		check.OK(r.T, err)
		for _, tt := range []struct {
			q    operation.Query
			want string
		}{
			{operation.Query{}, "4 3 2 1 0"},
			{operation.Query{Limit: 2}, "4 3 2 1 0"},
			{operation.Query{Tenant: "acme"}, "1 0"},
			{operation.Query{Tenant: "default"}, "2"},
			{operation.Query{Tenant: "nobody"}, ""},
			{operation.Query{Statuses: []operation.Status{operation.Cancelled}}, "1"},
			{operation.Query{Statuses: []operation.Status{operation.Pending, operation.Cancelled}, Kinds: []operation.Kind{operation.Delete, operation.Resume}}, "3 1"},
		} {
			var got []string
			for q := tt.q; ; {
				page, err := r.List(t.Context(), q)
				check.OK(r.T, err)
				for i := range page.Operations {
					got = append(got, page.Operations[i].ID)
				}
				if q.Cursor = page.Next; q.Cursor == "" {
					break
				}
			}
			if strings.Join(got, " ") != tt.want {
				t.Errorf("%+v lists %v, want %s", tt.q, got, tt.want)
			}
		}
		for says, q := range map[string]operation.Query{
			"a page of 1001":        {Limit: 1001},
			"a page of -1":          {Limit: -1},
			`unknown status "done"`: {Statuses: []operation.Status{"done"}},
			`unknown kind "x"`:      {Kinds: []operation.Kind{"x"}},
			"cursor":                {Cursor: "forged"},
		} {
			_, err := r.List(t.Context(), q)
			check.Error(t, err, operation.ErrInvalid, says)
		}
		_, err = r.Get(t.Context(), "acme", "none")
		check.Error(t, err, operation.ErrNotFound, "none")
		_, err = r.Get(t.Context(), "acme", "")
		check.Error(t, err, operation.ErrInvalid, "empty")
	})
}

// TestAnOperationIsKeptForAWeek after it has ended, and no longer.
func TestAnOperationIsKeptForAWeek(t *testing.T) {
	bubble(t, func(t *testing.T, r *fixture) {
		r.start(long, "acme", "a", 1)
		r.run(r.Service)
		done := r.begin(operation.Request{Kind: operation.Terminate, Filter: of("acme")})
		rig.Pass(time.Second)
		stopped := r.begin(operation.Request{Kind: operation.Terminate, Filter: of("acme")})
		rig.Pass(time.Second)
		rig.Pass(operation.Retention - 3*time.Second)
		r.get(done.ID)
		r.get(stopped.ID)
		rig.Pass(4 * time.Second)
		for _, id := range []string{done.ID, stopped.ID} {
			_, err := r.Get(t.Context(), "acme", id)
			check.Error(t, err, operation.ErrNotFound)
		}
		stats, err := r.Store.Stats(t.Context())
		check.OK(r.T, err)
		for _, route := range stats.Routes {
			if route.Queue == "operations" {
				t.Errorf("%d messages are left", route.Pending)
			}
		}
	})
}

func TestAServiceNeedsAStoreAndAClient(t *testing.T) {
	bubble(t, func(t *testing.T, r *fixture) {
		_, err := operation.New(operation.Config{Client: r.engine.Client})
		check.Error(t, err, operation.ErrInvalid, "Store")
		_, err = operation.New(operation.Config{Store: r.Store})
		check.Error(t, err, operation.ErrInvalid, "Client")
		check.OK(t, r.Store.Close())
		check.Error(t, r.Run(t.Context()), store.ErrClosed)
	})
}
