package action

import "time"

// Limits of actions. They are checked before anything is written; the error names the limit.
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

	// MaxBody is the largest body of a webhook, in bytes.
	MaxBody = 2 << 20

	// MaxHeaders is the largest number of headers of a webhook that are kept, and MaxHeader the
	// largest length of a name or a value, in bytes.
	MaxHeaders = 32
	MaxHeader  = 1024

	// MaxOutput is the largest [Config.Output], in bytes, and DefaultOutput its default.
	MaxOutput     = 1 << 20
	DefaultOutput = 16 << 10

	// DefaultTenant is the tenant of a [Request], a [Plan] or a webhook that names none.
	DefaultTenant = "default"

	// MaxReason is the largest length of [Action.Reason], in bytes; longer ones are cut.
	MaxReason = 1024

	// MinRate and MaxRate bound the rate of ticks.
	MinRate = 10 * time.Millisecond
	MaxRate = 24 * time.Hour

	// MaxPage is the largest page of a list, and DefaultPage the default.
	MaxPage     = 1_000
	DefaultPage = 100

	// DefaultRetention is how long ended actions are kept by default.
	DefaultRetention = 7 * 24 * time.Hour
)

const (
	claimBatch = 128 // how many actions are claimed and begun at once
	sweepBatch = 500 // how many actions are removed in one commit
)
