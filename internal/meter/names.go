package meter

// The engine: instances, turns and activities.
var (
	InstancesStarted   = counter("abide.instance.started", "", "Instances whose code began, and forks that went on.")
	InstancesContinued = counter("abide.instance.continued", "", "Executions that continued as new: the next one began.")
	InstancesEnded     = counter("abide.instance.ended", "status", "Instances that ended, by status: completed, failed, cancelled or terminated.")
	InstancesRewound   = counter("abide.instance.rewound", "", "Failed instances that were rewound, failed children included: they run on, and end once more.")
	InstancesStalled   = counter("abide.instance.stalled", "", "Instances that stalled.")
	InstancesLong      = counter("abide.instance.history.long", "", "Instances whose history has passed 20,000 events or 64 MiB: they should continue as new.")
	InstancesExpired   = counter("abide.instance.expired", "", "Ended instances that were deleted after their retention.")
	InstancesCached    = gauge("abide.instance.cached", "", "Waiting instances whose code is in memory, in this process.")
	InstanceLateness   = seconds("abide.instance.timer.lateness", "", "How long after it was due a timer of an orchestration reached its code; of one that was due when it was set, or before its instance was resumed, after that: the time for which an instance was suspended or stalled does not count.")

	InstanceTimersScheduled = counter("abide.instance.timer.scheduled", "", "Timers that orchestrations set, those of timeouts included.")
	InstanceTimersFired     = counter("abide.instance.timer.fired", "", "Timers of orchestrations that fired.")
	InstanceTimersMoved     = counter("abide.instance.timer.moved", "", "Timers of orchestrations that were given another time, by their code or from outside.")
	InstanceTimersCancelled = counter("abide.instance.timer.cancelled", "", "Timers of orchestrations that their code cancelled; those of instances that end are not counted.")

	CallsRefused = counter("abide.call.refused", "", "Starts and events that were refused, because this process has more to do than it can.")
	CallsLimit   = gauge("abide.call.limit", "", "Starts and events that this process commits at a time; it is lowered from 256 while the process is behind.")

	TurnDuration      = seconds("abide.turn.duration", "", "How long a turn took that was committed, with its commit.")
	TurnReplays       = counter("abide.turn.replays", "", "Turns that replayed history, because the code was not in memory.")
	TurnsRunning      = gauge("abide.turn.running", "", "Turns that are under way now, in this process.")
	ActivityDuration  = seconds("abide.activity.duration", "activity", "How long an attempt at an activity took, whether or not it failed.")
	ActivitiesEnded   = counter("abide.activity.ended", "outcome", "Activities that ended, by outcome: completed, or failed for good.")
	ActivityFailures  = counter("abide.activity.failures", "activity", "Attempts at activities that failed, whether or not they are repeated.")
	ActivitiesRunning = gauge("abide.activity.running", "", "Activities that are under way now, in this process.")
	CodeAbandoned     = gaugeBy("abide.code.abandoned", "", "code", "Goroutines of orchestrations and activities that should have ended and do not return, in this process: code that blocks, or ignores its context.")
	EntityOperations  = counter("abide.entity.operations", "outcome", "Operations of entities that ended, by outcome: completed or failed. There are so many per batch as this grows by, divided by the growth of abide_entity_batch_duration_seconds_count.")
	EntityBatch       = seconds("abide.entity.batch.duration", "", "How long a batch of operations of an entity took that was committed, with its commit.")
	EntityWaited      = counter("abide.entity.waited", "", "Operations, and requests for locks, that had to wait because an entity was locked.")
	EntityLockWait    = seconds("abide.entity.lock.wait", "", "How long requests for locks of entities took that were granted, from the turn that asked until the last lock was free.")
	LimitWait         = seconds("abide.limit.wait", "", "How long work waited at a limit until it was admitted; work under several limits counts at each.")
	LimitWaiting      = gaugeBy("abide.limit.waiting", "", "limit", "Work that waits for a limit now, by its name, in all tenants: the sum over the keys of a limit that has them. 1,000 keys with waiting work are looked at, and 100 limits.")
	MessagesStale     = counter("abide.message.stale", "", "Messages to instances that came too late or twice, and were acknowledged without being appended.")
	EventsUnawaited   = counter("abide.event.unawaited", "", "Events that were dropped because nobody waited for them, as their sender asked for.")
	ClaimsLost        = counter("abide.claim.lost", "queue", "Claims that were lost or had a conflict, by queue: the work is done by another process, or once more.")
)

// A worker over the network, in its own process.
var (
	WorkerTurns      = counter("abide.worker.turn.received", "code", "Turns that a server has sent to this worker, by how their code was found: new, cached, or replayed because it was not in memory.")
	WorkerActivities = counter("abide.worker.activity.received", "", "Attempts at activities that a server has sent to this worker.")
	WorkerSessions   = counter("abide.worker.sessions", "", "Sessions that this worker has opened with servers: more than one means that it has connected again.")
	WorkerConnected  = gauge("abide.worker.connected", "", "1 while this worker has a session with a server, and 0 while it has none.")
	WorkerSlots      = gaugeBy("abide.worker.slots", "", "kind", "How many a server may send this worker at a time, by kind: turn or activity. Used are abide_turn_running and abide_activity_running.")
)

// The queues of the store.
var (
	QueuePending = gaugeBy("abide.queue.pending", "", "queue", "Messages that wait, by queue, whether or not they are visible.")
	QueueReady   = gaugeBy("abide.queue.ready", "", "queue", "Messages that are visible, by queue; those of instances that are suspended, stalled or waiting for a limit do not count. Of one route, 10,000 are counted at most.")
	QueueAge     = gaugeBy("abide.queue.age", "s", "queue", "For how long the oldest visible message of the queue has been so; 0 if there is none.")
	Quarantined  = gauge("abide.quarantine.messages", "", "Messages in quarantine; 10,000 are counted at most.")
	ClockLead    = gauge("abide.store.clock.lead", "s", "How far the store's time is ahead of its clock, because that was set back; 0 if it is not.")
	ClockOffset  = gauge("abide.store.clock.offset", "s", "How far the store's time is ahead of the clock of this process; negative if it is behind.")
)

// Tenant timers.
var (
	TimersScheduled = counter("abide.timer.scheduled", "", "Timers that were scheduled: armed, moved, or armed again.")
	TimersFired     = counter("abide.timer.fired", "", "Timers that fired.")
	TimersCancelled = counter("abide.timer.cancelled", "", "Timers that were cancelled.")
	TimersRemoved   = counter("abide.timer.removed", "", "Fired and cancelled timers that were removed after their retention.")
	TimerConflicts  = counter("abide.timer.claim.conflicts", "", "Timers that were moved, cancelled or fired by another process while they were being fired.")
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
	HookRequests = counter("abide.hook.requests", "outcome", "Requests to hooks, by outcome: accepted, duplicate or ignored; or why it was refused: unknown, method, origin, address, rate, too_large, timeout, incomplete, unsigned, malformed, stale, signature, delivery, store or internal.")
	HookDuration = seconds("abide.hook.duration", "", "How long it took to verify and store a webhook, from when its body was there.")
)

// The server.
var (
	HTTPRequests = counter("abide.http.requests", "class", "Requests that were answered, by class of status: 2xx, 3xx, 4xx or 5xx.")
	HTTPDuration = seconds("abide.http.duration", "operation", "How long it took to answer a request, by operation of the API, or page, hook or other. Streams are not counted.")
)

// All returns every metric, in the order of this file.
func All() []Metric {
	return []Metric{
		InstancesStarted, InstancesContinued, InstancesEnded, InstancesRewound, InstancesStalled, InstancesLong, InstancesExpired, InstancesCached, InstanceLateness,
		InstanceTimersScheduled, InstanceTimersFired, InstanceTimersMoved, InstanceTimersCancelled,
		CallsRefused, CallsLimit,
		TurnDuration, TurnReplays, TurnsRunning,
		ActivityDuration, ActivitiesEnded, ActivityFailures, ActivitiesRunning, CodeAbandoned,
		EntityOperations, EntityBatch, EntityWaited, EntityLockWait, LimitWait, LimitWaiting,
		MessagesStale, EventsUnawaited, ClaimsLost,
		WorkerTurns, WorkerActivities, WorkerSessions, WorkerConnected, WorkerSlots,
		QueuePending, QueueReady, QueueAge, Quarantined, ClockLead, ClockOffset,
		TimersScheduled, TimersFired, TimersCancelled, TimersRemoved, TimerConflicts, TimerLateness,
		TimersArmed, TimerOverdue, TimerCommands,
		BusPublished, BusRetried, BusFailed, BusDelay,
		Ticks, ActionsAdded, ActionsStarted, ActionsEnded, ActionDuration, ActionLateness,
		ActionsPending, ActionsRunning, ActionOverdue,
		HookRequests, HookDuration,
		HTTPRequests, HTTPDuration,
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

// gaugeBy is a gauge with a label.
func gaugeBy(name, unit, label, help string) Metric {
	return Metric{Name: name, Kind: KindGauge, Unit: unit, Label: label, Help: help}
}
