package pebblestore

import (
	"context"
	"errors"
	"fmt"
	"math"
	"slices"
	"strings"
	"time"

	"github.com/abidehq/abide/internal/base"
	"github.com/abidehq/abide/store"
)

// read returns what the store holds of the worker, as a dump.
func (w *worker) read(ctx context.Context, s *Store) (string, error) {
	var b strings.Builder
	for _, name := range slices.Sorted(slices.Values(keyNames)) {
		if err := readKey(ctx, s, w.key(name), &b); err != nil {
			return "", err
		}
	}
	for _, name := range recordNames {
		r, err := s.Get(ctx, w.recordKey(name))
		if errors.Is(err, store.ErrNotFound) {
			continue
		}
		if err != nil {
			return "", err
		}
		dumpRecord(&b, r.Key.ID, r.Version, r.Status, string(r.Body))
	}
	shared, _, err := readLog(ctx, s, sharedKey)
	if err != nil {
		return "", err
	}
	dumpShared(&b, slices.DeleteFunc(shared, func(e string) bool { return !strings.HasPrefix(e, w.name+"-") }))
	return b.String(), nil
}

func readKey(ctx context.Context, s *Store, key store.Key, b *strings.Builder) error {
	entries, page, err := readLog(ctx, s, key)
	if err != nil {
		return err
	}
	dumpLog(b, key.Name, page.First, entries, page.Length)
	messages, err := s.Pending(ctx, key, 0)
	if err != nil {
		return err
	}
	for _, m := range messages {
		dumpMessage(b, key.Name, m.Route, m.ID, band(m.VisibleAt.UnixMilli()), string(m.Body))
	}
	return nil
}

// readLog returns the entries of a log, and its first page.
func readLog(ctx context.Context, s *Store, key store.Key) ([]string, store.LogPage, error) {
	page, err := s.ReadLog(ctx, key, 0)
	if err != nil {
		return nil, page, err
	}
	var entries []string
	for e, err := range store.Entries(ctx, s, key, page.First) {
		if err != nil {
			return nil, page, err
		}
		entries = append(entries, string(e))
	}
	if len(entries) != page.Length-page.First {
		return nil, page, violates("the log of %v has %d entries from %d to %d", key, len(entries), page.First, page.Length)
	}
	return entries, page, nil
}

// mismatch says how what a store holds differs from all that it may hold.
func mismatch(got string, allowed []snapshot) string {
	var b strings.Builder
	fmt.Fprintf(&b, "the store holds none of the %d states that it may hold", len(allowed))
	for i, want := range allowed {
		fmt.Fprintf(&b, "\ncompared with number %d:", i)
		gotLines, wantLines := strings.Split(got, "\n"), strings.Split(want.dump, "\n")
		for _, line := range wantLines {
			if !slices.Contains(gotLines, line) {
				b.WriteString("\n  missing: " + line)
			}
		}
		for _, line := range gotLines {
			if !slices.Contains(wantLines, line) {
				b.WriteString("\n  there:   " + line)
			}
		}
	}
	return b.String()
}

// moment is what is known of a workload at the moment of a crash.
type moment struct {
	now   time.Time
	acked []int        // per worker, before the crash
	steps [][]snapshot // per worker, what may be there
}

// before notes what must be there after a crash that is about to happen.
func (l *workload) before() *moment {
	m := &moment{}
	for _, w := range l.workers {
		m.acked = append(m.acked, w.last())
	}
	return m
}

// after notes what may be there after a crash that has just happened.
func (l *workload) after(m *moment) *moment {
	m.now = l.clock.Now()
	for i, w := range l.workers {
		m.steps = append(m.steps, w.since(m.acked[i]))
	}
	return m
}

// resume makes the workers continue with what they had after these steps.
func (l *workload) resume(m *moment, found []int) {
	for i, w := range l.workers {
		w.start(m.steps[i], found[i])
	}
	l.sharedLen.Store(-1)
}

// verify checks that a store holds what it must and may hold after a crash, and
// nothing else. It returns which of its steps each worker has come to.
func (l *workload) verify(ctx context.Context, s *Store, m *moment) (found []int, err error) {
	pending, records := 0, 0
	for i, w := range l.workers {
		got, err := w.read(ctx, s)
		if err != nil {
			return nil, fmt.Errorf("read what %s has done: %w", w.name, err)
		}
		at := slices.IndexFunc(m.steps[i], func(s snapshot) bool { return s.dump == got })
		if at < 0 {
			return nil, violates("%s: %s", w.name, mismatch(got, m.steps[i]))
		}
		found = append(found, at)
		h := m.steps[i][at].holding
		records += len(h.records)
		for _, k := range h.keys {
			pending += len(k.messages)
		}
	}
	listed, err := countRecords(ctx, s)
	if err != nil {
		return nil, err
	}
	if listed != records {
		return nil, violates("%d records are listed, want %d", listed, records)
	}
	counted, err := s.Count(ctx, store.Query{Kind: kind}, store.MaxCount)
	if err != nil {
		return nil, err
	}
	if counted != records {
		return nil, violates("%d records are counted, want %d", counted, records)
	}
	counted, err = countPending(ctx, s)
	if err != nil {
		return nil, err
	}
	if counted != pending {
		return nil, violates("Stats counts %d pending messages, and there are %d", counted, pending)
	}
	return found, nil
}

func countRecords(ctx context.Context, s *Store) (n int, err error) {
	q := store.Query{Kind: kind, Limit: 7}
	for {
		page, err := s.List(ctx, q)
		if err != nil {
			return n, err
		}
		n += len(page.Records)
		if q.Cursor = page.Next; q.Cursor == "" {
			return n, nil
		}
	}
}

func countPending(ctx context.Context, s *Store) (n int, err error) {
	stats, err := s.Stats(ctx)
	for _, row := range stats.Routes {
		n += row.Pending
	}
	return n, err
}

// drainer claims and consumes everything that a store holds.
type drainer struct {
	load  *workload
	store *Store
	clock *base.Manual
	left  map[string][]messageHolding // by the name of the key, in the order in which they must come
	tags  map[string]uint64           // of the logs, by the name of the key
}

// drain checks that every pending message is delivered at its time, once, and in
// order, and that nothing is left then.
func (l *workload) drain(ctx context.Context, s *Store, clock *base.Manual, m *moment, found []int) error {
	d := drainer{load: l, store: s, clock: clock, left: map[string][]messageHolding{}, tags: map[string]uint64{}}
	var held []*holding
	for i := range l.workers {
		held = append(held, m.steps[i][found[i]].holding)
		for name, k := range held[i].keys {
			d.left[name], d.tags[name] = slices.Clone(k.messages), k.tag
		}
	}
	if err := d.giveRoutes(ctx, held); err != nil {
		return err
	}
	times := append([]time.Time{clock.Now(), fixedTimes[0].Add(-time.Millisecond)}, fixedTimes...)
	for _, t := range append(times, start.Add(2*releaseBand)) {
		clock.Advance(t.Sub(clock.Now()))
		if err := d.claimAll(ctx); err != nil {
			return err
		}
	}
	for name, messages := range d.left {
		if len(messages) > 0 {
			return violates("%d messages of %s were not delivered, the first is %s at %s", len(messages), name, messages[0].id, band(messages[0].at))
		}
	}
	counted, err := countPending(ctx, s)
	if err == nil && counted != 0 {
		err = violates("Stats counts %d pending messages after all were delivered", counted)
	}
	return err
}

// giveRoutes makes the messages visible whose keys have no route, by putting one
// more with a route.
func (d *drainer) giveRoutes(ctx context.Context, held []*holding) error {
	tx := &store.Tx{}
	for i, w := range d.load.workers {
		m := store.Message{Key: w.key(noRoute), ID: "opener", Route: w.routes()[0], Body: []byte("opener")}
		tx.Put = append(tx.Put, m)
		h := held[i].clone()
		h.put(m, math.MaxInt32)
		h.settle()
		d.left[m.Key.Name] = h.keys[m.Key.Name].messages
	}
	return d.store.Commit(ctx, tx)
}

// claimAll claims and consumes all that is visible.
func (d *drainer) claimAll(ctx context.Context) error {
	var routes []string
	for _, w := range d.load.workers {
		routes = append(routes, w.routes()...)
	}
	for perKey := 1; ; perKey++ {
		claims, err := d.store.Claim(ctx, store.ClaimRequest{
			Queue: turns, Routes: routes, Max: 100, MaxMessages: perKey, Lease: time.Hour,
		})
		if err != nil {
			return err
		}
		if len(claims) == 0 {
			return d.nothingIsDue()
		}
		tx := &store.Tx{}
		for _, c := range claims {
			if err := d.take(c); err != nil {
				return err
			}
			tx.Finish = append(tx.Finish, store.Finish{Lease: c.Lease()})
		}
		if err := d.store.Commit(ctx, tx); err != nil {
			return err
		}
	}
}

// take checks that a claim has the messages whose turn it is, and the log that it
// should.
func (d *drainer) take(c store.Claim) error {
	if want := d.tags[c.Key.Name]; c.LogTag != want {
		return violates("claimed %v whose log has tag %d, want %d", c.Key, c.LogTag, want)
	}
	for _, m := range c.Messages {
		left := d.left[c.Key.Name]
		if len(left) == 0 {
			return violates("%v#%s was delivered, and nothing of the key was left", c.Key, m.ID)
		}
		if want := left[0]; m.ID != want.id || string(m.Body) != want.body || m.VisibleAt.After(c.Now) || m.Attempt < 1 {
			return violates("%v#%s at %v (%s), attempt %d, was delivered at %v, and the turn was of %s (%s)", c.Key, m.ID, m.VisibleAt, brief(string(m.Body)), m.Attempt, c.Now, want.id, brief(want.body))
		}
		d.left[c.Key.Name] = left[1:]
	}
	return nil
}

// nothingIsDue checks that what is left is not due yet.
func (d *drainer) nothingIsDue() error {
	now := d.clock.Now().UnixMilli()
	for name, messages := range d.left {
		if len(messages) > 0 && messages[0].at <= now {
			return violates("%s#%s at %s is due, and was not delivered", name, messages[0].id, band(messages[0].at))
		}
	}
	return nil
}
