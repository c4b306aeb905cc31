package meter

// Tenant timers.
var (
	TimersScheduled = counter("abide.timer.scheduled", "", "Timers that were scheduled: armed, moved, or armed again.")
	TimersFired     = counter("abide.timer.fired", "", "Timers that fired.")
	TimersCancelled = counter("abide.timer.cancelled", "", "Timers that were cancelled.")
	TimersRemoved   = counter("abide.timer.removed", "", "Fired and cancelled timers that were removed after their retention.")
	TimerConflicts  = counter("abide.timer.claim.conflicts", "", "Timers that were moved, cancelled or fired by somebody else while they were being fired.")
	TimerLateness   = seconds("abide.timer.lateness", "", "How long after its due time a timer fired; of one that was due when it was scheduled, after that.")
	TimersArmed     = gauge("abide.timer.armed", "", "Timers that are armed now.")
	TimerOverdue    = gauge("abide.timer.overdue", "s", "How long ago the armed timer that is due first was due; 0 if none is.")
	TimerCommands   = counter("abide.timer.commands", "outcome", "Commands that arrived as messages, by outcome: applied, stale or refused.")
)

// The bus.
var (
	BusPublished = counter("abide.bus.published", "sink", "Envelopes that a sink accepted.")
	BusRetried   = counter("abide.bus.retried", "sink", "Attempts to publish an envelope that failed and will be repeated.")
	BusFailed    = counter("abide.bus.failed", "sink", "Envelopes that went to quarantine because the sink does not accept them.")
	BusDelay     = seconds("abide.bus.delay", "sink", "How long after it was put into the outbox an envelope was accepted.")
)

// Actions and the tick loop.
var (
	Ticks          = seconds("abide.tick.duration", "", "How long a tick took.")
	ActionsAdded   = counter("abide.action.added", "trigger", "Actions that were added, by trigger: scheduled or webhook.")
	ActionsStarted = counter("abide.action.started", "", "Runs of actions that began.")
	ActionsEnded   = counter("abide.action.ended", "status", "Actions that ended, by status: completed, failed, cancelled or skipped; and pending, for runs that failed and are repeated.")
	ActionDuration = seconds("abide.action.duration", "", "How long a run of an action took.")
	ActionLateness = seconds("abide.action.lateness", "", "How long after it was due an action began to run.")
	ActionsPending = gauge("abide.action.pending", "", "Actions that are pending or running now.")
	ActionsRunning = gauge("abide.action.running", "", "Actions that run now, in this process.")
	ActionOverdue  = gauge("abide.action.overdue", "s", "How long ago the pending or running action that is due first was due; 0 if none is.")
)

// Webhooks that arrive.
var (
	HookRequests = counter("abide.hook.requests", "outcome", "Requests to hooks, by outcome: accepted or duplicate; or why it was refused: unknown, method, rate, too_large, timeout, incomplete, unsigned, malformed, stale, signature, delivery, store or internal.")
	HookDuration = seconds("abide.hook.duration", "", "How long it took to verify and store a webhook, from when its body was there.")
)

// All returns every metric, in the order of this file.
func All() []Metric {
	return []Metric{
		TimersScheduled, TimersFired, TimersCancelled, TimersRemoved, TimerConflicts, TimerLateness,
		TimersArmed, TimerOverdue, TimerCommands,
		BusPublished, BusRetried, BusFailed, BusDelay,
		Ticks, ActionsAdded, ActionsStarted, ActionsEnded, ActionDuration, ActionLateness,
		ActionsPending, ActionsRunning, ActionOverdue,
		HookRequests, HookDuration,
	}
}

func counter(name, label, help string) Metric {
	return Metric{Name: name, Kind: KindCounter, Label: label, Help: help}
}

func seconds(name, label, help string) Metric {
	return Metric{Name: name, Kind: KindHistogram, Unit: "s", Label: label, Help: help}
}

func gauge(name, unit, help string) Metric {
	return Metric{Name: name, Kind: KindGauge, Unit: unit, Help: help}
}
