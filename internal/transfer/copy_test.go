package transfer_test

import (
	"errors"
	"slices"
	"testing"
	"time"

	"github.com/abidehq/abide/internal/check"
	"github.com/abidehq/abide/internal/transfer"
	"github.com/abidehq/abide/store"
)

func TestACopyHasAllOfEachTenant(t *testing.T) {
	t.Parallel()
	from, to := newStore(t), newStore(t)
	fill(t, from, 7)
	report := copies(t, from, to)
	if report.Resumed {
		t.Error("it says that it went on with another one")
	}
	var rows []string
	for i := range report.Tenants {
		rows = append(rows, report.Tenants[i].Tenant)
	}
	check.Equal(t, "tenants", rows, []string{"", "tenant-0", "tenant-1", "tenant-2"})
	sum := report.Tenants[1].To // of orders 0, 3 and 6
	if sum.Keys != 3 || sum.Messages != 6 || sum.Entries != 9 || sum.Records != 3 {
		t.Errorf("a tenant has %+v", sum)
	}
	if report.Total.From.Messages != 14 || report.Total.From.Records != 8 {
		t.Errorf("all have %+v", report.Total.From)
	}
	for i := range report.Tenants[1:] {
		if report.Tenants[i].From.Checksum() == report.Tenants[i+1].From.Checksum() {
			t.Errorf("tenants %d and %d have the same checksum", i, i+1)
		}
	}
	m, err := to.Pending(t.Context(), store.Key{Queue: "turns", Tenant: "tenant-0", Name: "order-3"}, 0)
	if err != nil || len(m) != 2 || m[0].ID != "a" || m[0].Route != "order" || len(m[0].Body) != large {
		t.Errorf("pending: %d, %v", len(m), err)
	}
}

func TestAnEmptyStoreCanBeCopied(t *testing.T) {
	t.Parallel()
	if report := copies(t, newStore(t), newStore(t)); len(report.Tenants) != 0 {
		t.Errorf("tenants %v", report.Tenants)
	}
}

// TestACopyGoesOnWhereverItWasCut cuts the connection at each call, before and after it.
func TestACopyGoesOnWhereverItWasCut(t *testing.T) {
	t.Parallel()
	from := newStore(t)
	fill(t, from, 5)
	cuts := 0
	for _, after := range []bool{false, true} {
		for n := 1; ; n++ {
			to, left := newStore(t), n
			_, err := run(t.Context(), cut{from, &left, after}, cut{to, &left, after})
			if err == nil {
				break // there is no n-th call
			}
			if !errors.Is(err, errCut) {
				t.Fatalf("cut at call %d: %v", n, err)
			}
			cuts++
			// But for the last call, which declares it whole, the target says that it is not.
			mark, err := to.Get(t.Context(), store.CopyMark)
			report, again := run(t.Context(), from, to)
			switch {
			case again == nil && !report.Total.Same():
				t.Fatalf("after a cut at call %d: %+v", n, report.Total)
			case again == nil && (err == nil) != report.Resumed:
				t.Fatalf("after a cut at call %d, with mark %q, %v: resumed is %v", n, mark.Body, err, report.Resumed)
			case again != nil && (!errors.Is(again, transfer.ErrTarget) || err == nil):
				t.Fatalf("after a cut at call %d, with mark %q, %v: %v", n, mark.Body, err, again)
			}
			sameStores(t, from, to)
		}
	}
	if cuts < 20 {
		t.Errorf("it was cut %d times: the test needs more parcels", cuts)
	}
}

// sameStores checks that two stores hold the same.
func sameStores(t *testing.T, a, b store.Portable) {
	t.Helper()
	if a, b := sumOf(t, a), sumOf(t, b); a != b {
		t.Fatalf("%+v and %+v are not the same", a, b)
	}
}

func sumOf(t *testing.T, s store.Portable) transfer.Sum {
	t.Helper()
	c := transfer.Check{Store: s, Report: func(transfer.Problem) {}}
	checked, err := c.Run(t.Context())
	check.OK(t, err)
	return checked.Sum
}

func TestWhatDiffersIsFoundAndTheTargetIsNotWhole(t *testing.T) {
	t.Parallel()
	for name, change := range map[string]func(p *store.Parcel){
		"a message is lost": func(p *store.Parcel) {
			p.Messages = slices.DeleteFunc(p.Messages, func(m store.Message) bool { return m.Key.Name == "order-1" && m.ID == "b" })
		},
		"an attempt is lost": onMessage(func(m *store.Message) { m.Attempt++ }),
		"a time is lost":     onMessage(func(m *store.Message) { m.VisibleAt = m.VisibleAt.Add(time.Millisecond) }),
		"another put time":   onMessage(func(m *store.Message) { m.PutAt = m.PutAt.Add(-time.Millisecond) }),
		"a time to live":     onMessage(func(m *store.Message) { m.TTL = time.Hour }),
		"a body is changed":  onMessage(func(m *store.Message) { m.Body = append([]byte("x"), m.Body...) }),
		"an ID is changed":   onMessage(func(m *store.Message) { m.ID += "x" }),
		"a route is changed": func(p *store.Parcel) {
			for i := range p.Keys {
				if p.Keys[i].Key.Name == "quiet" {
					p.Keys[i].Route = "other"
				}
			}
		},
		"a tag is changed": onHead(func(h *store.KeyHead) { h.LogTag++ }),
		"an entry is changed": func(p *store.Parcel) {
			for _, a := range p.Entries {
				if a.Key.Name == "order-1" {
					a.Entries[0][1]++
				}
			}
		},
		"a version":      onRecord(func(r *store.Record) { r.Version++ }),
		"a status":       onRecord(func(r *store.Record) { r.Status = "done" }),
		"a name":         onRecord(func(r *store.Record) { r.Name = "x" }),
		"a record's tag": onRecord(func(r *store.Record) { r.Tags = map[string]string{"a": "c"} }),
		"a record's day": onRecord(func(r *store.Record) { r.Time = r.Time.Add(time.Hour) }),
		"a record":       onRecord(func(r *store.Record) { r.Body = nil }),
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			from, to := newStore(t), newStore(t)
			fill(t, from, 3)
			quiet := store.Key{Queue: "turns", Tenant: "tenant-1", Name: "quiet"} // it has a log and a route, and no messages
			commit(t, from, &store.Tx{
				Append: []store.Append{{Key: quiet, Entries: [][]byte{nil}}},
				Put:    []store.Message{{Key: quiet, ID: "a", Route: "order"}}, Delete: []store.MessageRef{{Key: quiet, ID: "a"}},
			})
			report, err := run(t.Context(), from, edited{Portable: to, imported: change})
			check.OK(t, err)
			check.Equal(t, "the tenants differ", report.Differing(), []string{"tenant-1"})
			check.Error(t, store.Whole(t.Context(), to), store.ErrIncomplete)
		})
	}
}

func onMessage(change func(*store.Message)) func(p *store.Parcel) {
	return func(p *store.Parcel) {
		for i := range p.Messages {
			if m := &p.Messages[i]; m.Key.Name == "order-1" && m.ID == "b" {
				change(m)
			}
		}
	}
}

func onHead(change func(*store.KeyHead)) func(p *store.Parcel) {
	return func(p *store.Parcel) {
		for i := range p.Keys {
			if p.Keys[i].Key.Name == "order-1" {
				change(&p.Keys[i])
			}
		}
	}
}

func onRecord(change func(*store.Record)) func(p *store.Parcel) {
	return func(p *store.Parcel) {
		for i := range p.Records {
			if p.Records[i].Key.ID == "order-1" {
				change(&p.Records[i])
			}
		}
	}
}

func TestATargetThatIsNotEmptyIsRefused(t *testing.T) {
	t.Parallel()
	from, to := newStore(t), newStore(t)
	fill(t, from, 2)
	commit(t, to, &store.Tx{Append: []store.Append{{Key: store.Key{Queue: "q", Name: "k"}, Entries: [][]byte{nil}}}})
	if _, err := run(t.Context(), from, to); !errors.Is(err, transfer.ErrTarget) {
		t.Errorf("error %v", err)
	}
	if err := store.Whole(t.Context(), to); err != nil {
		t.Errorf("it was marked: %v", err)
	}
}

func TestATargetOfAnotherSourceIsRefused(t *testing.T) {
	t.Parallel()
	from, to := newStore(t), newStore(t)
	fill(t, from, 4)
	interrupt(t, from, to)
	other := transfer.Copy{From: from, To: to, Source: "memory://other"}
	if _, err := other.Run(t.Context()); !errors.Is(err, transfer.ErrTarget) {
		t.Errorf("error %v", err)
	}
	copies(t, from, to)
}

// interrupt begins a copy and cuts it when some of it is there.
func interrupt(t *testing.T, from, to store.Portable) {
	t.Helper()
	left := 9
	if _, err := run(t.Context(), from, cut{to, &left, true}); !errors.Is(err, errCut) {
		t.Fatalf("the copy was not interrupted: %v", err)
	}
	if err := store.Whole(t.Context(), to); !errors.Is(err, store.ErrIncomplete) {
		t.Fatalf("an unfinished copy is taken for whole: %v", err)
	}
}

func TestASourceThatHasChangedIsRefused(t *testing.T) {
	t.Parallel()
	from, to := newStore(t), newStore(t)
	fill(t, from, 6)
	interrupt(t, from, to)
	// It changes among what was copied already, where nobody would look again.
	commit(t, from, &store.Tx{Delete: []store.MessageRef{{Key: store.Key{Queue: "turns", Tenant: "tenant-0", Name: "order-0"}, ID: "b"}}})
	if _, err := run(t.Context(), from, to); !errors.Is(err, transfer.ErrChanged) {
		t.Errorf("error %v", err)
	}
	check.Error(t, store.Whole(t.Context(), to), store.ErrIncomplete)
}

func TestAnUnfinishedCopyIsNotCopied(t *testing.T) {
	t.Parallel()
	from, part, to := newStore(t), newStore(t), newStore(t)
	fill(t, from, 4)
	interrupt(t, from, part)
	if _, err := run(t.Context(), part, to); !errors.Is(err, store.ErrIncomplete) {
		t.Errorf("error %v", err)
	}
}

// TestTwoCopiesIntoOneTarget: whoever comes second finds out before it does harm for long,
// should a store fail to keep it out.
func TestTwoCopiesIntoOneTarget(t *testing.T) {
	t.Parallel()
	from, to := newStore(t), newStore(t)
	fill(t, from, 3)
	other := func(*store.Parcel) {
		commit(t, to, &store.Tx{PutRecords: []store.PutRecord{{Record: store.Record{Key: store.CopyMark, Body: []byte("{}")}, Expect: store.AnyVersion}}})
	}
	if _, err := run(t.Context(), from, edited{Portable: to, imported: other}); !errors.Is(err, store.ErrConflict) {
		t.Errorf("error %v", err)
	}
}

func TestAMarkOfALaterReleaseIsRefused(t *testing.T) {
	t.Parallel()
	from, to := newStore(t), newStore(t)
	commit(t, to, &store.Tx{PutRecords: []store.PutRecord{{Record: store.Record{Key: store.CopyMark, Body: []byte(`{"format":2}`)}}}})
	if _, err := run(t.Context(), from, to); !errors.Is(err, transfer.ErrTarget) {
		t.Errorf("error %v", err)
	}
}

func TestProgressGoesThroughTheStages(t *testing.T) {
	t.Parallel()
	from, to := newStore(t), newStore(t)
	fill(t, from, 5)
	left := 7
	_, _ = run(t.Context(), from, cut{to, &left, true})
	var stages []transfer.Stage
	var last transfer.Progress
	c := transfer.Copy{From: from, To: to, Source: source, Progress: func(p transfer.Progress) {
		if last.Stage == p.Stage && p.Done < last.Done || p.Done > p.Of {
			t.Errorf("progress went from %+v to %+v", last, p)
		}
		if len(stages) == 0 || stages[len(stages)-1] != p.Stage {
			stages = append(stages, p.Stage)
		}
		last = p
	}}
	if _, err := c.Run(t.Context()); err != nil {
		t.Fatal(err)
	}
	check.Equal(t, "stages", stages, []transfer.Stage{transfer.Rereading, transfer.Copying, transfer.Comparing})
	if last.Done != 16 || last.Of != 16 { // ten messages and six records
		t.Errorf("it ends with %+v", last)
	}
}
