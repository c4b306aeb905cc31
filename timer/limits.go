package timer

import "time"

// Limits of timers. Each is checked before anything is done, and the error names it.
const (
	// MaxKey is the largest length of a key, in bytes, MaxTenant that of a tenant, and
	// MaxCorrelation that of a correlation ID.
	MaxKey         = 512
	MaxTenant      = 256
	MaxCorrelation = 256

	// MaxPayload is the largest payload that [Config.MaxPayload] can allow, and
	// DefaultPayload is what it allows if it does not say, in bytes.
	MaxPayload     = 512 << 10
	DefaultPayload = 64 << 10

	// MaxBulk is how many timers can be scheduled in one commit.
	MaxBulk = 10_000

	// MaxDelay is how far in the future a timer can be due, by its delay.
	MaxDelay = 100 * 365 * 24 * time.Hour

	// MaxPage is the largest page of a list, and DefaultPage the one of a list that does
	// not say.
	MaxPage     = 1_000
	DefaultPage = 100

	// DefaultRetention is how long fired and cancelled timers are kept.
	DefaultRetention = 7 * 24 * time.Hour
)

// MinDueAt is the earliest due time of a [ScheduleTimer] command. An earlier one is a mistake,
// such as seconds since 1970 in place of milliseconds: read as milliseconds, no number of
// seconds up to the year 9999 is later.
var MinDueAt = time.Date(1990, 1, 1, 0, 0, 0, 0, time.UTC)

// minRetention is for how long at least a timer that has fired is known to be the one
// that it was.
const minRetention = time.Minute

// sweepBatch is how many timers are removed in one commit, and cancelBatch how many are
// cancelled.
const (
	sweepBatch  = 500
	cancelBatch = 500
)
