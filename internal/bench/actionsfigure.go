package bench

// The circumstances. What is pending is all that waits in the store, with what earlier
// runs have left.
var (
	figActions        = figure{name: "n", label: "actions"}
	figSlots          = figure{name: "slots", label: "slots"}
	figActionsPending = figure{name: "pending", label: "pending actions"}
	figActionDisk     = figure{name: "disk_bytes_per_action", label: "on disk per pending action", unit: "B"}
)

// Ticks that find nothing due, beside what is pending.
var (
	figTicks   = figure{name: "ticks", label: "ticks with nothing due"}
	figTickP50 = figure{name: "tick_p50_us", label: "tick p50", unit: "µs", decimals: 1}
	figTickP99 = figure{name: "tick_p99_us", label: "tick p99", unit: "µs", decimals: 1}
	figTickMax = figure{name: "tick_max_us", label: "tick max", unit: "µs", decimals: 1}
)

// Actions that are due at the same time, for a target in the process that does nothing: from
// the beginning of the first tick until the last outcome is durable. The CPU per action is
// that of this; adding it is not in it.
var (
	figAdded         = figure{name: "added_per_s", label: "added", unit: "/s"}
	figAddedCPU      = figure{name: "cpu_us_per_added", label: "CPU per action added", unit: "µs", decimals: 1}
	figDispatched    = figure{name: "dispatched_per_s", label: "dispatched and settled", unit: "/s"}
	figDispatch      = figure{name: "dispatch_s", label: "first tick to last outcome", unit: "s", decimals: 3}
	figDispatchedCPU = figure{name: "cpu_us_per_dispatched", label: "CPU per action dispatched", unit: "µs", decimals: 1}
	figActionWritten = figure{name: "written_bytes_per_action", label: "written per action dispatched", unit: "B"}
)

// Webhooks that arrive over HTTP. The latency is what a sender waits for its answer. The CPU
// is that of both sides.
var (
	figRequests   = figure{name: "requests", label: "webhooks"}
	figBody       = figure{name: "body_bytes", label: "body of a webhook", unit: "B"}
	figRequested  = figure{name: "requests_per_s", label: "webhooks", unit: "/s"}
	figRequestCPU = figure{name: "cpu_us_per_request", label: "CPU per webhook, with its sender", unit: "µs", decimals: 1}
	figRequestP50 = figure{name: "latency_p50_ms", label: "webhook p50", unit: "ms", decimals: 3}
	figRequestP99 = figure{name: "latency_p99_ms", label: "webhook p99", unit: "ms", decimals: 3}
	figRequestMax = figure{name: "latency_max_ms", label: "webhook max", unit: "ms", decimals: 3}
)
