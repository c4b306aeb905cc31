package engine

import "sync/atomic"

// Counters count what an engine did since it was started.
type Counters struct {
	Turns          atomic.Int64 // that were committed
	Fused          atomic.Int64 // of these, those that had no commit of their own
	Replays        atomic.Int64 // turns that had to bring the code to where its history ends
	Stale          atomic.Int64 // messages that were acknowledged without being appended: late or duplicate
	Unawaited      atomic.Int64 // events that were dropped because nobody waited for them
	Lost           atomic.Int64 // turns and activities that lost their claim
	Started        atomic.Int64 // executions whose code began
	Ended          atomic.Int64 // instances that ended
	Stalls         atomic.Int64 // instances that stalled
	ActivitiesDone atomic.Int64 // activities that completed
	ActivityFails  atomic.Int64 // attempts of activities that failed
	Expired        atomic.Int64 // ended instances that were deleted
	Refused        atomic.Int64 // starts and events that were refused, because the process was behind
}

// Count returns the engine's counters.
func (e *Engine) Count() *Counters { return &e.count }
