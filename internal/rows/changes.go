package rows

import (
	"cmp"
	"maps"
	"slices"
	"strings"
)

// changes returns what the group changes. Keys and records are in the order in which every
// update locks them, so that two updates do not deadlock.
func (p *plan) changes() *Changes {
	c := &Changes{UpsertRecords: p.upserts}
	tally := tallies{}
	byID := func(a, b *keyWork) int { return compareIDs(a.row.ID, b.row.ID) }
	for _, k := range slices.SortedFunc(maps.Values(p.keys), byID) {
		k.write(c, p.now)
		k.tally(tally)
	}
	for _, key := range slices.SortedFunc(maps.Keys(p.records), CompareRecordKeys) {
		r := p.records[key]
		switch {
		case !r.dirty:
		case r.version == 0 && r.stored != 0:
			c.DeleteRecords = append(c.DeleteRecords, key)
		case r.version != 0 && r.stored != 0:
			c.UpdateRecords = append(c.UpdateRecords, *r.record)
		case r.version != 0:
			c.InsertRecords = append(c.InsertRecords, *r.record)
		}
	}
	c.Tally = tally.list()
	return c
}

// write adds the changes of a key. Of a key that was wiped, and perhaps created again, nothing
// that is stored is named but by Wipe.
func (k *keyWork) write(c *Changes, now int64) {
	if !k.dirty {
		return
	}
	id := k.row.ID
	if k.wiped {
		c.Wipe = append(c.Wipe, id)
	}
	if k.raise && k.alive {
		c.Raise = append(c.Raise, Raise{id, now})
	}
	if k.exists && !k.wiped {
		c.Remove = appendSeqs(c.Remove, id, k.remove)
		c.Count = appendSeqs(c.Count, id, k.count)
		c.Move = k.appendMoves(c.Move)
	}
	for _, m := range k.fresh {
		if !m.gone && !m.inline {
			c.Put = append(c.Put, m.MessageRow)
		}
	}
	if k.trim > 0 && k.exists && !k.wiped {
		c.Trim = append(c.Trim, Trim{id, k.trim})
	}
	c.Append = append(c.Append, k.log...)
	if !k.alive {
		if k.exists {
			c.Delete = append(c.Delete, id)
		}
		return
	}
	if !k.settle() {
		c.Refresh = append(c.Refresh, id)
	}
	row := k.row
	row.Inline = nil
	if k.inline != nil && !k.inline.gone {
		row.Inline = &k.inline.MessageRow
	}
	if k.exists {
		c.Update = append(c.Update, &row)
	} else {
		c.Insert = append(c.Insert, &row)
	}
}

// appendMoves adds the last move of each message of a key.
func (k *keyWork) appendMoves(list []Move) []Move {
	last := make(map[int64]int, len(k.move))
	for i, m := range k.move {
		last[m.Seq] = i
	}
	for i, m := range k.move {
		if last[m.Seq] == i {
			list = append(list, m)
		}
	}
	return list
}

func appendSeqs(list []Seqs, id ID, seqs []int64) []Seqs {
	if len(seqs) == 0 {
		return list
	}
	return append(list, Seqs{id, seqs})
}

// Empty reports whether there is nothing to write, and so nothing to sync.
func (c *Changes) Empty() bool {
	return len(c.Wipe) == 0 && len(c.Raise) == 0 && len(c.Remove) == 0 && len(c.Count) == 0 && len(c.Move) == 0 &&
		len(c.Put) == 0 && len(c.Trim) == 0 && len(c.Append) == 0 && len(c.Insert) == 0 && len(c.Update) == 0 &&
		len(c.Delete) == 0 && len(c.Refresh) == 0 && len(c.InsertRecords) == 0 && len(c.UpdateRecords) == 0 &&
		len(c.DeleteRecords) == 0 && len(c.UpsertRecords) == 0 && len(c.Tally) == 0
}

// tallies is the change of the number of pending messages, by queue and route.
type tallies map[[2]string]int

// tally counts the pending messages of a key for the partition that it was in, and the one that
// it is in now: a route may have been set.
func (k *keyWork) tally(t tallies) {
	if k.exists {
		t[[2]string{k.row.Key.Queue, k.stored.Route}] -= k.stored.Count
	}
	if k.alive {
		t[[2]string{k.row.Key.Queue, k.row.Route}] += k.row.Count
	}
}

// list returns the changes that are not zero, in order.
func (t tallies) list() (list []Tally) {
	for partition, more := range t {
		if more != 0 {
			list = append(list, Tally{Queue: partition[0], Route: partition[1], Partition: PartitionOf(partition[0], partition[1]), More: more})
		}
	}
	slices.SortFunc(list, func(a, b Tally) int {
		return cmp.Or(strings.Compare(a.Queue, b.Queue), strings.Compare(a.Route, b.Route))
	})
	return list
}

// changed returns the records that the group changed. The version of a record that was upserted
// is not known.
func (p *plan) changed() (list []change) {
	for key, r := range p.records {
		if r.dirty {
			list = append(list, change{key, RecordOf(key), r})
		}
	}
	for i := range p.upserts {
		key := p.upserts[i].Key
		list = append(list, change{key, RecordOf(key), nil})
	}
	return list
}

// due returns the partitions whose bounds the group may lower, with the earliest time at which
// something can be claimed, or expires, in a key that it changed. Where that depends on messages
// that were not loaded, it is now.
func (p *plan) due() (partitions map[int64]int64) {
	names := map[[2]string]int64{}
	for _, k := range p.keys {
		at, ok := k.dueAt(p.now)
		if !ok {
			continue
		}
		name := [2]string{k.row.Key.Queue, k.row.Route}
		if known, ok := names[name]; !ok || at < known {
			names[name] = at
		}
	}
	partitions = make(map[int64]int64, len(names))
	for name, at := range names {
		partitions[PartitionOf(name[0], name[1])] = at
	}
	return partitions
}

// dueAt returns the time for due of a key that the group changed, if it has messages.
func (k *keyWork) dueAt(now int64) (at int64, ok bool) {
	if !k.dirty || !k.alive || k.row.Count == 0 {
		return 0, false
	}
	if k.row.Token == "" && k.tableCount() > 0 && !k.firstKnown {
		return now, true
	}
	return k.row.At(), true
}
