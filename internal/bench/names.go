package bench

import (
	"bytes"
	"math/rand/v2"
	"strconv"
	"time"
)

// Name is the tenant, and the beginning of the names, of all that a workload stores.
const Name = "abide-bench"

// Prefix begins the names of orchestrations and activities.
const Prefix = Name + "-"

// TenantOf returns the tenant of thing i, of so many tenants.
func TenantOf(i, tenants int) string { return Prefix + strconv.Itoa(i%tenants) }

// Scramble spreads numbers over all 64 bits, each to another one (splitmix64).
func Scramble(x uint64) uint64 {
	x += 0x9e37_79b9_7f4a_7c15
	x = (x ^ x>>30) * 0xbf58_476d_1ce4_e5b9
	x = (x ^ x>>27) * 0x94d0_49bb_1331_11eb
	return x ^ x>>31
}

// Spread returns a time within over after first, another one for another i, to the
// millisecond. They are scrambled, because timers are not set in the order in which they are
// due.
func Spread(first time.Time, over time.Duration, i int) time.Time {
	after := Scramble(uint64(i)) % uint64(max(over/time.Millisecond, 1))
	return first.Add(time.Duration(after) * time.Millisecond)
}

// What is not due in a run is due within FarOver, beginning FarAfter the run.
const (
	FarAfter = 24 * time.Hour
	FarOver  = 7 * 24 * time.Hour
)

// Far returns a time that is not within the run, counted from now.
func Far(now time.Time, i int) time.Time {
	return Spread(now.Add(FarAfter).Truncate(time.Millisecond), FarOver, i)
}

// Noise is what all bodies are cut from. It does not compress, and is large enough for a
// block of the engine not to hold the same piece twice.
var Noise = func() []byte {
	b := make([]byte, 1<<18)
	_, _ = rand.NewChaCha8([32]byte{}).Read(b) // it never fails
	return b
}()

// Bytes returns size bytes, others for another n. The caller must not change them.
func Bytes(n uint64, size int) []byte {
	at := int(Scramble(n) % uint64(len(Noise)-size))
	return Noise[at : at+size : at+size]
}

// payloadStart is what the payload of a timer's envelope begins with.
var payloadStart = []byte(`{"serviceCallId":"`)

// TimerKey returns the key of the timer whose envelope has that payload. It is taken apart by hand,
// because what a subscriber does with it is not what is measured.
func TimerKey(payload []byte) (key []byte, ok bool) {
	rest, ok := bytes.CutPrefix(payload, payloadStart)
	key, _, found := bytes.Cut(rest, []byte{'"'})
	return key, ok && found
}
