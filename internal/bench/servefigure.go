package bench

// Instances that are started over HTTP. The latency is what a client waits for its answer,
// when the instance is durable. The CPU is that of both sides, and of running the instances,
// which goes on meanwhile.
var (
	figStarts     = figure{name: "starts", label: "starts"}
	figStarted    = figure{name: "starts_per_s", label: "starts", unit: "/s"}
	figCompleted  = figure{name: "completed_per_s", label: "completed meanwhile", unit: "/s"}
	figStartP50   = figure{name: "latency_p50_ms", label: "start p50", unit: "ms", decimals: 3}
	figStartP99   = figure{name: "latency_p99_ms", label: "start p99", unit: "ms", decimals: 3}
	figStartMax   = figure{name: "latency_max_ms", label: "start max", unit: "ms", decimals: 3}
	figStartCPU   = figure{name: "cpu_us_per_start", label: "CPU per start, with its client", unit: "µs", decimals: 1}
	figStartBytes = figure{name: "written_bytes_per_start", label: "written per start", unit: "B"}
)

// What the store holds when pages and lists are measured, with what earlier runs have left.
var (
	figAsleep        = figure{name: "instances", label: "instances asleep"}
	figAsleepRate    = figure{name: "instances_loaded_per_s", label: "instances loaded", unit: "/s"}
	figArmed         = figure{name: "timers", label: "timers armed"}
	figArmedRate     = figure{name: "timers_loaded_per_s", label: "timers loaded", unit: "/s"}
	figPages         = figure{name: "pages", label: "times that each page is asked for"}
	figOverviewFirst = figure{name: "page_first_ms", label: "first page, the first time", unit: "ms", decimals: 3}
)

// Pages and lists, asked for one at a time, to the last byte. The slowest list is the query
// with the highest p99.
var (
	figOverviewPage  = timing("page", "first page")
	figInstancesPage = timing("page_instances", "page of instances")
	figTimersPage    = timing("page_timers", "page of timers")
	figInstancePage  = timing("page_instance", "page of an instance")
	figLists         = figure{name: "lists", label: "lists"}
	figList          = timing("list", "list")
	figListMax       = figure{name: "list_max_ms", label: "list max", unit: "ms", decimals: 3}
	figListSlowest   = figure{name: "list_slowest", label: "slowest list"}
)

// Streams: from the commit of a change until it has reached the last of all clients. The
// memory is that of both sides.
var (
	figStreams    = figure{name: "streams", label: "streams"}
	figChanges    = figure{name: "changes", label: "changes"}
	figReach      = timing("stream", "change to all streams")
	figReachMax   = figure{name: "stream_max_ms", label: "change to all streams max", unit: "ms", decimals: 3}
	figRSSStreams = figure{name: "rss_streams_mib", label: "resident memory, with all streams", unit: "MiB", decimals: 1}
	figStreamEach = figure{name: "stream_kib", label: "memory of a stream, with its client", unit: "KiB", decimals: 1}
)

// timed are the figures of how long something took.
type timed struct{ p50, p99 figure }

func timing(name, label string) timed {
	return timed{
		p50: figure{name: name + "_p50_ms", label: label + " p50", unit: "ms", decimals: 3},
		p99: figure{name: name + "_p99_ms", label: label + " p99", unit: "ms", decimals: 3},
	}
}

func (r *Report) timed(f timed, h *Histogram) {
	r.number(f.p50, millis(h.Quantile(0.50)))
	r.number(f.p99, millis(h.Quantile(0.99)))
}
