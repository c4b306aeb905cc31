package rows

import (
	"slices"

	"github.com/abidehq/abide/store"
)

// keyWork is a key while a group of operations is worked out.
type keyWork struct {
	row    KeyRow
	stored KeyRow // as it was loaded
	exists bool   // in the database
	alive  bool   // now: it has messages or a log
	dirty  bool

	// firstKnown says that row.First of the stored messages is still right.
	firstKnown bool

	messages messageSet // those that were loaded, or put in this group

	inline *messageWork // the message that is kept in the row, pending or gone; nil if there was none

	fresh      []*messageWork // put in this group
	freshCount int            // of them that are still there

	removed   seqSet // of remove
	delivered seqSet // of row.Delivered

	wiped  bool
	raise  bool
	remove []int64
	count  []int64
	move   []Move
	trim   int
	log    []Entries
}

// messageWork is a message of a key while a group is worked out.
type messageWork struct {
	MessageRow
	stored bool // in the database
	inline bool // in the row of its key
	gone   bool
}

func newKeyWork(key store.Key, id ID, row *KeyRow) *keyWork {
	k := &keyWork{row: KeyRow{ID: id, Key: key, First: Never}, firstKnown: true}
	if row != nil {
		k.row, k.exists, k.alive = *row, true, true
		k.row.Key = key
		k.stored = k.row
		if row.Inline != nil {
			k.inline = &messageWork{MessageRow: *row.Inline, stored: true, inline: true}
			k.messages.add(k.inline)
		}
	}
	return k
}

// know adds a message that the database has, and that may be gone already.
func (k *keyWork) know(m *MessageRow) {
	k.messages.add(&messageWork{MessageRow: *m, stored: true, gone: k.removed.has(k.remove, m.Seq)})
}

// find returns a pending message, or nil.
func (k *keyWork) find(id string) *messageWork { return k.messages.pending(id) }

func (k *keyWork) live(token store.Token, now int64) bool {
	return k.row.Token != "" && k.row.Token == string(token) && now < k.row.Until
}

// endLease ends the lease. The attempts of what was delivered count, unless they are taken
// back.
func (k *keyWork) endLease(counted bool) (delivered []int64) {
	delivered = k.row.Delivered
	if counted {
		for _, seq := range delivered {
			m := k.messages.numbered(seq)
			if m != nil {
				m.Attempt++
			}
			if m == nil || !m.inline {
				k.count = append(k.count, seq)
			}
		}
	}
	k.row.Token, k.row.Until, k.row.Delivered, k.delivered = "", 0, nil, seqSet{}
	k.dirty = true
	return delivered
}

// removeSeq takes a message away that the database has.
func (k *keyWork) removeSeq(seq int64) {
	m := k.messages.numbered(seq)
	if m != nil {
		if m.gone {
			return
		}
		m.gone = true
	}
	if m == nil || !m.inline {
		k.remove = append(k.remove, seq)
	}
	k.row.Count--
	k.firstKnown = false
	k.dirty = true
}

// drop takes a message away. A lease that it was delivered with is over.
func (k *keyWork) drop(m *messageWork) {
	k.unleaseIf(m.Seq)
	if m.stored {
		k.removeSeq(m.Seq)
		return
	}
	m.gone = true
	k.freshCount--
	k.row.Count--
	k.dirty = true
}

// unleaseIf ends a lease with which the message was delivered.
func (k *keyWork) unleaseIf(seq int64) {
	if k.row.Token != "" && k.delivered.has(k.row.Delivered, seq) {
		k.endLease(true)
	}
}

// moveTo makes a message visible at another time.
func (k *keyWork) moveTo(m *messageWork, visible int64) {
	k.unleaseIf(m.Seq)
	m.Visible = visible
	if m.stored {
		k.moveSeq(m.Seq, visible)
	}
	k.dirty = true
}

// moveSeq makes a message that the database has visible at another time.
func (k *keyWork) moveSeq(seq, visible int64) {
	if m := k.inline; m != nil && m.Seq == seq {
		m.Visible = visible
	} else {
		k.move = append(k.move, Move{k.row.ID, seq, visible})
	}
	k.firstKnown = false
	k.dirty = true
}

// setRoute gives the key a route. No message is visible under it any earlier than now.
func (k *keyWork) setRoute(route string, now int64) {
	if route == "" || route == k.row.Route {
		return
	}
	k.row.Route = route
	k.raise = k.raise || k.tableCount() > 0
	if k.inline != nil {
		k.inline.Visible = max(k.inline.Visible, now)
	}
	k.firstKnown = false
	k.dirty = true
}

// storedCount is how many of the pending messages the database has.
func (k *keyWork) storedCount() int { return k.row.Count - k.freshCount }

// tableCount is how many of those have rows of their own.
func (k *keyWork) tableCount() int {
	if k.inline != nil && k.inline.stored && !k.inline.gone {
		return k.storedCount() - 1
	}
	return k.storedCount()
}

func (k *keyWork) put(p *store.Message, now int64) {
	k.alive = true
	k.setRoute(p.Route, now)
	if k.find(p.ID) != nil {
		return
	}
	m := &messageWork{MessageRow: MessageRow{
		Key: k.row.ID, Seq: k.row.Seq, ID: p.ID, Visible: max(now, store.Millis(p.VisibleAt)), Put: now,
		TTL: millis(p.TTL), Body: p.Body,
	}}
	if k.row.Count == 0 && m.fits() {
		m.inline, k.inline = true, m
	}
	k.row.Seq++
	k.row.Count++
	k.messages.add(m)
	k.fresh = append(k.fresh, m)
	k.freshCount++
	k.dirty = true
}

// wipe deletes the key with all that it has.
func (k *keyWork) wipe() {
	if !k.alive {
		return
	}
	if k.exists && (k.stored.Rows() > 0 || k.stored.LogLength > 0) {
		k.wiped = true
	}
	k.messages.wipe()
	k.fresh, k.remove, k.count, k.move, k.log, k.trim, k.raise = nil, nil, nil, nil, nil, 0, false
	k.removed, k.delivered, k.freshCount = seqSet{}, seqSet{}, 0
	k.row.Count, k.row.LogLength = 0, 0
	k.dirty = true
	k.forgetIfGone()
}

// forgetIfGone makes a key that has neither messages nor a log a key that is not there.
// Its numbers go on within the group, so that none is used twice in it.
func (k *keyWork) forgetIfGone() {
	if k.alive && k.row.Count == 0 && k.row.LogLength == 0 {
		k.alive, k.dirty = false, true
		k.row = KeyRow{ID: k.row.ID, Key: k.row.Key, Seq: k.row.Seq, First: Never}
		k.firstKnown = true
	}
}

func (k *keyWork) trimBefore(before int) {
	if before <= k.row.LogFirst {
		return
	}
	k.row.LogFirst = before
	k.trim = max(k.trim, before)
	kept := k.log[:0]
	for _, e := range k.log { // of this group
		if skip := before - e.At; skip > 0 {
			e.Entries = e.Entries[min(skip, len(e.Entries)):]
			e.At = before
		}
		if len(e.Entries) > 0 {
			kept = append(kept, e)
		}
	}
	k.log = kept
	k.dirty = true
}

func (k *keyWork) append(a *store.Append) {
	k.alive, k.dirty = true, true
	if k.row.LogLength == 0 {
		k.row.LogTag = a.Tag
	}
	k.log = append(k.log, Entries{Key: k.row.ID, At: k.row.LogLength, Entries: a.Entries})
	k.row.LogLength += len(a.Entries)
}

// ready returns the messages that are visible if the key can be claimed and all that it
// has is known, so that nothing needs to be read for it.
func (k *keyWork) ready(now int64) (visible []*messageWork) {
	if !k.alive || k.row.Route == "" || k.row.Token != "" || k.storedCount() > 0 {
		return nil
	}
	for _, m := range k.fresh {
		if !m.gone && m.Visible <= now {
			visible = append(visible, m)
		}
	}
	slices.SortFunc(visible, func(a, b *messageWork) int { return before(&a.MessageRow, &b.MessageRow) })
	return visible
}

func before(a, b *MessageRow) int {
	if a.Visible != b.Visible {
		return int(min(max(a.Visible-b.Visible, -1), 1))
	}
	return int(min(max(a.Seq-b.Seq, -1), 1))
}

// settle brings the row's First up to date, and reports whether that is known.
func (k *keyWork) settle() bool {
	known := k.tableCount() == 0 || k.firstKnown
	if k.tableCount() == 0 || !k.firstKnown {
		k.row.First = Never
	}
	if k.inline != nil {
		k.lower(k.inline)
	}
	for _, m := range k.fresh {
		k.lower(m)
	}
	return known
}

// lower lowers the row's First to that of a message, if it is pending.
func (k *keyWork) lower(m *messageWork) {
	if m.gone {
		return
	}
	at := m.Visible
	if k.row.Route == "" {
		at = m.Expires()
	}
	k.row.First = min(k.row.First, at)
}

// claim builds what a caller gets of a key that was leased. The bodies are the caller's
// from then on.
func claim(row *KeyRow, messages []MessageRow, now int64) store.Claim {
	c := store.Claim{
		Key: row.Key, Token: store.Token(row.Token), Route: row.Route, LogLength: row.LogLength, LogTag: row.LogTag,
		Now: store.FromMillis(now), Until: store.FromMillis(row.Until), Messages: make([]store.Message, 0, len(messages)),
	}
	for i := range messages {
		m := messages[i].Message(row.Key, row.Route)
		m.Attempt++
		c.Messages = append(c.Messages, m)
	}
	return c
}
