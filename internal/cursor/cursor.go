// Package cursor encodes a position in a list of records as the opaque text that a store
// gives out as [store.Page.Next] and takes back as [store.Query.Cursor].
//
// A cursor is base64 (URL alphabet, no padding) of
//
//	8 bytes   the time of the last record that was returned, in milliseconds, big-endian
//	n bytes   what tells records of the same time apart; its form is up to the store
//	4 bytes   CRC-32 (IEEE) of the bytes before and of the kind, tenant and order of the query
//
// The checksum ties a cursor to its query, and finds one that was damaged or comes from
// elsewhere; it protects against mistakes, not against forgery. Status, names, tags, times and
// limit are not in it: a caller may change them from page to page. The format is on bookmarks
// and in scripts, so it does not change.
package cursor

import (
	"encoding/base64"
	"encoding/binary"
	"fmt"
	"hash/crc32"
	"slices"

	"github.com/abidehq/abide/store"
)

// Position is where a list has come to.
type Position struct {
	Millis int64
	Tie    []byte // orders records of the same time
}

// Numbered returns the position of a record that is told from others of its time by a
// number.
func Numbered(millis int64, number uint64) Position {
	return Position{millis, binary.BigEndian.AppendUint64(nil, number)}
}

// Number returns the number that a position was made with by [Numbered].
func (p Position) Number() uint64 { return binary.BigEndian.Uint64(p.Tie) }

// Format returns the cursor of a position in the list of q.
func Format(q *store.Query, p Position) string {
	b := make([]byte, 0, 8+len(p.Tie)+4)
	b = binary.BigEndian.AppendUint64(b, uint64(p.Millis)) //nolint:gosec // read back in the same way
	b = append(b, p.Tie...)
	return base64.RawURLEncoding.EncodeToString(binary.BigEndian.AppendUint32(b, sum(q, b)))
}

// AnyTie is for stores whose ties differ in length.
const AnyTie = -1

// Parse returns the position of q's cursor, and whether q has one. It returns an error that
// matches [store.ErrInvalid] if the cursor is not from such a query, or its tie does not have
// tie bytes.
func Parse(q *store.Query, tie int) (p Position, ok bool, err error) {
	if q.Cursor == "" {
		return Position{}, false, nil
	}
	b, err := base64.RawURLEncoding.DecodeString(q.Cursor)
	n := len(b) - 4
	if err != nil || n < 8 || (tie != AnyTie && n != 8+tie) || binary.BigEndian.Uint32(b[n:]) != sum(q, b[:n]) {
		return Position{}, false, Invalid(q)
	}
	return Position{int64(binary.BigEndian.Uint64(b)), b[8:n]}, true, nil //nolint:gosec // written in the same way
}

// Invalid returns the error for a cursor that is not from such a query.
func Invalid(q *store.Query) error {
	return fmt.Errorf("store: list: cursor %q is not from this query: %w", q.Cursor, store.ErrInvalid)
}

func sum(q *store.Query, position []byte) uint32 {
	tenant := "all"
	if q.Tenant != nil {
		tenant = fmt.Sprintf("%q", *q.Tenant)
	}
	return crc32.ChecksumIEEE(fmt.Appendf(slices.Clone(position), "%q %s %v", q.Kind, tenant, q.Descending))
}
