package engine

import (
	"time"

	"github.com/abidehq/abide/store"
)

// Limits of the engine. Each has a soft limit below it where that makes sense: a warning first, and then the
// instance stalls with its messages kept. Work is never killed by a limit, and goes on after the limit is
// raised or the instance is forked.
const (
	// MaxName is the largest length of the name of an orchestration, activity, event,
	// timer, step, change or value, in bytes, and MaxVersion that of a version.
	MaxName    = 128
	MaxVersion = 64

	// MaxID is the largest length of an instance's ID, in bytes, and MaxTenant that of a
	// tenant.
	MaxID     = 512
	MaxTenant = 128

	// MaxPayload is the largest length of an input, a result, or what comes with an
	// event, in bytes.
	MaxPayload = 2 << 20

	// MaxStatusText is the largest length of what an instance says about itself,
	// MaxValue that of one of its values, and MaxValues the number of values.
	MaxStatusText = 1 << 10
	MaxValue      = 4 << 10
	MaxValues     = 64

	// WarnHistory is the length of a history, in events, from which on a warning is logged
	// and the code is told to continue as new, and MaxHistory that at which the instance
	// stalls.
	WarnHistory = 20_000
	MaxHistory  = 100_000

	// WarnHistoryBytes is the size of a history, the sum of its entries in bytes, from which
	// on a warning is logged and the code is told to continue as new, and MaxHistoryBytes
	// that at which the instance stalls.
	WarnHistoryBytes = 64 << 20
	MaxHistoryBytes  = 256 << 20

	// WarnOpen is the number of activities, timers and children that an execution
	// waits for from which on a warning is logged, and MaxOpen that at which the
	// instance stalls.
	WarnOpen = 10_000
	MaxOpen  = 20_000

	// MaxYear is the last year for which a timer can be set.
	MaxYear = 9000

	// MaxReason is the largest length of the reason why an instance is to be suspended,
	// cancelled or terminated, in bytes.
	MaxReason = 4 << 10

	// MaxEntityBatch is the largest number of operations that an entity is given at once.
	MaxEntityBatch = 200

	// MaxEntityBacklog is how many operations and requests for its lock an entity keeps while it is
	// locked, as far as they fit into its record. Beyond that a call fails with [TypeBusy], and a signal or
	// a request for the lock goes to quarantine with [ReasonBacklog], where an operator can redrive it.
	MaxEntityBacklog = 10_000

	// MaxEntityLocks is the largest number of entities that are locked with one request.
	MaxEntityLocks = 100

	// MaxBatch is the largest number of instances to start in one commit.
	MaxBatch = 1_000
)

// Defaults of [Config].
const (
	DefaultTurns        = 256
	DefaultActivities   = 256
	DefaultCache        = 1_024
	DefaultLease        = 30 * time.Second
	DefaultRetention    = 7 * 24 * time.Hour
	DefaultStepGroup    = 20 * time.Millisecond
	DefaultBlocked      = 10 * time.Second
	DefaultTurnAttempts = 10
	DefaultTaskCrashes  = 10
	DefaultDrain        = 10 * time.Second
	DefaultUnknown      = 10 * time.Minute
)

// turnLimits returns how many bytes and things the code of one turn puts into its commit before the
// turn ends and the code goes on in another one: a quarter of what a commit may hold. The rest is
// for what reached the turn and for its end.
func turnLimits(l store.Limits) (bytes, ops int) { return l.TxBytes / 4, l.TxOps / 4 }
