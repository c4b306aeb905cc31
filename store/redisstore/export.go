package redisstore

import (
	"cmp"
	"context"
	"encoding/base64"
	"encoding/json"
	"fmt"
	"hash/crc32"
	"slices"
	"strconv"
	"strings"

	"github.com/abidehq/abide/store"
)

var _ store.Portable = (*Store)(nil)

var (
	scanScript   = newScript("scan", false, true, "head", "scan")
	exportScript = newScript("export", false, true, "head", "export")

	exportRecordsScript = newScript("export", false, true, "head", "exportrecords")
)

// snapshot is the IDs of all keys and records of a segment, sorted. An export makes it with the
// first parcel of the segment and follows it to the end. A process that continues an export of another process,
// or after a restart, makes a new one: the cursor holds IDs and not indexes.
type snapshot struct {
	segment       *segment
	keys, records []string
}

// exportPosition is how far an export has come. As JSON with a checksum, which includes the
// prefix of the store, it is the cursor.
type exportPosition struct {
	Key    []byte `json:"key,omitempty"`    // the next key
	Entry  int    `json:"entry,omitempty"`  // how many of its entries were exported, or trimmed
	After  string `json:"after,omitempty"`  // the number of the last of its messages that was
	Begun  bool   `json:"begun,omitempty"`  // its head was
	Record []byte `json:"record,omitempty"` // the next record, when all keys were
	Of     int    `json:"of,omitempty"`     // the segment
	Sum    uint32 `json:"sum"`
}

func (s *Store) formatExportCursor(m exportPosition) string {
	m.Sum = s.sumOf(m)
	b, err := json.Marshal(m)
	if err != nil {
		panic(err) // bytes and numbers always marshal
	}
	return base64.RawURLEncoding.EncodeToString(b)
}

func (s *Store) sumOf(m exportPosition) uint32 {
	text := fmt.Appendf(nil, "%s %q %d %s %v %q", s.prefix, m.Key, m.Entry, m.After, m.Begun, m.Record)
	if m.Of > 0 {
		text = fmt.Appendf(text, " %d", m.Of)
	}
	return crc32.ChecksumIEEE(text)
}

func (s *Store) parseExportCursor(cursor string) (m exportPosition, err error) {
	if cursor == "" {
		return exportPosition{}, nil
	}
	b, err := base64.RawURLEncoding.DecodeString(cursor)
	if err == nil {
		err = json.Unmarshal(b, &m)
	}
	if err != nil || m.Sum != s.sumOf(m) || m.Key == nil && m.Record == nil || m.Of < 0 || m.Of >= len(s.segments) {
		return m, fmt.Errorf("store: export: cursor %q is not from this store: %w", cursor, store.ErrInvalid)
	}
	return m, nil
}

// Export returns the next parcel of everything that the store holds. Exports are meant for
// a store that is held exclusively: see Exclude.
func (s *Store) Export(ctx context.Context, cursor string) (store.Parcel, error) {
	m, err := s.parseExportCursor(cursor)
	if err != nil {
		return store.Parcel{}, err
	}
	done, err := s.begin(ctx, "export")
	if err != nil {
		return store.Parcel{}, err
	}
	defer done()
	e := exporter{store: s, left: store.ParcelBytes}
	anew := cursor == ""
	for _, seg := range s.segments[m.Of:] {
		next, more, err := e.exportSegment(ctx, seg, m, anew)
		if err != nil {
			return store.Parcel{}, err
		}
		if more {
			next.Of = seg.index
			e.parcel.Next = s.formatExportCursor(next)
			return e.parcel, nil
		}
		m, anew = exportPosition{}, true
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	s.export = nil // it was the last one
	return e.parcel, nil
}

// exportSegment adds what a segment holds from a position on. It returns where it ended and
// whether there is more.
func (e *exporter) exportSegment(ctx context.Context, seg *segment, m exportPosition, anew bool) (next exportPosition, more bool, err error) {
	if e.all, err = e.store.snapshot(ctx, seg, anew); err != nil {
		return m, false, err
	}
	if m.Record == nil {
		if next, more, err = e.exportKeys(ctx, m); err != nil || more {
			return next, more, err
		}
	}
	record, more, err := e.exportRecords(ctx, string(m.Record))
	return exportPosition{Record: []byte(record)}, more, err
}

// snapshot returns the snapshot of the export under way, or a new one.
func (s *Store) snapshot(ctx context.Context, seg *segment, anew bool) (*snapshot, error) {
	s.mu.Lock()
	known := s.export
	s.mu.Unlock()
	if known != nil && !anew && known.segment == seg {
		return known, nil
	}
	all := &snapshot{segment: seg}
	for kind, list := range map[string]*[]string{"k": &all.keys, "r": &all.records} {
		err := s.scan(ctx, seg, kind+"*", func(name string) { *list = append(*list, name[1:]) })
		if err != nil {
			return nil, err
		}
		slices.Sort(*list)
		*list = slices.Compact(*list) // a scan may name something twice
	}
	s.mu.Lock()
	s.export = all
	s.mu.Unlock()
	return all, nil
}

// scan calls f with the names of all that a segment holds and that match, without the prefix.
func (s *Store) scan(ctx context.Context, seg *segment, pattern string, f func(name string)) error {
	for cursor := "0"; ; {
		m, err := s.eval(ctx, seg, scanScript, args{cursor, pattern})
		if err != nil {
			return err
		}
		a := read(m)
		cursor = a.text()
		for names := a.sub(); names.more(); {
			f(strings.TrimPrefix(names.text(), seg.prefix))
		}
		if a.err != nil {
			return fmt.Errorf("redisstore: scan: %w", a.err)
		}
		if cursor == "0" {
			return nil
		}
	}
}

// exporter fills one parcel.
type exporter struct {
	store  *Store
	all    *snapshot // of the segment that is being exported
	parcel store.Parcel
	left   int  // bytes that still fit
	any    bool // the parcel is not empty, so it may end before the next item
}

// itemBytes is what each item counts besides its names and its body, so that parcels of
// empty messages are limited too. The script counts the same.
const itemBytes = 64

// exportBatch is how many keys or records one script exports.
const exportBatch = 200

// exportKeys adds keys from a position on. It returns where it ended and whether there is more.
func (e *exporter) exportKeys(ctx context.Context, m exportPosition) (next exportPosition, more bool, err error) {
	i, _ := slices.BinarySearch(e.all.keys, string(m.Key))
	for i < len(e.all.keys) {
		ids := e.all.keys[i:min(i+exportBatch, len(e.all.keys))]
		a := args{itoa(int64(e.left)), yesNo(!e.any), itoa(int64(m.Entry)), cmp.Or(m.After, "0"), yesNo(m.Begun)}
		a.len(len(ids))
		a.add(ids...)
		msg, err := e.store.eval(ctx, e.all.segment, exportScript, a)
		if err != nil {
			return m, false, err
		}
		answer := read(msg)
		n := 0
		for ; answer.more(); n++ {
			last, whole, err := e.addKey(ids[n], answer.sub(), n == 0 && m.Begun)
			if err != nil {
				return m, false, err
			}
			if !whole {
				return last, true, nil
			}
		}
		if answer.err != nil {
			return m, false, fmt.Errorf("redisstore: export: %w", answer.err)
		}
		if n < len(ids) {
			return exportPosition{Key: []byte(ids[n])}, true, nil
		}
		i += n
		m = exportPosition{}
	}
	return m, false, nil
}

// addKey adds the part of a key that an answer has. It reports whether that is the rest of
// the key, or else where to continue: a long log spans several parcels.
func (e *exporter) addKey(id string, a *answer, begun bool) (next exportPosition, whole bool, err error) {
	key, err := parseKey(id)
	if err != nil {
		return next, false, err
	}
	whole = a.num() == 1
	head := store.KeyHead{Key: key, Route: a.text(), LogLength: int(a.num()), LogFirst: int(a.num())}
	if head.LogTag, err = strconv.ParseUint(a.text(), 10, 64); err != nil {
		return next, false, fmt.Errorf("redisstore: tag of the log of %v: %w: %w", key, err, store.ErrCorrupt)
	}
	if !begun {
		e.parcel.Keys = append(e.parcel.Keys, head)
		e.count(len(id))
	}
	end := int(a.num())
	var entries [][]byte
	for list := a.sub(); list.more(); {
		entries = append(entries, []byte(list.text()))
		e.count(len(entries[len(entries)-1]))
	}
	if len(entries) > 0 {
		e.parcel.Entries = append(e.parcel.Entries, store.Append{Key: key, At: end - len(entries), Entries: entries})
	}
	after := a.text()
	for list := a.sub(); list.more(); {
		mid, visible, attempt := list.text(), list.num(), list.num()
		m, err := parseMessage(key, head.Route, mid, list.text(), visible, attempt)
		if err != nil {
			return next, false, err
		}
		e.parcel.Messages = append(e.parcel.Messages, m)
		e.count(len(id) + len(mid) + len(m.Body))
	}
	if a.err != nil {
		return next, false, fmt.Errorf("redisstore: export: %w", a.err)
	}
	return exportPosition{Key: []byte(id), Entry: end, After: after, Begun: true}, whole, nil
}

func (e *exporter) count(bytes int) {
	e.left -= itemBytes + bytes
	e.any = true
}

// exportRecords adds records from one on. It returns where it ended and whether there is
// more.
func (e *exporter) exportRecords(ctx context.Context, from string) (next string, more bool, err error) {
	i, _ := slices.BinarySearch(e.all.records, from)
	for i < len(e.all.records) {
		some := e.all.records[i:min(i+exportBatch, len(e.all.records))]
		a := args{itoa(int64(e.left)), yesNo(!e.any)}
		a.names(some)
		m, err := e.store.eval(ctx, e.all.segment, exportRecordsScript, a)
		if err != nil {
			return "", false, err
		}
		answer := read(m)
		n := 0
		for ; answer.more(); n++ {
			if raw := answer.text(); raw != "" {
				r, err := parseRecord(some[n], raw)
				if err != nil {
					return "", false, err
				}
				e.parcel.Records = append(e.parcel.Records, r)
				e.count(len(some[n]) + len(raw))
			}
		}
		if answer.err != nil {
			return "", false, fmt.Errorf("redisstore: export: %w", answer.err)
		}
		if n < len(some) {
			return some[n], true, nil
		}
		i += n
	}
	return "", false, nil
}
