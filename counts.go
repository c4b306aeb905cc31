package abide

// Counts is what an engine did since it was opened.
type Counts struct {
	// Turns were committed. Of these, Replays had to bring the code to where its history
	// ends first, because it was not in the cache.
	Turns   int64
	Replays int64

	// Started executions have begun, Ended instances have ended, Stalled ones have stalled,
	// and Expired ones were deleted when they had been kept for [Config.Retention].
	Started int64
	Ended   int64
	Stalled int64
	Expired int64

	// Activities have completed, and ActivityFailures is how many attempts have failed.
	Activities       int64
	ActivityFailures int64

	// Stale messages came too late or twice, and were acknowledged without a trace;
	// Unawaited events were dropped because nobody waited for them: see [IfAwaited].
	Stale     int64
	Unawaited int64

	// Lost turns and activities lost their claim, and were done by somebody else or once
	// more.
	Lost int64
}

// Counts returns what the engine did since it was opened.
func (e *Engine) Counts() Counts {
	c := e.e.Count()
	return Counts{
		Turns: c.Turns.Load(), Replays: c.Replays.Load(),
		Started: c.Started.Load(), Ended: c.Ended.Load(), Stalled: c.Stalls.Load(), Expired: c.Expired.Load(),
		Activities: c.ActivitiesDone.Load(), ActivityFailures: c.ActivityFails.Load(),
		Stale: c.Stale.Load(), Unawaited: c.Unawaited.Load(), Lost: c.Lost.Load(),
	}
}
