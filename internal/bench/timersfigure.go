package bench

// The circumstances. What is pending is all that waits in the store, with what earlier
// runs have left.
var (
	figTimers        = figure{name: "n", label: "timers"}
	figHerd          = figure{name: "herd", label: "timers due at the same instant"}
	figBulk          = figure{name: "bulk", label: "timers in a commit"}
	figTenants       = figure{name: "tenants", label: "tenants"}
	figPayload       = figure{name: "payload_bytes", label: "payload", unit: "B"}
	figTimersPending = figure{name: "pending", label: "pending timers"}
	figTimerDisk     = figure{name: "disk_bytes_per_timer", label: "on disk per pending timer", unit: "B"}
	figTimersLead    = figure{name: "lead_s", label: "scheduled before", unit: "s", decimals: 1}
	figOpenPublished = figure{name: "open_to_result_s", label: "open, and a first timer published", unit: "s", decimals: 4}
)

// Scheduling: in bulk, and singly. The latency is that of scheduling singly.
var (
	figScheduled       = figure{name: "scheduled_per_s", label: "scheduled in bulk", unit: "/s"}
	figScheduledCPU    = figure{name: "cpu_us_per_scheduled", label: "CPU per timer scheduled in bulk", unit: "µs", decimals: 1}
	figScheduledSingle = figure{name: "scheduled_single_per_s", label: "scheduled singly", unit: "/s"}
	figSingleCPU       = figure{name: "cpu_us_per_scheduled_single", label: "CPU per timer scheduled singly", unit: "µs", decimals: 1}
	figSingleP50       = figure{name: "latency_p50_ms", label: "schedule singly p50", unit: "ms", decimals: 3}
	figSingleP99       = figure{name: "latency_p99_ms", label: "schedule singly p99", unit: "ms", decimals: 3}
	figSingleMax       = figure{name: "latency_max_ms", label: "schedule singly max", unit: "ms", decimals: 3}
)

// Firing. The lateness is from the time at which a timer is due to the time at which a
// subscriber is told of it, by the clock of this machine. Draining is from the time at
// which the first timer is due to the last that is published. The CPU per timer is that
// of all: scheduled in bulk, fired and published.
var (
	figFired        = figure{name: "fired_per_s", label: "fired and published", unit: "/s"}
	figDrain        = figure{name: "drain_s", label: "first due to last published", unit: "s", decimals: 3}
	figFiredCPU     = figure{name: "cpu_us_per_fired", label: "CPU per timer fired and published", unit: "µs", decimals: 1}
	figTimerCPU     = figure{name: "cpu_us_per_timer", label: "CPU per timer", unit: "µs", decimals: 1}
	figTimerWritten = figure{name: "written_bytes_per_timer", label: "written per timer", unit: "B"}
)

// Timers of another tenant, while a herd is drained: how many there are, how many of
// them were due before the last of the herd was published, and how late they all were.
var (
	figOthers          = figure{name: "others", label: "timers of another tenant"}
	figOthersMeanwhile = figure{name: "others_meanwhile", label: "of these, due meanwhile"}
	figOtherLateP50    = figure{name: "other_lateness_p50_ms", label: "lateness of the others p50", unit: "ms", decimals: 3}
	figOtherLateMax    = figure{name: "other_lateness_max_ms", label: "lateness of the others max", unit: "ms", decimals: 3}
)
