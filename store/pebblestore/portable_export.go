package pebblestore

import (
	"bytes"
	"cmp"
	"context"
	"encoding/base64"
	"encoding/binary"
	"errors"
	"fmt"
	"slices"

	"github.com/cockroachdb/pebble/v2"

	"github.com/abidehq/abide/store"
)

const (
	// exportItem is what each item in a parcel counts besides its names and its body,
	// so that parcels of empty messages are limited too.
	exportItem = 64

	// exportLocations is how many messages of one key are sorted at a time, so that a key
	// with millions of them does not take memory for all. Each further batch scans the key
	// again.
	exportLocations = 1 << 15
)

// Stages of an export: the first byte of its cursor.
const (
	exportKeys     byte = 'k' // the key with this prefix, or the first one after it
	exportLog      byte = 'l' // of that key, the entries from an index on, and its messages
	exportMessages byte = 'm' // of that key, the messages that were put after a number
	exportRecords  byte = 'r' // the records from a number on
)

// exportCursor is where an export continues: keys in the order in which they are on disk,
// then records in the order of their numbers. It needs no state in the store, so an export
// may be continued after a restart.
type exportCursor struct {
	stage  byte
	number uint64 // of an entry, a put or a record, by the stage
	prefix []byte // of the key
}

func (c exportCursor) String() string {
	b := binary.BigEndian.AppendUint64([]byte{c.stage}, c.number)
	return base64.RawURLEncoding.EncodeToString(append(b, c.prefix...))
}

// parseExportCursor decodes a cursor, or returns [store.ErrInvalid]. The empty one is the
// beginning.
func parseExportCursor(cursor string) (exportCursor, error) {
	if cursor == "" {
		return exportCursor{stage: exportKeys, prefix: []byte{tagKey}}, nil
	}
	b, err := base64.RawURLEncoding.DecodeString(cursor)
	if err != nil || len(b) < 9 || bytes.IndexByte([]byte{exportKeys, exportLog, exportMessages, exportRecords}, b[0]) < 0 ||
		(b[0] == exportRecords) != (len(b) == 9) || (len(b) > 9 && b[9] != tagKey) {
		return exportCursor{}, fmt.Errorf("store: export: cursor %q is not from this store: %w", cursor, store.ErrInvalid)
	}
	return exportCursor{stage: b[0], number: binary.BigEndian.Uint64(b[1:]), prefix: b[9:]}, nil
}

// export is an Export call.
type export struct {
	store      *Store
	view       view
	partitions map[uint32]partitionName // that were read so far
	parcel     store.Parcel
	size       int // bytes in the parcel
}

// Export returns the next parcel of everything in the store, in one view of the database. The
// parcels of an export are from different views: for an exact copy the store must not change
// in between.
func (s *Store) Export(ctx context.Context, cursor string) (store.Parcel, error) {
	at, err := parseExportCursor(cursor)
	if err != nil {
		return store.Parcel{}, err
	}
	release, err := s.read(ctx, "export")
	if err != nil {
		return store.Parcel{}, err
	}
	defer release()
	x := export{store: s, partitions: map[uint32]partitionName{}}
	if x.view, err = s.view(); err != nil {
		return store.Parcel{}, s.readError("export", err)
	}
	defer x.view.close()
	full := false
	if at.stage != exportRecords {
		full, err = x.keys(ctx, at)
		at = exportCursor{stage: exportRecords}
	}
	if err == nil && !full {
		err = x.records(ctx, at.number)
	}
	if err != nil {
		return store.Parcel{}, s.readError("export", err)
	}
	return x.parcel, nil
}

// partition returns what a partition is for, and caches it.
func (x *export) partition(id uint32) (partitionName, error) {
	name, ok := x.partitions[id]
	if ok {
		return name, nil
	}
	name, err := x.store.partitionName(x.view, id)
	if err == nil {
		x.partitions[id] = name
	}
	return name, err
}

// fits counts the bytes of what is to be added, and reports whether the parcel has room
// for it. If not, the parcel ends, and the next one begins at the cursor.
func (x *export) fits(size int, next exportCursor) bool {
	size += exportItem
	if x.size > 0 && x.size+size > store.ParcelBytes {
		x.parcel.Next = next.String()
		return false
	}
	x.size += size
	return true
}

// keys adds keys, and reports whether the parcel is full.
func (x *export) keys(ctx context.Context, at exportCursor) (full bool, err error) {
	it, err := x.view.NewIter(&pebble.IterOptions{LowerBound: []byte{tagKey}, UpperBound: []byte{tagKey + 1}})
	if err != nil {
		return false, err
	}
	for found := it.SeekGE(at.prefix); found; found = it.SeekGE(upper(at.prefix)) {
		if err = ctx.Err(); err != nil {
			break
		}
		prefix := slices.Clone(it.Key()[:split(it.Key())])
		if at.stage == exportKeys || !bytes.Equal(prefix, at.prefix) {
			at = exportCursor{stage: exportKeys, prefix: prefix}
		}
		if full, err = x.key(at); full || err != nil {
			break
		}
		at.stage = exportKeys
	}
	return full, closeIter(it, err)
}

// key adds a key, or the rest of it, in three stages: head, entries, messages. It reports
// whether the parcel is full.
func (x *export) key(at exportCursor) (full bool, err error) {
	k, err := x.readKey(at.prefix)
	if err != nil {
		return false, err
	}
	if at.stage == exportKeys {
		if !x.fits(len(at.prefix)+len(k.head.Route), at) {
			return true, nil
		}
		x.parcel.Keys = append(x.parcel.Keys, k.head)
		at.stage, at.number = exportLog, uint64(k.head.LogFirst)
	}
	if at.stage == exportLog {
		if full, err = x.entries(k, at); full || err != nil {
			return full, err
		}
		at.stage, at.number = exportMessages, 0
	}
	return x.messages(k, at)
}

// exportedKey is a key that is being exported.
type exportedKey struct {
	head   store.KeyHead
	log    uint64 // number of its log, or 0
	queued bool   // it has messages
}

// readKey reads the head of a key. The route is that of the partition of its messages, or, if
// it has none, that of its header.
func (x *export) readKey(prefix []byte) (k exportedKey, err error) {
	if k.head.Key, err = parseKeyPrefix(prefix); err != nil {
		return k, err
	}
	it, err := x.view.NewIter(&pebble.IterOptions{LowerBound: prefix, UpperBound: upper(prefix)})
	if err != nil {
		return k, err
	}
	var h header
	if it.First() && it.Key()[len(prefix)] == keyHeader {
		if h, err = parseHeader(it.Key(), it.Value()); err == nil {
			k.log, k.head.LogTag, k.head.LogFirst, k.head.Route = h.log, h.tag, h.base, h.route
			it.Next()
		}
	}
	if err == nil && it.Valid() {
		var partition uint32
		if partition, _, err = parsePending(it.Key(), it.Value()); err == nil {
			var name partitionName
			name, err = x.partition(partition)
			k.queued, k.head.Route = true, name.route
		}
	}
	if err = closeIter(it, err); err == nil && k.log != 0 {
		k.head.LogLength, err = x.store.logLength(x.view, k.log)
	}
	return k, err
}

// parseKeyPrefix is the inverse of keyPrefix.
func parseKeyPrefix(prefix []byte) (store.Key, error) {
	r := reader{b: prefix[1:]}
	key := store.Key{Queue: r.string(), Tenant: r.string(), Name: r.string()}
	return key, r.check("key", prefix)
}

// entries adds the entries of a key from an index on.
func (x *export) entries(k exportedKey, at exportCursor) (full bool, err error) {
	if k.log == 0 || int(at.number) >= k.head.LogLength {
		return false, nil
	}
	it, err := x.view.NewIter(logBounds(k.log))
	if err != nil {
		return false, err
	}
	a := store.Append{Key: k.head.Key, At: int(at.number)}
	// The value before the next index holds the first entry.
	for it.SeekLT(logKey(nil, k.log, a.At+1)); it.Valid() && !full && err == nil; it.Next() {
		start := int(binary.BigEndian.Uint64(it.Key()[9:]))
		err = parseEntries(it.Key(), it.Value(), func(i int, entry []byte) bool {
			switch at.number = uint64(start + i); {
			case start+i < a.At:
				return true
			case !x.fits(len(entry), at):
				full = true
				return false
			}
			a.Entries = append(a.Entries, slices.Clone(entry))
			return true
		})
	}
	if len(a.Entries) > 0 {
		x.parcel.Entries = append(x.parcel.Entries, a)
	}
	return full, closeIter(it, err)
}

// messages adds the messages of a key that were put after a number, in that order.
func (x *export) messages(k exportedKey, at exportCursor) (full bool, err error) {
	if !k.queued {
		return false, nil
	}
	for {
		locations, more, err := x.locations(at)
		if err != nil {
			return false, err
		}
		for _, p := range locations {
			m, err := x.store.messageAt(x.view, k.head.Key, k.head.Route, p)
			if errors.Is(err, pebble.ErrNotFound) {
				err = fmt.Errorf("pebblestore: a message of %v is not in partition %d: %w", k.head.Key, p.partition, store.ErrCorrupt)
			}
			if err != nil {
				return false, err
			}
			if !x.fits(len(at.prefix)+len(m.ID)+len(m.Body), at) {
				return true, nil
			}
			x.parcel.Messages = append(x.parcel.Messages, m)
			at.number = p.pos.seq
		}
		if !more {
			return false, nil
		}
	}
}

// locations returns the locations of the next messages of a key that were put after a number,
// in that order, and whether there are more. On disk they are in the order of their IDs, so
// it scans all of them and keeps the first, at most twice as many as it returns.
func (x *export) locations(at exportCursor) (locations []location, more bool, err error) {
	prefix := append(slices.Clone(at.prefix), keyPending)
	it, err := x.view.NewIter(&pebble.IterOptions{LowerBound: prefix, UpperBound: upper(prefix)})
	if err != nil {
		return nil, false, err
	}
	most := cmp.Or(x.store.limits.locations, exportLocations)
	keepFirst := func() {
		slices.SortFunc(locations, func(a, b location) int { return cmp.Compare(a.pos.seq, b.pos.seq) })
		if len(locations) > most {
			locations, more = locations[:most], true
		}
	}
	for it.First(); it.Valid() && err == nil; it.Next() {
		var p location
		if p.partition, p.pos, err = parsePending(it.Key(), it.Value()); err == nil && p.pos.seq > at.number {
			if locations = append(locations, p); len(locations) == 2*most {
				keepFirst()
			}
		}
	}
	keepFirst()
	return locations, more, closeIter(it, err)
}

// records adds records from a number on.
func (x *export) records(ctx context.Context, num uint64) error {
	it, err := x.view.NewIter(&pebble.IterOptions{LowerBound: recordKey(nil, num), UpperBound: []byte{tagRecord + 1}})
	if err != nil {
		return err
	}
	for it.First(); it.Valid() && err == nil; it.Next() {
		if !x.fits(len(it.Value()), exportCursor{stage: exportRecords, number: binary.BigEndian.Uint64(it.Key()[1:])}) {
			break
		}
		var rec store.Record
		if rec, err = parseRecord(it.Key(), it.Value()); err == nil {
			x.parcel.Records = append(x.parcel.Records, rec)
			err = ctx.Err()
		}
	}
	return closeIter(it, err)
}
