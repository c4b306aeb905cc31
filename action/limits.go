package action

import "time"

// Limits of actions. Each is checked before anything is done, and the error names it.
const (
	// MaxSlug is the largest length of a slug, MaxTenant that of a tenant, MaxID that of the
	// ID of an action or a schedule, MaxTarget that of the name of a target, and MaxWorker
	// that of [Config.WorkerName], in bytes.
	MaxSlug   = 128
	MaxTenant = 256
	MaxID     = 128
	MaxTarget = 64
	MaxWorker = 256

	// MaxPayload is the largest payload of an action, in bytes.
	MaxPayload = 256 << 10

	// MaxBody is the largest body of a webhook, in bytes, that a hook can allow.
	MaxBody = 2 << 20

	// MaxHeaders is how many headers are kept of a webhook, and MaxHeader how long a name or
	// a value may be, in bytes.
	MaxHeaders = 32
	MaxHeader  = 1024

	// MaxOutput is how much output of a run can be kept, in bytes, and DefaultOutput how
	// much is.
	MaxOutput     = 1 << 20
	DefaultOutput = 16 << 10

	// MaxReason is how much of the reason for a failure is kept, in bytes.
	MaxReason = 1024

	// MinRate and MaxRate bound the rate of ticks.
	MinRate = 10 * time.Millisecond
	MaxRate = 24 * time.Hour

	// MaxPage is the largest page of a list, and DefaultPage the one of a list that does not
	// say.
	MaxPage     = 1_000
	DefaultPage = 100

	// DefaultRetention is how long actions are kept that have ended.
	DefaultRetention = 7 * 24 * time.Hour
)

const (
	claimBatch = 128 // how many actions are claimed and begun at once
	sweepBatch = 500 // how many actions are removed in one commit
)
