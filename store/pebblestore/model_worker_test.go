package pebblestore

import (
	"fmt"
	"maps"
	"slices"
	"strings"
	"time"

	"github.com/abidehq/abide/store"
)

// holding is what a store holds of one worker: a small model of the contract that
// is exact enough to say what must be there after a crash.
type holding struct {
	keys    map[string]*keyHolding
	records map[string]recordHolding
	shared  []string // what the worker has appended to the log that all share
	seq     int      // of the message that was put last
}

type keyHolding struct {
	route    string
	tag      uint64 // that the log was begun with
	trimmed  int
	log      []string
	messages []messageHolding // in the order of delivery
}

type messageHolding struct {
	id, body string
	at       int64 // orders messages: see atNow and the others
	seq      int
}

type recordHolding struct {
	version int64
	status  string
	body    string
}

// The times of messages are in three bands, so that their order is known although
// the time of a commit is not: visible at once, in the order of the steps that made
// them so; at one of the fixed times; and after a release with a delay, which is
// longer for each step. The clock stays in the first band while workers run.
const (
	fixedBand   = 2 * time.Hour
	releaseBand = 10 * time.Hour
)

// fixedTimes are the times at which messages are visible that wait.
var fixedTimes = []time.Time{
	start.Add(fixedBand), start.Add(fixedBand + time.Millisecond), start.Add(fixedBand + time.Minute),
}

func atNow(step int) int64             { return int64(step) }
func atFixed(t time.Time) int64        { return t.UnixMilli() }
func atRelease(step int) int64         { return start.Add(releaseBand).UnixMilli() + int64(step)*1000 }
func releaseDelay(n int) time.Duration { return releaseBand + time.Duration(n)*time.Second }

// band returns what a dump says of the time of a message.
func band(at int64) string {
	switch {
	case at < start.Add(fixedBand/2).UnixMilli():
		return "now"
	case at < start.Add(releaseBand/2).UnixMilli():
		return time.UnixMilli(at).UTC().Format("15:04:05.000")
	}
	return "released"
}

func newHolding() *holding {
	return &holding{keys: map[string]*keyHolding{}, records: map[string]recordHolding{}}
}

func (h *holding) clone() *holding {
	c := &holding{keys: map[string]*keyHolding{}, records: maps.Clone(h.records), shared: slices.Clone(h.shared), seq: h.seq}
	for name, k := range h.keys {
		copied := *k
		copied.log, copied.messages = slices.Clone(k.log), slices.Clone(k.messages)
		c.keys[name] = &copied
	}
	return c
}

// key returns a key, and makes it if it is not there.
func (h *holding) key(name string) *keyHolding {
	k := h.keys[name]
	if k == nil {
		k = &keyHolding{}
		h.keys[name] = k
	}
	return k
}

func (k *keyHolding) find(id string) int {
	return slices.IndexFunc(k.messages, func(m messageHolding) bool { return m.id == id })
}

func (k *keyHolding) remove(id string) {
	if i := k.find(id); i >= 0 {
		k.messages = slices.Delete(k.messages, i, i+1)
	}
}

func (k *keyHolding) sort() {
	slices.SortFunc(k.messages, func(a, b messageHolding) int {
		if a.at != b.at {
			return int(a.at - b.at)
		}
		return a.seq - b.seq
	})
}

// apply does to the holding what a commit of tx does to a store. Delivered is what
// the claims in tx had.
func (h *holding) apply(tx *store.Tx, delivered map[string][]string, step int) {
	for _, f := range tx.Finish {
		for _, id := range delivered[f.Lease.Key.Name] {
			if !slices.Contains(f.Keep, id) {
				h.key(f.Lease.Key.Name).remove(id)
			}
		}
	}
	for _, k := range tx.DeleteKeys {
		delete(h.keys, k.Name)
	}
	for _, t := range tx.Trim {
		k := h.key(t.Key.Name)
		k.trimmed = max(k.trimmed, t.Before)
	}
	for _, a := range tx.Append {
		h.append(a)
	}
	for _, m := range tx.Put {
		h.put(m, step)
	}
	for _, r := range tx.Retime {
		k := h.key(r.Ref.Key.Name)
		if i := k.find(r.Ref.ID); i >= 0 {
			k.messages[i].at = when(r.VisibleAt, step)
		}
	}
	for _, d := range tx.Delete {
		h.key(d.Key.Name).remove(d.ID)
	}
	for _, p := range tx.PutRecords {
		r := h.records[p.Record.Key.ID]
		h.records[p.Record.Key.ID] = recordHolding{version: r.version + 1, status: p.Record.Status, body: string(p.Record.Body)}
	}
	for _, d := range tx.DeleteRecords {
		delete(h.records, d.Key.ID)
	}
	h.settle()
}

func (h *holding) append(a store.Append) {
	log := &h.shared
	if a.Key != sharedKey {
		k := h.key(a.Key.Name)
		if log = &k.log; len(k.log) == 0 {
			k.tag = a.Tag
		}
	}
	for _, e := range a.Entries {
		*log = append(*log, string(e))
	}
}

// settle orders messages, and forgets keys that are gone with their routes.
func (h *holding) settle() {
	for name, k := range h.keys {
		k.sort()
		if len(k.messages) == 0 && len(k.log) == 0 {
			delete(h.keys, name)
		}
	}
}

func when(t time.Time, step int) int64 {
	if t.Before(start.Add(fixedBand / 2)) {
		return atNow(step)
	}
	return atFixed(t)
}

func (h *holding) put(m store.Message, step int) {
	k := h.key(m.Key.Name)
	if m.Route != "" && m.Route != k.route {
		k.route = m.Route
		for i := range k.messages { // they are visible from now on, at the earliest
			if band(k.messages[i].at) == "now" {
				k.messages[i].at = atNow(step)
			}
		}
	}
	if k.find(m.ID) >= 0 {
		return
	}
	h.seq++
	k.messages = append(k.messages, messageHolding{id: m.ID, body: string(m.Body), at: when(m.VisibleAt, step), seq: h.seq})
}

// release does what a release with a delay does.
func (h *holding) release(key string, delivered []string, step int) {
	k := h.key(key)
	for _, id := range delivered {
		if i := k.find(id); i >= 0 {
			k.messages[i].at = atRelease(step)
		}
	}
	h.settle()
}

// dump returns the holding as text, one line for each thing. It says what can be
// read from a store, and no more.
func (h *holding) dump() string {
	var b strings.Builder
	for _, name := range slices.Sorted(maps.Keys(h.keys)) {
		k := h.keys[name]
		dumpLog(&b, name, k.trimmed, k.log[k.trimmed:], len(k.log))
		for _, m := range k.messages {
			dumpMessage(&b, name, k.route, m.id, band(m.at), m.body)
		}
	}
	for _, id := range slices.Sorted(maps.Keys(h.records)) {
		r := h.records[id]
		dumpRecord(&b, id, r.version, r.status, r.body)
	}
	dumpShared(&b, h.shared)
	return b.String()
}

func dumpLog(b *strings.Builder, key string, first int, entries []string, length int) {
	if length > 0 {
		fmt.Fprintf(b, "log %s %d+%d:", key, first, length-first)
		for _, e := range entries {
			b.WriteString(" " + brief(e))
		}
		b.WriteByte('\n')
	}
}

func dumpMessage(b *strings.Builder, key, route, id, at, body string) {
	fmt.Fprintf(b, "message %s#%s route %q at %s: %s\n", key, id, route, at, brief(body))
}

func dumpRecord(b *strings.Builder, id string, version int64, status, body string) {
	fmt.Fprintf(b, "record %s version %d %s: %s\n", id, version, status, brief(body))
}

func dumpShared(b *strings.Builder, entries []string) {
	fmt.Fprintf(b, "shared: %s\n", strings.Join(entries, " "))
}

// text returns a text that begins with a number, is about size bytes long, and of
// which every byte is known.
func text(number string, size int) string {
	if size <= len(number) {
		return number
	}
	return number + strings.Repeat("."+number, size/(len(number)+1))
}

// brief returns the number and the length of a text, and says so if it is broken.
func brief(s string) string {
	number, _, long := strings.Cut(s, ".")
	if !long {
		return s
	}
	if text(number, strings.Count(s, ".")*(len(number)+1)) != s {
		return fmt.Sprintf("BROKEN %q", s)
	}
	return fmt.Sprintf("%s(%d)", number, len(s))
}
