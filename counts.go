package abide

import "github.com/abidehq/abide/internal/engine"

// Counts are the counters of an engine since it was opened.
type Counts struct {
	// Turns counts committed turns, and Replays those among them whose code was not in the
	// cache and was replayed first.
	Turns   int64
	Replays int64

	// Started counts executions that have begun. Ended, Stalled and Expired count instances
	// that have ended, have stalled, and were deleted after [Config.Retention].
	Started int64
	Ended   int64
	Stalled int64
	Expired int64

	// Activities counts completed activities, and ActivityFailures failed attempts.
	Activities       int64
	ActivityFailures int64

	// Stale counts messages that were late or duplicates and had no effect. Unawaited counts
	// events that were dropped because of [IfAwaited].
	Stale     int64
	Unawaited int64

	// Lost counts turns and activities that lost their lease and were executed again.
	Lost int64
}

// Counts returns the counters of the engine since it was opened. Those of an engine that a server
// elsewhere has count what this process has run for it, and Stalled, Expired, Stale, Unawaited and Lost are
// zero: the server has its metrics.
func (e *Engine) Counts() Counts {
	var c *engine.Counters
	if e.e == nil {
		c = e.link.Count()
	} else {
		c = e.e.Count()
	}
	return Counts{
		Turns: c.Turns.Load(), Replays: c.Replays.Load(),
		Started: c.Started.Load(), Ended: c.Ended.Load(), Stalled: c.Stalls.Load(), Expired: c.Expired.Load(),
		Activities: c.ActivitiesDone.Load(), ActivityFailures: c.ActivityFails.Load(),
		Stale: c.Stale.Load(), Unawaited: c.Unawaited.Load(), Lost: c.Lost.Load(),
	}
}
