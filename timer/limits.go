package timer

import "time"

// Limits of timers. They are checked before anything is written; the error names the limit.
const (
	// MaxKey, MaxTenant and MaxCorrelation are the largest lengths of a key, a tenant and a
	// correlation ID, in bytes.
	MaxKey         = 512
	MaxTenant      = 256
	MaxCorrelation = 256

	// MaxPayload is the largest value of [Config.MaxPayload], and DefaultPayload its default, in
	// bytes.
	MaxPayload     = 512 << 10
	DefaultPayload = 64 << 10

	// MaxBulk is the largest number of requests of [Service.ScheduleAll].
	MaxBulk = 10_000

	// MaxDelay is the largest [Request.Delay].
	MaxDelay = 100 * 365 * 24 * time.Hour

	// MaxPage is the largest page of a list, and DefaultPage the default.
	MaxPage     = 1_000
	DefaultPage = 100

	// DefaultRetention is how long fired and cancelled timers are kept by default.
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
