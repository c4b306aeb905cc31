package shardstore

import (
	"crypto/sha256"
	"encoding/binary"
)

// Slots is the number of slots. It never changes.
const Slots = 1024

// SlotOf returns the slot of a tenant: the first two bytes of the SHA-256 of its name, big-endian,
// modulo [Slots]. It never changes, as it says where tenants are: see docs/format.md.
func SlotOf(tenant string) int {
	sum := sha256.Sum256([]byte(tenant))
	return int(binary.BigEndian.Uint16(sum[:])) % Slots
}
