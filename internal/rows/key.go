package rows

import (
	"slices"

	"github.com/abidehq/abide/store"
)

// keyWork is the state of a key within a plan: its row as it will be, and what has to be
// written to get there.
//
// Only messages that operations name are loaded. The others are known by their count alone, so
// that a key may have any number of them; what depends on them (First, the visibility after a
// change of the route) is left to the database, by Refresh and Raise.
//
// Invariants: row.Count is the number of pending messages, loaded or not; a number (Seq) is
// used once within a plan, also across a deletion of the key; an operation that changes
// anything sets dirty.
type keyWork struct {
	row    KeyRow
	stored KeyRow // as it was loaded
	exists bool   // in the database
	alive  bool   // after the operations so far: it has messages or a log
	dirty  bool

	// firstKnown says that row.First is still that of the stored messages: none of them was
	// removed or moved.
	firstKnown bool

	messages messageSet // loaded, or put by this group

	inline *messageWork // the message in the row, pending or gone; nil if there was none

	fresh      []*messageWork // put by this group
	freshCount int            // of them that are pending

	removed   seqSet // index of remove
	delivered seqSet // index of row.Delivered

	wiped  bool
	raise  bool
	remove []int64
	count  []int64
	move   []Move
	trim   int
	log    []Entries
}

// messageWork is the state of a message within a plan.
type messageWork struct {
	MessageRow
	stored bool // in the database
	inline bool // in the row of its key
	gone   bool
}

// newKeyWork returns the state of a key with a loaded row, or nil if it does not exist.
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

// know adds a loaded message. An earlier operation may have removed it by its number.
func (k *keyWork) know(m *MessageRow) {
	k.messages.add(&messageWork{MessageRow: *m, stored: true, gone: k.removed.has(k.remove, m.Seq)})
}

// find returns a pending message, or nil.
func (k *keyWork) find(id string) *messageWork { return k.messages.pending(id) }

// live reports whether a token is that of a lease of the key that has not expired.
func (k *keyWork) live(token store.Token, now int64) bool {
	return k.row.Token != "" && k.row.Token == string(token) && now < k.row.Until
}

// endLease ends the lease, live or not, and returns the numbers of the messages that were
// delivered with it. Their attempts are counted, unless the lease was released uncounted.
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

// removeSeq removes a stored message, loaded or not.
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

// drop removes a message, and ends the lease with which it was delivered.
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

// unleaseIf ends the lease if the message was delivered with it: its caller must not finish a
// message that was deleted or moved under it.
func (k *keyWork) unleaseIf(seq int64) {
	if k.row.Token != "" && k.delivered.has(k.row.Delivered, seq) {
		k.endLease(true)
	}
}

// moveTo makes a message visible at another time, and ends the lease with which it was
// delivered.
func (k *keyWork) moveTo(m *messageWork, visible int64) {
	k.unleaseIf(m.Seq)
	m.Visible = visible
	if m.stored {
		k.moveSeq(m.Seq, visible)
	}
	k.dirty = true
}

// moveSeq makes a stored message, loaded or not, visible at another time.
func (k *keyWork) moveSeq(seq, visible int64) {
	if m := k.inline; m != nil && m.Seq == seq {
		m.Visible = visible
	} else {
		k.move = append(k.move, Move{k.row.ID, seq, visible})
	}
	k.firstKnown = false
	k.dirty = true
}

// setRoute sets the route of the key. Messages that waited for a route are visible from now on,
// not from when they were put: a claim delivers in the order of visibility.
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

// storedCount returns how many of the pending messages are stored.
func (k *keyWork) storedCount() int { return k.row.Count - k.freshCount }

// tableCount returns how many of those have rows of their own.
func (k *keyWork) tableCount() int {
	if k.inline != nil && k.inline.stored && !k.inline.gone {
		return k.storedCount() - 1
	}
	return k.storedCount()
}

// put adds a message. If one with its ID is pending, only the route is set.
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

// wipe deletes the key with its messages and its log.
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

// forgetIfGone deletes a key that has neither messages nor a log. Its numbers go on within the
// group, so that none is used twice in it.
func (k *keyWork) forgetIfGone() {
	if k.alive && k.row.Count == 0 && k.row.LogLength == 0 {
		k.alive, k.dirty = false, true
		k.row = KeyRow{ID: k.row.ID, Key: k.row.Key, Seq: k.row.Seq, First: Never}
		k.firstKnown = true
	}
}

// trimBefore removes the entries before an index, also those that this group appended.
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

// idle reports whether the key is not leased, and has no message that is visible or waits for a
// route. If that depends on messages that were not loaded, it is not idle. A lease that has expired
// has left its messages visible.
func (k *keyWork) idle(now int64) bool {
	switch {
	case k.row.Count == 0:
		return true
	case k.row.Token != "", k.row.Route == "", k.tableCount() > 0 && (!k.firstKnown || k.row.First <= now):
		return false
	case k.inline != nil && !k.inline.gone && k.inline.Visible <= now:
		return false
	}
	return !slices.ContainsFunc(k.fresh, func(m *messageWork) bool { return !m.gone && m.Visible <= now })
}

// append appends entries. The caller has checked the length.
func (k *keyWork) append(a *store.Append, now int64) {
	k.alive, k.dirty = true, true
	k.setRoute(a.Route, now)
	if k.row.LogLength == 0 {
		k.row.LogTag = a.Tag
	}
	k.log = append(k.log, Entries{Key: k.row.ID, At: k.row.LogLength, Entries: a.Entries})
	k.row.LogLength += len(a.Entries)
}

// ready returns the visible messages of a key that can be leased without reading anything: it
// has a route and no lease, and all its messages were put by this group. Otherwise nil.
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

// before compares messages in the order of delivery.
func before(a, b *MessageRow) int {
	if a.Visible != b.Visible {
		return int(min(max(a.Visible-b.Visible, -1), 1))
	}
	return int(min(max(a.Seq-b.Seq, -1), 1))
}

// settle computes row.First, and reports whether it is exact. If it is not, stored messages that
// were not loaded may be earlier, and the key goes to Changes.Refresh.
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

// lower lowers row.First to when a message is visible, or expires, if it is pending.
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

// claim returns the claim of a key that was leased. Its messages include the attempt of the
// lease. The bodies belong to the caller of Claim from then on.
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
