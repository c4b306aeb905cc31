package pgstore

import (
	"encoding/binary"
	"encoding/hex"
	"fmt"
	"maps"
	"slices"

	"github.com/jackc/pgx/v5/pgtype"

	"github.com/abidehq/abide/internal/rows"
	"github.com/abidehq/abide/store"
)

// blobs is bytes as a parameter: an array of a type that is known, and is not taken apart by
// reflection.
type blobs = pgtype.FlatArray[[]byte]

// uuids returns IDs as a parameter.
func uuids(ids []rows.ID) pgtype.FlatArray[pgtype.UUID] {
	list := make(pgtype.FlatArray[pgtype.UUID], len(ids))
	for i, id := range ids {
		list[i] = uuid(id)
	}
	return list
}

func uuid(id rows.ID) pgtype.UUID { return pgtype.UUID{Bytes: id, Valid: true} }

// recordIDs returns the IDs of records as a parameter.
func recordIDs(keys []store.RecordKey) pgtype.FlatArray[pgtype.UUID] {
	list := make(pgtype.FlatArray[pgtype.UUID], len(keys))
	for i, k := range keys {
		list[i] = uuid(rows.RecordIDOf(k))
	}
	return list
}

// never returns a time as it is stored: null if it does not come.
func never(ms int64) pgtype.Int8 { return pgtype.Int8{Int64: ms, Valid: ms != rows.Never} }

// solid returns bytes that are not null.
func solid(b []byte) []byte {
	if b == nil {
		return []byte{}
	}
	return b
}

// encodeTags returns tags as they are stored, each a value that can be looked for.
func encodeTags(tags map[string]string) [][]byte {
	list := make([][]byte, 0, len(tags))
	for _, name := range slices.Sorted(maps.Keys(tags)) {
		tag := binary.BigEndian.AppendUint16(make([]byte, 0, 2+len(name)+len(tags[name])), uint16(len(name)))
		list = append(list, append(append(tag, name...), tags[name]...))
	}
	return list
}

// tagsText returns tags as the text of an array, as deliveredText does with numbers.
func tagsText(tags map[string]string) string {
	b := []byte{'{'}
	for i, tag := range encodeTags(tags) {
		if i > 0 {
			b = append(b, ',')
		}
		b = append(b, `"\\x`...)
		b = hex.AppendEncode(b, tag)
		b = append(b, '"')
	}
	return string(append(b, '}'))
}

func decodeTags(list [][]byte) (map[string]string, error) {
	if len(list) == 0 {
		return nil, nil
	}
	tags := make(map[string]string, len(list))
	for _, tag := range list {
		if len(tag) < 2 || len(tag) < 2+int(binary.BigEndian.Uint16(tag)) {
			return nil, fmt.Errorf("a tag of a record is cut off: %w", store.ErrCorrupt)
		}
		n := 2 + int(binary.BigEndian.Uint16(tag))
		tags[string(tag[2:n])] = string(tag[n:])
	}
	return tags, nil
}

// chunk is entries of a log that are stored in one row.
type chunk struct {
	at, n int
	data  []byte
}

// chunkBytes is about how large a row of entries gets, unless a single one is larger.
const chunkBytes = 512 << 10

// chunks returns entries as they are stored.
func chunks(at int, entries [][]byte) (list []chunk) {
	for i := 0; i < len(entries); {
		c := chunk{at: at + i}
		for ; i < len(entries) && (c.n == 0 || len(c.data)+len(entries[i]) <= chunkBytes); i++ {
			c.data = binary.AppendUvarint(c.data, uint64(len(entries[i])))
			c.data = append(c.data, entries[i]...)
			c.n++
		}
		list = append(list, c)
	}
	return list
}

// entries returns what is in a chunk.
func (c *chunk) entries() ([][]byte, error) {
	list := make([][]byte, 0, c.n)
	rest := c.data
	for range c.n {
		size, n := binary.Uvarint(rest)
		if n <= 0 || size > uint64(len(rest)-n) {
			return nil, fmt.Errorf("entries of a log that begin at %d are cut off: %w", c.at, store.ErrCorrupt)
		}
		end := n + int(size)
		list = append(list, rest[n:end:end])
		rest = rest[end:]
	}
	if len(rest) > 0 {
		return nil, fmt.Errorf("entries of a log that begin at %d have something behind them: %w", c.at, store.ErrCorrupt)
	}
	return list, nil
}
