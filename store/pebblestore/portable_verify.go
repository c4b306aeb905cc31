package pebblestore

import (
	"bytes"
	"context"
	"encoding/binary"
	"errors"
	"fmt"
	"slices"

	"github.com/cockroachdb/pebble/v2"

	"github.com/abidehq/abide/store"
)

// verifier is a Verify call. It reads each range of the database once, and for each value the
// others that must exist with it. In memory it has only a few numbers for each partition,
// and two for all logs, so that it works on stores of any size.
//
// What is checked, by the range that is read:
//
//	partitions   they decode
//	messages     partition exists; position not below its floor; the pending
//	             entry of the key points back; hidden if and only if the
//	             partition has no route; sequence number is reserved
//	             (then: the counts of the partitions)
//	keys         pending entries point at messages of that key, all in one
//	             partition of the right route; logs have no gaps
//	logs         each belongs to one key
//	names        point at the record of that name
//	records      name and index entries exist; number is reserved
//	indexes      entries point at a record with that status and time
//	leases       of messages that exist (in memory)
type verifier struct {
	ctx    context.Context //nolint:containedctx // of the call that the verifier is
	store  *Store
	view   view
	report func(problem string)
	steps  int // values read so far

	partitions map[uint32]*verifiedPartition
	logs       logSum // of the logs that keys refer to
	numbers    uint64 // those below are reserved
}

// verifiedPartition is the header of a partition, and how many messages were found in it.
type verifiedPartition struct {
	name  partitionName
	count int64
	floor pos
	found int64
}

// logSum is a checksum of a set of logs, whatever their order. Two sets with the same sum are
// the same but for a collision of 64 bits.
type logSum struct {
	count int
	sum   uint64
}

func (l *logSum) add(log uint64) {
	l.count++
	// A step of SplitMix64: it spreads numbers that follow each other.
	x := log * 0x9e3779b97f4a7c15
	x = (x ^ (x >> 30)) * 0xbf58476d1ce4e5b9
	x = (x ^ (x >> 27)) * 0x94d049bb133111eb
	l.sum += x ^ (x >> 31)
}

// Verify checks everything on disk for consistency, in one view of the database, and reports
// each problem. It may run while the store is in use.
func (s *Store) Verify(ctx context.Context, report func(problem string)) error {
	release, err := s.read(ctx, "verify")
	if err != nil {
		return err
	}
	defer release()
	v := verifier{ctx: ctx, store: s, report: report, partitions: map[uint32]*verifiedPartition{}}
	if v.view, err = s.view(); err != nil {
		return s.readError("verify", err)
	}
	defer v.view.close()
	for _, step := range []func() error{
		v.readNumbers,
		func() error { return v.each(tagPartition, v.partition) },
		func() error { return v.each(tagMsg, v.message) },
		v.counts,
		v.keys,
		v.unownedLogs,
		func() error { return v.each(tagName, v.recordName) },
		func() error { return v.each(tagRecord, v.record) },
		func() error { return v.each(tagIndex, v.index) },
		func() error { return v.each(tagShared, v.index) },
		func() error { return v.each(tagTerm, v.term) },
	} {
		if err := step(); err != nil {
			return s.readError("verify", err)
		}
	}
	v.leases()
	return nil
}

func (v *verifier) problem(format string, args ...any) { v.report(fmt.Sprintf(format, args...)) }

// checkEnded returns an error, every countSteps calls, if the context has ended or the store is
// being closed.
func (v *verifier) checkEnded() error {
	if v.steps++; v.steps%countSteps != 0 {
		return nil
	}
	select {
	case <-v.store.closing:
		return v.store.closedError("verify")
	default:
		return v.ctx.Err()
	}
}

// each calls check with each database key of a kind and its value. A value that cannot be
// decoded is a problem to report, and not an error of Verify.
func (v *verifier) each(tag byte, check func(key, value []byte) error) error {
	it, err := v.view.NewIter(&pebble.IterOptions{LowerBound: []byte{tag}, UpperBound: []byte{tag + 1}})
	if err != nil {
		return err
	}
	for it.First(); it.Valid() && err == nil; it.Next() {
		value, readErr := it.ValueAndErr()
		if err = readErr; err != nil {
			break
		}
		if err = v.checkEnded(); err == nil {
			err = v.reportCorrupt(check(it.Key(), value))
		}
	}
	return closeIter(it, err)
}

// reportCorrupt reports a value that cannot be decoded, and returns any other error.
func (v *verifier) reportCorrupt(err error) error {
	if errors.Is(err, errShort) {
		v.problem("%v", err)
		return nil
	}
	return err
}

// get returns a copy of a value, or nil if it does not exist.
func (v *verifier) get(key []byte) ([]byte, error) {
	value, closer, err := v.view.Get(key)
	if errors.Is(err, pebble.ErrNotFound) {
		return nil, nil
	}
	if err != nil {
		return nil, err
	}
	value = append([]byte{}, value...) // not nil, also if it is empty
	return value, closer.Close()
}

func (v *verifier) readNumbers() error {
	b, err := v.get(metaIDs)
	if err == nil && len(b) == 8 {
		v.numbers = binary.BigEndian.Uint64(b)
	}
	return err
}

// checkNumber checks that a number in use is reserved, so that newID does not return it again.
func (v *verifier) checkNumber(what string, number uint64) {
	if number == 0 || number >= v.numbers {
		v.problem("%s has number %d, and those from %d on are free", what, number, v.numbers)
	}
}

func (v *verifier) partition(key, value []byte) error {
	r := reader{b: value}
	l := &verifiedPartition{name: partitionName{r.string(), r.string(), r.string()}, count: int64(r.uvarint())}
	l.floor = pos{due: int64(r.uvarint()), seq: r.uvarint()}
	if err := r.check("partition", key); err != nil {
		return err
	}
	v.partitions[binary.BigEndian.Uint32(key[1:])] = l
	return nil
}

// message checks a message against its partition and the pending entry of its key.
func (v *verifier) message(key, value []byte) error {
	id, at := binary.BigEndian.Uint32(key[1:]), parseMsgKey(key)
	name, msgID, d, err := parseMsg(key, value)
	if err != nil {
		return err
	}
	l := v.partitions[id]
	if l == nil {
		v.problem("message %q of %q is in partition %d, which is not there", msgID, name, id)
		return nil
	}
	l.found++
	ref := store.MessageRef{Key: store.Key{Queue: l.name.queue, Tenant: l.name.tenant, Name: name}, ID: msgID}
	v.checkNumber(fmt.Sprintf("message %v", ref), at.seq)
	if at.less(l.floor) {
		v.problem("message %v is below the floor of its partition, and is never loaded", ref)
	}
	if d.hidden != (l.name.route == "") {
		v.problem("message %v has route %q, and is kept as if that were otherwise", ref, l.name.route)
	}
	pending, err := v.get(pendingKey(nil, ref.Key, ref.ID))
	if err != nil {
		return err
	}
	if pending == nil {
		v.problem("message %v is not among the messages of its key", ref)
		return nil
	}
	partition, p, err := parsePending(key, pending)
	if err == nil && (partition != id || p != at) {
		v.problem("message %v is in two locations", ref)
	}
	return err
}

// counts compares the counts of the partitions with the messages that were found.
func (v *verifier) counts() error {
	for id, l := range v.partitions {
		if l.found != l.count {
			v.problem("partition %d, of queue %q, tenant %q and route %q, counts %d messages and has %d", id, l.name.queue, l.name.tenant, l.name.route, l.count, l.found)
		}
	}
	return nil
}

// keys checks the pending entries and the log of each key.
func (v *verifier) keys() error {
	var k verifiedKey
	err := v.each(tagKey, func(key, value []byte) error {
		n := split(key)
		if n == len(key) {
			v.problem("%x is not the key of anything", key)
			return nil
		}
		if !bytes.Equal(k.prefix, key[:n]) {
			k = verifiedKey{prefix: slices.Clone(key[:n])}
			var err error
			if k.key, err = parseKeyPrefix(k.prefix); err != nil {
				return err
			}
		}
		if key[n] == keyHeader {
			return v.header(&k, key, value)
		}
		return v.pendingMessage(&k, string(key[n+1:]), key, value)
	})
	return err
}

// verifiedKey is the key whose values are being read: the header comes first, then its pending
// entries.
type verifiedKey struct {
	prefix    []byte
	key       store.Key
	header    *header // nil if it has none
	partition uint32  // of the pending entry before, or 0
}

// header checks that a log is complete, from its first entry that is not trimmed to its last.
func (v *verifier) header(k *verifiedKey, key, value []byte) error {
	h, err := parseHeader(key, value)
	if err != nil {
		return err
	}
	k.header = &h
	v.logs.add(h.log)
	v.checkNumber(fmt.Sprintf("the log of %v", k.key), h.log)
	it, err := v.view.NewIter(logBounds(h.log))
	if err != nil {
		return err
	}
	next, found := 0, false
	for it.First(); it.Valid() && err == nil; it.Next() {
		start, n := int(binary.BigEndian.Uint64(it.Key()[9:])), 0
		switch {
		case !found && start > h.base:
			v.problem("the log of %v begins at entry %d, and should at %d", k.key, start, h.base)
		case found && start != next:
			v.problem("the log of %v continues with entry %d after %d of them", k.key, start, next)
		}
		parseErr := parseEntries(it.Key(), it.Value(), func(int, []byte) bool {
			n++
			return true
		})
		err = v.reportCorrupt(parseErr)
		next, found = start+n, true
	}
	if err = closeIter(it, err); err == nil && (!found || next < h.base) {
		v.problem("the log of %v has %d entries, and %d of them are trimmed", k.key, next, h.base)
	}
	return err
}

// pendingMessage checks that a message is at the location of its pending entry, and that all
// messages of a key are in one partition, of the route that the key has.
func (v *verifier) pendingMessage(k *verifiedKey, id string, key, value []byte) error {
	partition, at, err := parsePending(key, value)
	if err != nil {
		return err
	}
	ref := store.MessageRef{Key: k.key, ID: id}
	l := v.partitions[partition]
	if l == nil {
		v.problem("message %v should be in partition %d, which is not there", ref, partition)
		return nil
	}
	if l.name.queue != k.key.Queue || l.name.tenant != k.key.Tenant {
		v.problem("message %v is in the partition of queue %q and tenant %q", ref, l.name.queue, l.name.tenant)
	}
	if k.header != nil && k.header.route != l.name.route {
		v.problem("message %v has route %q, and its key %q", ref, l.name.route, k.header.route)
	}
	if k.partition != 0 && k.partition != partition {
		v.problem("message %v is in another partition than the message before it", ref)
	}
	k.partition = partition
	msg, err := v.get(msgKey(nil, partition, at))
	if err != nil {
		return err
	}
	if msg == nil {
		v.problem("message %v is not where its key says", ref)
		return nil
	}
	name, msgID, _, err := parseMsg(key, msg)
	if err == nil && (name != k.key.Name || msgID != id) {
		v.problem("where message %v should be is message %q of %q", ref, msgID, name)
	}
	return err
}

// leases checks that the leases of this process are of messages that exist.
func (v *verifier) leases() {
	v.store.mu.Lock()
	defer v.store.mu.Unlock()
	for _, l := range v.store.leases.items {
		if l.key.lease != l {
			v.problem("there is a lease of %v, which is not leased", l.key.key)
		}
		for _, r := range l.delivered {
			if r.gone {
				v.problem("the lease of %v is of message %q, which is not there", l.key.key, r.id)
			}
		}
	}
}
