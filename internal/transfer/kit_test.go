package transfer_test

import (
	"context"
	"errors"
	"fmt"
	"testing"
	"time"

	"github.com/abidehq/abide/internal/check"
	"github.com/abidehq/abide/internal/transfer"
	"github.com/abidehq/abide/store"
	"github.com/abidehq/abide/store/memstore"
)

// source is how tests call the store that they copy.
const source = "memory://source"

func newStore(t testing.TB) *memstore.Store {
	t.Helper()
	s := memstore.New(memstore.Options{})
	t.Cleanup(func() { _ = s.Close() })
	return s
}

func commit(t testing.TB, s store.Store, txs ...*store.Tx) {
	t.Helper()
	for _, tx := range txs {
		check.OK(t, s.Commit(t.Context(), tx))
	}
}

// large is the length of a body of which a parcel has room for two.
const large = store.ParcelBytes*2/5 + 1

// fill puts something of everything into a store, for a few tenants, so much that it takes
// at least so many parcels.
func fill(t testing.TB, s store.Store, parcels int) {
	t.Helper()
	for i := range parcels {
		tenant := fmt.Sprintf("tenant-%d", i%3)
		key := store.Key{Queue: "turns", Tenant: tenant, Name: fmt.Sprintf("order-%d", i)}
		body := make([]byte, large)
		body[0] = byte(i)
		commit(t, s, &store.Tx{
			Append:     []store.Append{{Key: key, Tag: uint64(i), Entries: [][]byte{body, []byte("two"), nil}}},
			Put:        []store.Message{{Key: key, ID: "a", Route: "order", Body: body}, {Key: key, ID: "b", VisibleAt: time.Now().Add(time.Hour), TTL: time.Minute}},
			PutRecords: []store.PutRecord{{Record: store.Record{Key: store.RecordKey{Kind: "instance", Tenant: tenant, ID: key.Name}, Status: "running", Tags: map[string]string{"a": "b"}, Body: []byte{1}}}},
		})
	}
	commit(t, s, &store.Tx{PutRecords: []store.PutRecord{{Record: store.Record{Key: store.RecordKey{Kind: "worker", ID: "w"}, Body: []byte{1}}}}})
}

// run copies.
func run(ctx context.Context, from, to store.Portable) (transfer.Report, error) {
	c := transfer.Copy{From: from, To: to, Source: source}
	return c.Run(ctx)
}

// copies copies and checks that both stores are the same then.
func copies(t testing.TB, from, to store.Portable) transfer.Report {
	t.Helper()
	report, err := run(t.Context(), from, to)
	check.OK(t, err)
	if differing := report.Differing(); len(differing) > 0 || !report.Total.Same() {
		t.Fatalf("the tenants %q differ", differing)
	}
	check.OK(t, store.Whole(t.Context(), to))
	return report
}

var errCut = errors.New("cut")

// cut is a store to which the connection is cut at the n-th call that changes something, or
// reads a parcel: before it, or after it.
type cut struct {
	store.Portable
	n     *int
	after bool
}

func (c cut) call(do func() error) error {
	*c.n--
	if *c.n < 0 || (*c.n == 0 && !c.after) {
		return errCut
	}
	if err := do(); err != nil {
		return err
	}
	if *c.n == 0 {
		return errCut
	}
	return nil
}

func (c cut) Export(ctx context.Context, cursor string) (p store.Parcel, err error) {
	err = c.call(func() error {
		p, err = c.Portable.Export(ctx, cursor)
		return err
	})
	return p, err
}

func (c cut) Import(ctx context.Context, p store.Parcel) error {
	return c.call(func() error { return c.Portable.Import(ctx, p) })
}

func (c cut) Commit(ctx context.Context, tx *store.Tx) error {
	return c.call(func() error { return c.Portable.Commit(ctx, tx) })
}

// edited is a store whose parcels somebody changes on their way.
type edited struct {
	store.Portable
	exported func(p *store.Parcel)
	imported func(p *store.Parcel)
}

func (e edited) Export(ctx context.Context, cursor string) (store.Parcel, error) {
	p, err := e.Portable.Export(ctx, cursor)
	if e.exported != nil {
		e.exported(&p)
	}
	return p, err
}

func (e edited) Import(ctx context.Context, p store.Parcel) error {
	if e.imported != nil {
		e.imported(&p)
	}
	return e.Portable.Import(ctx, p)
}
