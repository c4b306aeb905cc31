package cron

import (
	"crypto/sha256"
	"encoding/binary"
	"math/bits"
	"time"
)

// Jitter returns how much later than planned a run is to start, so that schedules that
// are due at the same moment do not all start at once: from 0 to just under limit, and 0
// if there is no limit. It is drawn from the schedule's id and the planned moment alone.
// So every process comes to the same answer, also after a restart and with another
// version of the program: how it is drawn must never change.
func Jitter(id string, planned time.Time, limit time.Duration) time.Duration {
	if limit <= 0 {
		return 0
	}
	seed := make([]byte, 0, 12+len(id))
	seed = binary.BigEndian.AppendUint64(seed, uint64(planned.Unix()))
	seed = binary.BigEndian.AppendUint32(seed, uint32(planned.Nanosecond()))
	seed = append(seed, id...)
	sum := sha256.Sum256(seed)
	drawn, _ := bits.Mul64(binary.BigEndian.Uint64(sum[:8]), uint64(limit))
	return time.Duration(drawn)
}
