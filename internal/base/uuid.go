package base

import (
	"crypto/rand"
	"encoding/base32"
	"encoding/binary"
	"encoding/hex"
	"time"
)

// NewUUID returns a UUIDv7 (RFC 9562) of that time: its first 48 bits are the
// milliseconds since 1970, so that what is made later is greater, and 74 of the others
// are random.
func NewUUID(at time.Time) string {
	id := newUUID(at)
	return UUIDText(id[:])
}

// NewID returns what [NewUUID] returns in 26 letters and digits, in the same order. Names that are
// made one after another stand beside each other in a store, which makes them cheaper to write,
// to find and to compact than names without an order.
func NewID(at time.Time) string {
	id := newUUID(at)
	return idEncoding.EncodeToString(id[:])
}

var idEncoding = base32.HexEncoding.WithPadding(base32.NoPadding)

func newUUID(at time.Time) [16]byte {
	var id [16]byte
	rand.Read(id[6:])
	var ms [8]byte
	binary.BigEndian.PutUint64(ms[:], uint64(max(at.UnixMilli(), 0)))
	copy(id[:6], ms[2:])
	id[6] = id[6]&0x0f | 0x70 // version 7
	id[8] = id[8]&0x3f | 0x80 // the variant of RFC 9562
	return id
}

// UUIDText returns the 16 bytes of a UUID as text. Of anything else it is empty.
func UUIDText(id []byte) string {
	if len(id) != 16 {
		return ""
	}
	var text [36]byte
	hex.Encode(text[0:8], id[0:4])
	hex.Encode(text[9:13], id[4:6])
	hex.Encode(text[14:18], id[6:8])
	hex.Encode(text[19:23], id[8:10])
	hex.Encode(text[24:], id[10:])
	text[8], text[13], text[18], text[23] = '-', '-', '-', '-'
	return string(text[:])
}

// UUIDBytes returns the 16 bytes of a UUID in the form that [UUIDText] writes. Of anything
// else it is nil.
func UUIDBytes(text string) []byte {
	if len(text) != 36 || text[8] != '-' || text[13] != '-' || text[18] != '-' || text[23] != '-' {
		return nil
	}
	id := make([]byte, 0, 16)
	for _, part := range [...]string{text[:8], text[9:13], text[14:18], text[19:23], text[24:]} {
		var err error
		if id, err = hex.AppendDecode(id, []byte(part)); err != nil {
			return nil
		}
	}
	return id
}
