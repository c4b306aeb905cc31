package storetest

import (
	"cmp"
	"crypto/sha256"
	"fmt"
	"maps"
	"reflect"
	"slices"
	"strings"
	"time"

	"github.com/abidehq/abide/internal/base"
	"github.com/abidehq/abide/store"
	"github.com/abidehq/abide/store/memstore"
)

// portable returns the store as what these cases are about.
func (w *world) portable() store.Portable { return w.Store.(store.Portable) }

// another returns a world with an empty store of the same kind, at the same time.
func (w *world) another() *world {
	w.t.Helper()
	to := newWorld(w.t, w.factory)
	if d := w.now().Sub(to.now()); d > 0 {
		to.Advance(d)
	}
	return to
}

// model returns a world with an empty memstore, at the same time.
func (w *world) model() *world {
	w.t.Helper()
	clock := base.NewManual(w.now())
	s := memstore.New(memstore.Options{Clock: clock})
	w.t.Cleanup(func() { _ = s.Close() })
	return &world{Backend: &Backend{Store: s, Advance: clock.Advance}, t: w.t, ctx: w.ctx}
}

// Exports and imports.

func (w *world) export(cursor string) store.Parcel {
	w.t.Helper()
	p, err := w.portable().Export(w.ctx, cursor)
	if err != nil {
		w.t.Fatalf("export: %v", err)
	}
	return p
}

// exportAll returns all parcels.
func (w *world) exportAll() (parcels []store.Parcel) {
	w.t.Helper()
	for cursor := ""; ; {
		p := w.export(cursor)
		parcels = append(parcels, p)
		if cursor = p.Next; cursor == "" {
			return parcels
		}
		if len(parcels) > 1000 {
			w.t.Fatal("the export does not end")
		}
	}
}

func (w *world) importParcel(p store.Parcel) {
	w.t.Helper()
	if err := w.portable().Import(w.ctx, p); err != nil {
		w.t.Fatalf("import: %v", err)
	}
}

func (w *world) importAll(parcels []store.Parcel) {
	w.t.Helper()
	for _, p := range parcels {
		w.importParcel(p)
	}
}

// verifies checks that the store finds nothing wrong with itself.
func (w *world) verifies() {
	w.t.Helper()
	if err := w.portable().Verify(w.ctx, func(problem string) { w.t.Errorf("verify: %s", problem) }); err != nil {
		w.t.Fatalf("verify: %v", err)
	}
}

func (w *world) exclude() (release func() error) {
	w.t.Helper()
	release, err := w.portable().Exclude(w.ctx)
	if err != nil {
		w.t.Fatalf("exclude: %v", err)
	}
	return release
}

// open opens the store a second time.
func (w *world) open() store.Store {
	w.t.Helper()
	s, err := w.Open()
	if err != nil {
		w.t.Fatalf("open: %v", err)
	}
	w.t.Cleanup(func() { _ = s.Close() })
	return s
}

// isOpenErr checks that the store cannot be opened a second time.
func (w *world) isOpenErr(target error) {
	w.t.Helper()
	s, err := w.Open()
	if err == nil {
		_ = s.Close()
	}
	w.isErr("open", err, target)
}

// alwaysAlone reports whether the store is of one process anyway, so that there is
// nobody to keep out.
func (w *world) alwaysAlone() bool {
	w.t.Helper()
	s, err := w.Open()
	if err == nil {
		_ = s.Close()
		return false
	}
	w.isErr("open", err, store.ErrInUse)
	w.exclude()
	return true
}

// What parcels must be.

// isWholeExport checks that the parcels hold all that can be observed, each thing once.
func (w *world) isWholeExport(parcels []store.Parcel) {
	w.t.Helper()
	heads, messages, records, lengths := map[store.Key]store.KeyHead{}, map[store.MessageRef]bool{}, map[store.RecordKey]bool{}, map[store.Key]int{}
	once := func(what string, seen bool) {
		if seen {
			w.t.Fatalf("%s comes twice", what)
		}
	}
	for i, p := range parcels {
		for _, h := range p.Keys {
			_, seen := heads[h.Key]
			once(fmt.Sprintf("head of %v", h.Key), seen)
			heads[h.Key], lengths[h.Key] = h, h.LogFirst
		}
		size := 0
		for _, a := range p.Entries {
			if _, ok := heads[a.Key]; !ok || a.At != lengths[a.Key] || len(a.Entries) == 0 {
				w.t.Fatalf("%d entries of %v begin at %d, want %d, after the head", len(a.Entries), a.Key, a.At, lengths[a.Key])
			}
			lengths[a.Key] += len(a.Entries)
			for _, e := range a.Entries {
				size += len(e)
			}
		}
		for _, m := range p.Messages {
			if h, ok := heads[m.Key]; !ok || h.Route != m.Route {
				w.t.Fatalf("message %v has route %q, and its key %q", m.Ref(), m.Route, h.Route)
			}
			once(fmt.Sprintf("message %v", m.Ref()), messages[m.Ref()])
			messages[m.Ref()] = true
			size += len(m.Body)
		}
		for _, r := range p.Records {
			once(fmt.Sprintf("record %v", r.Key), records[r.Key])
			records[r.Key] = true
			size += len(r.Body)
		}
		if size > store.ParcelBytes+store.MaxRecord {
			w.t.Errorf("parcel %d has %d bytes", i, size)
		}
	}
	for k, h := range heads {
		w.equal(fmt.Sprintf("entries of %v", k), lengths[k], h.LogLength)
	}
	if len(parcels) < 4 {
		w.t.Errorf("there are %d parcels: the case needs more", len(parcels))
	}
}

func (w *world) sameParcels(got, want []store.Parcel) {
	w.t.Helper()
	w.equal("number of parcels", len(got), len(want))
	for i := range got {
		if !reflect.DeepEqual(renderParcel(got[i]), renderParcel(want[i])) {
			w.t.Fatalf("parcel %d is not the same when it is asked for again", i)
		}
	}
}

// renderParcel returns all that a parcel holds, one line for each thing.
func renderParcel(p store.Parcel) []string {
	lines := []string{"next " + p.Next}
	for _, h := range p.Keys {
		lines = append(lines, fmt.Sprintf("key %+v", h))
	}
	for _, a := range p.Entries {
		lines = append(lines, fmt.Sprintf("entries of %v at %d: %d, %s", a.Key, a.At, len(a.Entries), digest(a.Entries...)))
	}
	for i := range p.Messages {
		lines = append(lines, lineOfMessage(&p.Messages[i]))
	}
	for i := range p.Records {
		lines = append(lines, lineOfRecord(&p.Records[i]))
	}
	return lines
}

func digest(parts ...[]byte) string {
	h := sha256.New()
	for _, p := range parts {
		fmt.Fprintf(h, "%d ", len(p))
		_, _ = h.Write(p)
	}
	return fmt.Sprintf("%x", h.Sum(nil)[:8])
}

func lineOfMessage(m *store.Message) string {
	return fmt.Sprintf("message %q of %q: route %q, visible %d, ttl %v, attempt %d, put %d, body %s",
		m.ID, m.Key, m.Route, m.VisibleAt.UnixMilli(), m.TTL, m.Attempt, m.PutAt.UnixMilli(), digest(m.Body))
}

func lineOfRecord(r *store.Record) string {
	var tags []string
	for _, name := range slices.Sorted(maps.Keys(r.Tags)) {
		tags = append(tags, fmt.Sprintf("%q=%q", name, r.Tags[name]))
	}
	return fmt.Sprintf("record %q: version %d, status %q, name %q, time %d, tags %v, body %s",
		r.Key, r.Version, r.Status, r.Name, r.Time.UnixMilli(), tags, digest(r.Body))
}

// Comparing stores.

// isCopy checks that all that can be observed of another store is the same: as it is,
// and in what it delivers from now on.
func (w *world) isCopy(to *world) {
	w.t.Helper()
	to.verifies()
	to.sameLook("what was copied", to.lookAtAll(), w.lookAtAll())
	for _, x := range []*world{w, to} {
		x.Advance(2 * theLease) // leases stay behind
	}
	to.sameLook("what is delivered of what was copied", to.drain(), w.drain())
	to.sameLook("what is left of what was copied", to.lookAtAll(), w.lookAtAll())
	to.verifies()
}

func (w *world) sameLook(what string, got, want []string) {
	w.t.Helper()
	for i := range max(len(got), len(want)) {
		line := func(lines []string) string {
			if i < len(lines) {
				return lines[i]
			}
			return "nothing"
		}
		if line(got) != line(want) {
			w.t.Fatalf("%s:\n got %.500s\nwant %.500s", what, line(got), line(want))
		}
	}
}

// everyKey returns all keys that there are.
func (w *world) everyKey() (keys []store.Key) {
	w.t.Helper()
	for _, p := range w.exportAll() {
		for _, h := range p.Keys {
			keys = append(keys, h.Key)
		}
	}
	slices.SortFunc(keys, func(a, b store.Key) int {
		return cmp.Or(strings.Compare(a.Queue, b.Queue), strings.Compare(a.Tenant, b.Tenant), strings.Compare(a.Name, b.Name))
	})
	return keys
}

// lookAtAll returns all that can be observed without changing it, but for leases and
// bytes, one line for each thing.
func (w *world) lookAtAll() (lines []string) {
	w.t.Helper()
	for _, k := range w.everyKey() {
		page := w.readLog(k, 0)
		log := slices.Clone(page.Entries)
		for entry, err := range store.Entries(w.ctx, w.Store, k, page.First+len(page.Entries)) {
			if err != nil {
				w.t.Fatalf("read log: %v", err)
			}
			log = append(log, entry)
		}
		lines = append(lines, fmt.Sprintf("log of %q: first %d, length %d, %d entries, %s", k, page.First, page.Length, len(log), digest(log...)))
		for _, m := range w.pending(k) {
			lines = append(lines, lineOfMessage(&m))
		}
	}
	for _, kind := range []string{theKind, fillKind, store.KindQuarantine, "names"} {
		for _, descending := range []bool{false, true} {
			lines = append(lines, w.listed(store.Query{Kind: kind, Limit: 7, Descending: descending})...)
		}
		for _, q := range []store.Query{{Kind: kind}, {Kind: kind, Statuses: []string{"running", "expired"}}, {Kind: kind, Names: []string{"order"}}} {
			n, err := w.Store.Count(w.ctx, q, store.MaxCount)
			if err != nil {
				w.t.Fatalf("count: %v", err)
			}
			lines = append(lines, fmt.Sprintf("count of %+v: %d", q, n))
		}
	}
	for _, row := range w.stats().Routes {
		row.Leased = 0 // leases are not copied
		lines = append(lines, fmt.Sprintf("stats %+v", row))
	}
	return lines
}

// listed returns the records of a list: in the order of their times, and of one time in
// that of their names, as a store may have any other order there.
func (w *world) listed(q store.Query) (lines []string) {
	w.t.Helper()
	var last time.Time
	var same []string
	flush := func() {
		slices.Sort(same)
		lines, same = append(lines, same...), nil
	}
	for first := true; first || q.Cursor != ""; first = false {
		page := w.list(q)
		for i := range page.Records {
			r := &page.Records[i]
			if !r.Time.Equal(last) {
				flush()
				last = r.Time
			}
			same = append(same, lineOfRecord(r))
			if q.Descending {
				continue // they are the same records, and were got before
			}
			if got := w.get(r.Key); lineOfRecord(&got) != lineOfRecord(r) {
				w.t.Fatalf("listed %s, and got %s", lineOfRecord(r), lineOfRecord(&got))
			}
		}
		q.Cursor = page.Next
	}
	flush()
	return lines
}

// drainTime is how long drain takes, by the clock of the store.
const drainTime = 26 * time.Hour

// moments returns when drain claims: in between for a bit more than a day, and when each
// message has waited too long for a route. A store may put it into quarantine right then or
// by the next claim, and so it is the same time.
func (w *world) moments() (times []time.Time) {
	w.t.Helper()
	begin := w.now()
	for _, after := range []time.Duration{0, time.Minute, 5 * time.Minute, 55 * time.Minute, drainTime - time.Hour, drainTime} {
		times = append(times, begin.Add(after))
	}
	for _, p := range w.exportAll() {
		for _, m := range p.Messages {
			if end := m.PutAt.Add(cmp.Or(m.TTL, store.DefaultTTL)); m.Route == "" && end.After(begin) && end.Before(begin.Add(drainTime)) {
				times = append(times, end)
			}
		}
	}
	slices.SortFunc(times, time.Time.Compare)
	return times
}

// drain lets a day pass and claims and consumes all that becomes visible. It returns what
// was delivered, with each key in the order of delivery.
func (w *world) drain() (lines []string) {
	w.t.Helper()
	routes := append([]string{theRoute, fillRoute, "first"}, hostileNames...)
	byKey := map[store.Key][]string{}
	for _, moment := range w.moments() {
		w.Advance(moment.Sub(w.now()))
		for _, queue := range []string{theQueue, fillQueue, "quarantined", "names"} {
			for {
				claims := w.claimAll(from(queue), serving(routes...), maxMessages(3))
				if len(claims) == 0 {
					break
				}
				for _, c := range claims {
					byKey[c.Key] = append(byKey[c.Key], fmt.Sprintf("claim of %q at %d: route %q, log %d, tag %d", c.Key, c.Now.UnixMilli(), c.Route, c.LogLength, c.LogTag))
					for i := range c.Messages {
						byKey[c.Key] = append(byKey[c.Key], lineOfMessage(&c.Messages[i]))
					}
				}
				w.finish(claims...)
			}
		}
	}
	for _, k := range slices.SortedFunc(maps.Keys(byKey), func(a, b store.Key) int {
		return cmp.Or(strings.Compare(a.Queue, b.Queue), strings.Compare(a.Tenant, b.Tenant), strings.Compare(a.Name, b.Name))
	}) {
		lines = append(lines, byKey[k]...)
	}
	return lines
}
