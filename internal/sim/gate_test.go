package sim

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/abidehq/abide/store"
)

// gate is the store as one process sees it: each call waits for the scheduler.
type gate struct {
	w *world
	p *process
}

var _ store.Store = (*gate)(nil)

// topicRecords is the topic of calls that wait for records to change.
const topicRecords = "records"

// enter makes a call when the scheduler grants it.
func enter[T any](ctx context.Context, g *gate, method, about string, do func(ctx context.Context) (T, error)) (T, error) {
	c := &call{
		proc: g.p, label: fmt.Sprintf("%d %s %s", g.p.number, method, about), grant: make(chan verdict, 1),
		apply: func(ctx context.Context) { _, _ = do(ctx) },
	}
	return wait(ctx, g, c, do)
}

// wait waits for the verdict about a call, and carries it out.
func wait[T any](ctx context.Context, g *gate, c *call, do func(ctx context.Context) (T, error)) (T, error) {
	var none T
	if err := ctx.Err(); err != nil {
		return none, err
	}
	g.w.mu.Lock()
	dead := g.p.dead
	g.w.mu.Unlock()
	if dead {
		return none, fmt.Errorf("%s of a dead process: %w", c.label, errFault)
	}
	g.w.submit(c)
	var v verdict
	select {
	case v = <-c.grant:
	case <-ctx.Done():
		if g.w.withdraw(c) {
			return none, ctx.Err()
		}
		v = <-c.grant
	}
	if v == failsBefore {
		return none, fmt.Errorf("%s: %w", c.label, errFault)
	}
	out, err := do(context.WithoutCancel(ctx))
	if v == failsAfter {
		return none, fmt.Errorf("%s, which has happened: %w", c.label, errFault)
	}
	return out, err
}

// Commit commits a copy of tx: it may happen after the caller has given up.
func (g *gate) Commit(ctx context.Context, tx *store.Tx) error {
	own := cloneTx(tx)
	_, err := enter(ctx, g, "Commit", aboutTx(tx), func(ctx context.Context) (struct{}, error) {
		err := g.w.store.Commit(ctx, own)
		if err == nil {
			g.w.committed(own)
		}
		return struct{}{}, err
	})
	return err
}

// Claim claims what is ready, or waits at the gate until something may be.
func (g *gate) Claim(ctx context.Context, req store.ClaimRequest) ([]store.Claim, error) {
	until := time.Now().Add(req.Wait)
	c := &call{
		proc: g.p, label: fmt.Sprintf("%d Claim %s %v", g.p.number, req.Queue, req.Routes), topic: req.Queue, seen: -1, until: until,
		apply: func(context.Context) {}, // leases that nobody knows of are not worth a simulation: they end
	}
	req.Wait = 0
	for {
		c.grant = make(chan verdict, 1)
		claims, err := wait(ctx, g, c, func(ctx context.Context) ([]store.Claim, error) {
			g.w.mu.Lock()
			c.seen = g.w.changes[c.topic]
			g.w.mu.Unlock()
			claims, err := g.w.store.Claim(ctx, req)
			for i := range claims {
				g.w.changesAt(req.Queue, claims[i].Until)
			}
			return claims, err
		})
		if err != nil || len(claims) > 0 || !time.Now().Before(until) {
			return claims, err
		}
		c.decided, c.held = false, time.Time{}
	}
}

// Renew renews.
func (g *gate) Renew(ctx context.Context, d time.Duration, leases []store.Lease) ([]store.Lease, error) {
	own := slices.Clone(leases)
	slices.SortFunc(own, func(a, b store.Lease) int { return compareKeys(a.Key, b.Key) })
	about := ""
	for i := range own {
		if name := aboutKey(own[i].Key); i == 0 || name < about {
			about = name
		}
	}
	return enter(ctx, g, "Renew", about, func(ctx context.Context) ([]store.Lease, error) {
		lost, err := g.w.store.Renew(ctx, d, own)
		until := g.w.clock.Now().Add(d)
		for i := range own {
			g.w.changesAt(own[i].Key.Queue, until)
		}
		return lost, err
	})
}

// Release releases.
func (g *gate) Release(ctx context.Context, r store.Release) error {
	_, err := enter(ctx, g, "Release", aboutKey(r.Lease.Key), func(ctx context.Context) (struct{}, error) {
		err := g.w.store.Release(ctx, r)
		if err == nil {
			g.w.changesAt(r.Lease.Key.Queue, g.w.clock.Now().Add(r.After))
		}
		return struct{}{}, err
	})
	return err
}

// ReadLog reads.
func (g *gate) ReadLog(ctx context.Context, key store.Key, from int) (store.LogPage, error) {
	return enter(ctx, g, "ReadLog", key.String(), func(ctx context.Context) (store.LogPage, error) {
		return g.w.store.ReadLog(ctx, key, from)
	})
}

// Pending reads.
func (g *gate) Pending(ctx context.Context, key store.Key, limit int) ([]store.Message, error) {
	return enter(ctx, g, "Pending", key.String(), func(ctx context.Context) ([]store.Message, error) {
		return g.w.store.Pending(ctx, key, limit)
	})
}

// Leases reads.
func (g *gate) Leases(ctx context.Context, q store.LeaseQuery) ([]store.LeaseInfo, error) {
	return enter(ctx, g, "Leases", q.Key.String(), func(ctx context.Context) ([]store.LeaseInfo, error) {
		return g.w.store.Leases(ctx, q)
	})
}

// Get reads.
func (g *gate) Get(ctx context.Context, key store.RecordKey) (store.Record, error) {
	return enter(ctx, g, "Get", aboutRecord(key), func(ctx context.Context) (store.Record, error) {
		return g.w.store.Get(ctx, key)
	})
}

// List reads.
func (g *gate) List(ctx context.Context, q store.Query) (store.Page, error) {
	return enter(ctx, g, "List", q.Kind, func(ctx context.Context) (store.Page, error) {
		return g.w.store.List(ctx, q)
	})
}

// Count reads.
func (g *gate) Count(ctx context.Context, q store.Query, limit int) (int, error) {
	return enter(ctx, g, "Count", q.Kind, func(ctx context.Context) (int, error) {
		return g.w.store.Count(ctx, q, limit)
	})
}

// Stats reads.
func (g *gate) Stats(ctx context.Context) (store.Stats, error) {
	return enter(ctx, g, "Stats", "", g.w.store.Stats)
}

// errNotYet says that a record is to be waited for.
var errNotYet = errors.New("sim: not yet")

// Await waits at the gate until the record is past the version.
func (g *gate) Await(ctx context.Context, key store.RecordKey, after int64) (store.Record, error) {
	c := &call{
		proc: g.p, label: fmt.Sprintf("%d Await %v", g.p.number, key), topic: topicRecords, seen: -1,
		until: time.Now().Add(1000 * time.Hour), apply: func(context.Context) {},
	}
	for {
		c.grant = make(chan verdict, 1)
		r, err := wait(ctx, g, c, func(ctx context.Context) (store.Record, error) {
			g.w.mu.Lock()
			c.seen = g.w.changes[c.topic]
			g.w.mu.Unlock()
			r, err := g.w.store.Get(ctx, key)
			if err == nil && r.Version <= after || errors.Is(err, store.ErrNotFound) && after == 0 {
				err = errNotYet
			}
			return r, err
		})
		if !errors.Is(err, errNotYet) {
			return r, err
		}
		c.decided, c.held = false, time.Time{}
	}
}

// Close does nothing: the store is shared.
func (*gate) Close() error { return nil }

// committed notes what a commit may have made ready.
func (w *world) committed(tx *store.Tx) {
	var topics []string
	for i := range tx.Finish {
		topics = append(topics, tx.Finish[i].Lease.Key.Queue)
	}
	for _, k := range tx.DeleteKeys {
		topics = append(topics, k.Queue)
	}
	for i := range tx.Put {
		w.changesAt(tx.Put[i].Key.Queue, tx.Put[i].VisibleAt)
	}
	for i := range tx.Retime {
		w.changesAt(tx.Retime[i].Ref.Key.Queue, tx.Retime[i].VisibleAt)
	}
	for i := range tx.Delete {
		topics = append(topics, tx.Delete[i].Key.Queue)
	}
	if len(tx.PutRecords)+len(tx.DeleteRecords) > 0 {
		topics = append(topics, topicRecords)
	}
	w.changed(topics...)
}

// aboutTx returns what a commit is about, for its label.
func aboutTx(tx *store.Tx) string {
	switch {
	case len(tx.Finish) > 0:
		keys := make([]store.Key, len(tx.Finish))
		for i := range tx.Finish {
			keys[i] = tx.Finish[i].Lease.Key
		}
		names := make([]string, len(keys))
		for i, k := range keys {
			names[i] = aboutKey(k)
		}
		return slices.Min(names)
	case len(tx.PutRecords) > 0:
		return aboutRecord(tx.PutRecords[0].Record.Key)
	case len(tx.Put) > 0:
		return aboutKey(tx.Put[0].Key)
	case len(tx.Delete) > 0:
		return aboutKey(tx.Delete[0].Key)
	case len(tx.DeleteRecords) > 0:
		return aboutRecord(tx.DeleteRecords[0].Key)
	default:
		return ""
	}
}

// aboutKey returns a key for a label. Tasks of activities have the random number of an execution
// in their names, before the event.
func aboutKey(key store.Key) string {
	parts := strings.Split(key.Name, "/")
	if n := len(parts); key.Queue == "activities" && n > 2 {
		key.Name = strings.Join(slices.Delete(parts, n-2, n-1), "/")
	}
	return key.String()
}

// aboutRecord returns the key of a record for a label, without what is random in it.
func aboutRecord(key store.RecordKey) string {
	switch key.Kind {
	case "worker":
		return key.Kind
	case "heartbeat":
		return key.Kind + " " + aboutKey(store.Key{Queue: "activities", Name: key.ID})
	default:
		return key.String()
	}
}

func compareKeys(a, b store.Key) int {
	return slices.Compare([]string{a.Queue, a.Tenant, a.Name}, []string{b.Queue, b.Tenant, b.Name})
}

// cloneTx returns a copy that the caller cannot change.
func cloneTx(tx *store.Tx) *store.Tx {
	own := *tx
	own.Finish = slices.Clone(tx.Finish)
	for i := range own.Finish {
		own.Finish[i].Keep = slices.Clone(own.Finish[i].Keep)
	}
	own.DeleteKeys, own.Trim = slices.Clone(tx.DeleteKeys), slices.Clone(tx.Trim)
	own.Append = slices.Clone(tx.Append)
	for i := range own.Append {
		entries := make([][]byte, len(own.Append[i].Entries))
		for j, e := range own.Append[i].Entries {
			entries[j] = slices.Clone(e)
		}
		own.Append[i].Entries = entries
	}
	own.Put = slices.Clone(tx.Put)
	for i := range own.Put {
		own.Put[i].Body = slices.Clone(own.Put[i].Body)
	}
	own.Retime, own.Delete = slices.Clone(tx.Retime), slices.Clone(tx.Delete)
	own.PutRecords = slices.Clone(tx.PutRecords)
	for i := range own.PutRecords {
		own.PutRecords[i].Record.Body = slices.Clone(own.PutRecords[i].Record.Body)
	}
	own.DeleteRecords = slices.Clone(tx.DeleteRecords)
	return &own
}

// Limits returns those of the store.
func (g *gate) Limits() store.Limits { return g.w.store.Limits() }
