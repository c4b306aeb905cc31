package bench

import (
	"encoding/binary"
	"encoding/hex"
	"time"

	"github.com/abidehq/abide/store"
)

// KeyOrder is how the names of keys are ordered.
type KeyOrder string

// Orders of keys: by the time at which they were made, as UUIDs of version 7 are, or
// not at all, as those of version 4.
const (
	KeysOrdered KeyOrder = "ordered"
	KeysRandom  KeyOrder = "random"
)

// Where everything lives, so that nothing else in the store is touched.
const (
	queue  = "abide-bench"
	tenant = "abide-bench"
	kind   = "abide-bench"
)

// turnRoutes are those of the instances. Messages that are not visible yet have
// these and idleRoute, which is never ready: the idle process waits for it.
var turnRoutes = []string{"order@1", "payment@1", "shipping@1", "invoice@1"}

const idleRoute = "idle@1"

var allRoutes = append([]string{idleRoute}, turnRoutes...)

// stream is a sequence of names. It is the time at which the first of them was made,
// which keeps the streams apart.
type stream time.Time

var (
	pendingKeys  = stream(time.Date(2026, 1, 1, 0, 0, 0, 0, time.UTC))
	instanceKeys = stream(time.Date(2027, 1, 1, 0, 0, 0, 0, time.UTC))
	consumedKeys = stream(time.Date(2028, 1, 1, 0, 0, 0, 0, time.UTC))
	probeKeys    = stream(time.Date(2029, 1, 1, 0, 0, 0, 0, time.UTC))
)

// key returns the key with number i, which is always the same one.
func (s stream) key(order KeyOrder, i int) store.Key {
	return store.Key{Queue: queue, Tenant: tenant, Name: s.name(order, i)}
}

// name returns a UUID: with a time that grows by a millisecond from number to
// number, or without.
func (s stream) name(order KeyOrder, i int) string {
	start := uint64(time.Time(s).UnixMilli())
	at := start + uint64(i)
	high, low := scramble(at), scramble(at^0x5bf0_3635)
	version := uint64(4)
	if order == KeysOrdered {
		high, version = at<<16|high&0xffff, 7
	}
	high = high&^0xf000 | version<<12
	low = low&^(3<<62) | 2<<62

	var raw [16]byte
	binary.BigEndian.PutUint64(raw[:8], high)
	binary.BigEndian.PutUint64(raw[8:], low)
	text := make([]byte, 0, 36)
	for _, part := range [][]byte{raw[:4], raw[4:6], raw[6:8], raw[8:10], raw[10:]} {
		if len(text) > 0 {
			text = append(text, '-')
		}
		text = hex.AppendEncode(text, part)
	}
	return string(text)
}

// scramble spreads numbers over all 64 bits, each to another one (splitmix64).
func scramble(x uint64) uint64 {
	x += 0x9e37_79b9_7f4a_7c15
	x = (x ^ x>>30) * 0xbf58_476d_1ce4_e5b9
	x = (x ^ x>>27) * 0x94d0_49bb_1331_11eb
	return x ^ x>>31
}
