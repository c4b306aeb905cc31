package rows

import (
	"bytes"
	"cmp"
	"context"
	"fmt"
	"maps"
	"slices"
	"sync"
	"sync/atomic"

	"github.com/abidehq/abide/internal/base"
	"github.com/abidehq/abide/store"
)

// tables is a Database in memory: the rows as they are, and each list of changes applied
// as its comment says.
type tables struct {
	clock base.Clock

	mu       sync.Mutex
	last     int64
	keys     map[ID]*KeyRow
	messages map[ID]map[int64]MessageRow
	entries  map[ID]map[int][]byte
	records  map[store.RecordKey]store.Record
	tally    map[[2]string]int

	frames []*Core // that use it: they are told what the others announce
	shared atomic.Bool
}

func newTables(clock base.Clock) *tables {
	return &tables{
		clock: clock, keys: map[ID]*KeyRow{}, messages: map[ID]map[int64]MessageRow{}, entries: map[ID]map[int][]byte{},
		records: map[store.RecordKey]store.Record{}, tally: map[[2]string]int{},
	}
}

func (d *tables) now() int64 {
	d.last = max(d.last, d.clock.Now().UnixMilli())
	return d.last
}

func (d *tables) find(ref Ref) (MessageRow, bool) {
	for _, m := range d.messages[ref.Key] {
		if m.ID == ref.ID {
			return m, true
		}
	}
	return MessageRow{}, false
}

func (d *tables) Update(_ context.Context, need *ReadSet, decide func(int64, *State) *Changes) error {
	d.mu.Lock()
	defer d.mu.Unlock()
	s := &State{Keys: map[ID]*KeyRow{}, Messages: map[Ref]*MessageRow{}, Records: map[store.RecordKey]int64{}}
	for _, id := range need.Keys {
		if row := d.keys[id]; row != nil {
			loaded := *row
			s.Keys[id] = &loaded
		}
	}
	for _, ref := range need.Messages {
		if m, ok := d.find(ref); ok {
			if !need.Bodies {
				m.Body = nil
			}
			s.Messages[ref] = &m
		}
	}
	for _, key := range need.Records {
		if r, ok := d.records[key]; ok {
			s.Records[key] = r.Version
		}
	}
	d.write(decide(d.now(), s))
	return nil
}

func (d *tables) write(c *Changes) {
	once := map[string]bool{}
	name := func(list string, key ID, seq int64) {
		n := fmt.Sprint(list, key, seq)
		if once[n] {
			panic("a message is named twice")
		}
		once[n] = true
	}
	for _, id := range c.Wipe {
		delete(d.messages, id)
		delete(d.entries, id)
	}
	for _, r := range c.Raise {
		for seq, m := range d.messages[r.Key] {
			m.Visible = max(m.Visible, r.Visible)
			d.messages[r.Key][seq] = m
		}
	}
	for _, r := range c.Remove {
		for _, seq := range r.Seqs {
			name("remove", r.Key, seq)
			delete(d.messages[r.Key], seq)
		}
	}
	for _, r := range c.Count {
		for _, seq := range r.Seqs {
			name("count", r.Key, seq)
			if m, ok := d.messages[r.Key][seq]; ok {
				m.Attempt++
				d.messages[r.Key][seq] = m
			}
		}
	}
	for _, r := range c.Move {
		name("move", r.Key, r.Seq)
		if m, ok := d.messages[r.Key][r.Seq]; ok {
			m.Visible = r.Visible
			d.messages[r.Key][r.Seq] = m
		}
	}
	for _, m := range c.Put {
		if d.messages[m.Key] == nil {
			d.messages[m.Key] = map[int64]MessageRow{}
		}
		if _, dup := d.find(Ref{m.Key, m.ID}); dup {
			panic("a message is put twice")
		}
		if _, dup := d.messages[m.Key][m.Seq]; dup {
			panic("a number is used twice")
		}
		m.Body = bytes.Clone(m.Body)
		d.messages[m.Key][m.Seq] = m
	}
	for _, row := range append(slices.Clone(c.Insert), c.Update...) {
		if m := row.Inline; m != nil {
			inline := *m
			inline.Body = bytes.Clone(m.Body)
			row.Inline = &inline
			if !m.fits() {
				panic("a large message is kept in the row of its key")
			}
		}
	}
	for _, t := range c.Trim {
		maps.DeleteFunc(d.entries[t.Key], func(i int, _ []byte) bool { return i < t.Before })
	}
	for _, e := range c.Append {
		if d.entries[e.Key] == nil {
			d.entries[e.Key] = map[int][]byte{}
		}
		for i, entry := range e.Entries {
			d.entries[e.Key][e.At+i] = bytes.Clone(entry)
		}
	}
	d.writeKeys(c)
	d.writeRecords(c)
}

func (d *tables) writeKeys(c *Changes) {
	for _, row := range c.Insert {
		if d.keys[row.ID] != nil {
			panic("a key is inserted twice")
		}
		d.keys[row.ID] = row
	}
	for _, row := range c.Update {
		if d.keys[row.ID] == nil {
			panic("a key is updated that is not there")
		}
		d.keys[row.ID] = row
	}
	for _, id := range c.Delete {
		if len(d.messages[id]) > 0 || len(d.entries[id]) > 0 {
			panic("a key is deleted that has something")
		}
		delete(d.keys, id)
	}
	for _, id := range c.Refresh {
		row := d.keys[id]
		for _, m := range d.messages[id] {
			at := m.Visible
			if row.Route == "" {
				at = m.Expires()
			}
			row.First = min(row.First, at)
		}
	}
	for _, row := range append(c.Insert, c.Update...) {
		if row.Rows() != len(d.messages[row.ID]) {
			panic("a count is wrong")
		}
		if _, dup := d.find(Ref{row.ID, inlineID(row)}); row.Inline != nil && dup {
			panic("a message is there twice")
		}
		first := int64(Never)
		for _, m := range d.all(row) {
			if row.Route == "" {
				first = min(first, m.Expires())
			} else {
				first = min(first, m.Visible)
			}
		}
		if row.First != first {
			panic("when the first message is visible is wrong")
		}
	}
}

func (d *tables) writeRecords(c *Changes) {
	for _, r := range append(slices.Clone(c.InsertRecords), c.UpdateRecords...) {
		d.putRecord(r)
	}
	for _, key := range c.DeleteRecords {
		delete(d.records, key)
	}
	for _, r := range c.UpsertRecords {
		r.Version = d.records[r.Key].Version + 1
		d.putRecord(r)
	}
	for _, t := range c.Tally {
		d.tally[[2]string{t.Queue, t.Route}] += t.More
	}
}

func (d *tables) putRecord(r store.Record) {
	r.Body, r.Tags = bytes.Clone(r.Body), maps.Clone(r.Tags)
	d.records[r.Key] = r
}

func inlineID(row *KeyRow) string {
	if row.Inline == nil {
		return ""
	}
	return row.Inline.ID
}

// all returns the messages of a key, whether they have rows of their own or not.
func (d *tables) all(row *KeyRow) []MessageRow {
	all := slices.Collect(maps.Values(d.messages[row.ID]))
	if row.Inline != nil {
		all = append(all, *row.Inline)
	}
	return all
}

// visible returns the messages of a key that are visible, in order.
func (d *tables) visible(row *KeyRow, now int64) (visible []MessageRow) {
	for _, m := range d.all(row) {
		if m.Visible <= now {
			visible = append(visible, m)
		}
	}
	slices.SortFunc(visible, func(a, b MessageRow) int { return before(&a, &b) })
	return visible
}

func (d *tables) LeaseReady(_ context.Context, p *LeaseRequest) (*LeaseResult, error) {
	d.mu.Lock()
	defer d.mu.Unlock()
	got := &LeaseResult{Now: d.now(), LastTenant: p.AfterTenant, Next: Never, Expires: Never}
	byTurn := map[int64][]*KeyRow{}
	for _, row := range d.keys {
		switch at := row.At(); {
		case row.Partition() == p.Expiring:
			got.Expires = min(got.Expires, at)
		case !slices.Contains(p.Partitions, row.Partition()):
		case p.Tenants != nil && !slices.Contains(p.Tenants, TenantOf(row.Key.Tenant)):
		case at > got.Now:
			got.Next = min(got.Next, at)
		default:
			turn := TenantOf(row.Key.Tenant)
			byTurn[turn] = append(byTurn[turn], row)
		}
	}
	turns := slices.Sorted(maps.Keys(byTurn))
	for _, turn := range turns {
		slices.SortFunc(byTurn[turn], func(a, b *KeyRow) int { return cmp.Compare(a.First, b.First) })
	}
	after, _ := slices.BinarySearch(turns, p.AfterTenant+1)
	turns = append(turns[after:], turns[:after]...)
	for len(turns) > 0 {
		for _, turn := range slices.Clone(turns) {
			if len(got.Keys) == p.Max {
				got.Next = 0
				return got, nil
			}
			got.Keys = append(got.Keys, d.lease(byTurn[turn][0], p, got))
			got.LastTenant = turn
			if byTurn[turn] = byTurn[turn][1:]; len(byTurn[turn]) == 0 {
				turns = slices.DeleteFunc(turns, func(t int64) bool { return t == turn })
			}
		}
	}
	return got, nil
}

func (d *tables) lease(row *KeyRow, p *LeaseRequest, got *LeaseResult) LeasedKey {
	for _, seq := range row.Delivered {
		if m := row.Inline; m != nil && m.Seq == seq {
			counted := *m
			counted.Attempt++
			row.Inline = &counted
			continue
		}
		m := d.messages[row.ID][seq]
		m.Attempt++
		d.messages[row.ID][seq] = m
	}
	row.Token, row.Until, row.Delivered = p.Tokens[len(got.Keys)], got.Now+p.Lease, nil
	var k LeasedKey
	size := 0
	for _, m := range d.visible(row, got.Now) {
		if len(k.Messages) == p.MaxMessages || (len(k.Messages) > 0 && size+len(m.Body) > store.PageBytes) {
			break
		}
		if p.MaxAttempts > 0 && m.Attempt >= p.MaxAttempts {
			k.Exhausted = append(k.Exhausted, m)
			continue
		}
		size += len(m.Body)
		m.Body = bytes.Clone(m.Body)
		k.Messages = append(k.Messages, m)
		row.Delivered = append(row.Delivered, m.Seq)
	}
	k.Row = *row
	return k
}

func (d *tables) NextDue(_ context.Context, partitions []int64) (int64, []int64, error) {
	d.mu.Lock()
	defer d.mu.Unlock()
	at := make([]int64, len(partitions))
	for i := range at {
		at[i] = Never
		for _, row := range d.keys {
			if row.Partition() == partitions[i] {
				at[i] = min(at[i], row.At())
			}
		}
	}
	return d.now(), at, nil
}

func (d *tables) Expired(_ context.Context, queue string, limit int) (refs []Ref, keys []store.Key, _ error) {
	d.mu.Lock()
	defer d.mu.Unlock()
	for _, row := range d.keys {
		if row.Key.Queue != queue || row.Route != "" {
			continue
		}
		for _, m := range d.all(row) {
			if m.Expires() <= d.now() && len(refs) < limit {
				refs, keys = append(refs, Ref{row.ID, m.ID}), append(keys, row.Key)
			}
		}
	}
	return refs, keys, nil
}

func (d *tables) Record(_ context.Context, key store.RecordKey) (store.Record, error) {
	d.mu.Lock()
	defer d.mu.Unlock()
	r, ok := d.records[key]
	if !ok {
		return store.Record{}, store.NotFound("get", key)
	}
	r.Body, r.Tags = bytes.Clone(r.Body), maps.Clone(r.Tags)
	return r, nil
}

// pending returns the message of a key that has one.
func (d *tables) pending(key store.Key) (store.Message, error) {
	d.mu.Lock()
	defer d.mu.Unlock()
	row := d.keys[IDOf(key)]
	if row == nil || row.Count != 1 {
		return store.Message{}, fmt.Errorf("%v has not one message", key)
	}
	return d.all(row)[0].Message(key, row.Route), nil
}

func (d *tables) Versions(_ context.Context, keys []store.RecordKey) ([]int64, error) {
	d.mu.Lock()
	defer d.mu.Unlock()
	versions := make([]int64, len(keys))
	for i, key := range keys {
		versions[i] = d.records[key].Version
	}
	return versions, nil
}

func (d *tables) Announce(a *Announcement) {
	if len(d.frames) > 1 {
		go func() {
			for _, f := range d.frames {
				f.Hint(Hint{Due: a.Due, Reserved: a.Reserved[f.db.Process()], Records: a.Records})
			}
		}()
	}
}

func (d *tables) Hinted() bool { return true }

func (d *tables) Alone() bool { return !d.shared.Load() }

// inspect returns what is stored, for the invariants. With several frames one may not know
// what another one did.
func (d *tables) inspect(keys []store.Key, records []int64) (tokens []string, versions []int64, ok bool) {
	d.mu.Lock()
	defer d.mu.Unlock()
	for _, key := range keys {
		token := ""
		if row := d.keys[IDOf(key)]; row != nil {
			token = row.Token
		}
		tokens = append(tokens, token)
	}
	stored := map[int64]int64{}
	for key, r := range d.records {
		stored[RecordOf(key)] = r.Version
	}
	for _, number := range records {
		versions = append(versions, stored[number])
	}
	return tokens, versions, len(d.frames) <= 1
}

func (d *tables) Watch([]int64) {}

func (d *tables) Process() int64 { return 0 }

func (d *tables) Present(int64) bool { return false }
