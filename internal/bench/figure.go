package bench

// figure is something that a report can say: its name in JSON, what it is called in
// the table for people, and how many decimals mean something.
type figure struct {
	name     string
	label    string
	unit     string
	decimals int
}

// The circumstances.
var (
	figStore      = figure{name: "store", label: "store"}
	figWorkload   = figure{name: "workload", label: "workload"}
	figKeys       = figure{name: "keys", label: "keys"}
	figCommitters = figure{name: "committers", label: "committers"}
	figClaimers   = figure{name: "claimers", label: "claimers"}
	figInstances  = figure{name: "instances", label: "instances"}
	figPending    = figure{name: "pending", label: "pending messages"}
	figGOMAXPROCS = figure{name: "gomaxprocs", label: "GOMAXPROCS"}
	figGo         = figure{name: "go", label: "Go"}
)

// Loading and opening. The load rate covers the messages that this process put; a
// store that was loaded before has none.
var (
	figLoaded   = figure{name: "loaded", label: "loaded"}
	figLoadRate = figure{name: "loaded_per_s", label: "loaded", unit: "/s"}
	figOpen     = figure{name: "open_s", label: "open", unit: "s", decimals: 4}
	figReopen   = figure{name: "reopen", label: "opened again after"}
)

// Idling: the CPU that the process uses while nothing is due, in percent of one core.
var (
	figIdle        = figure{name: "idle_s", label: "idle", unit: "s", decimals: 1}
	figIdleCPU     = figure{name: "idle_cpu_ms", label: "CPU while idle", unit: "ms", decimals: 2}
	figIdlePercent = figure{name: "idle_cpu_percent", label: "CPU while idle", unit: "%", decimals: 3}
)

// Committing turns.
var (
	figCommits      = figure{name: "commits", label: "commits"}
	figDuration     = figure{name: "duration_s", label: "duration", unit: "s", decimals: 3}
	figThroughput   = figure{name: "commits_per_s", label: "commits", unit: "/s"}
	figCPU          = figure{name: "cpu_us_per_commit", label: "CPU per commit", unit: "µs", decimals: 2}
	figLatencyP50   = figure{name: "latency_p50_ms", label: "commit latency p50", unit: "ms", decimals: 3}
	figLatencyP99   = figure{name: "latency_p99_ms", label: "commit latency p99", unit: "ms", decimals: 3}
	figLatencyMax   = figure{name: "latency_max_ms", label: "commit latency max", unit: "ms", decimals: 3}
	figBytes        = figure{name: "bytes_per_commit", label: "written per commit", unit: "B"}
	figBytesCounted = figure{name: "bytes_counted_by", label: "written, counted by"}
)

// Claiming. Before is before messages were consumed.
var (
	figClaims         = figure{name: "claims", label: "claims"}
	figClaimP50Before = figure{name: "claim_p50_us_before", label: "claim latency p50 before", unit: "µs", decimals: 1}
	figClaimP99Before = figure{name: "claim_p99_us_before", label: "claim latency p99 before", unit: "µs", decimals: 1}
	figConsumed       = figure{name: "consumed", label: "consumed in between"}
	figClaimP50       = figure{name: "claim_p50_us", label: "claim latency p50", unit: "µs", decimals: 1}
	figClaimP99       = figure{name: "claim_p99_us", label: "claim latency p99", unit: "µs", decimals: 1}
	figClaimMax       = figure{name: "claim_max_us", label: "claim latency max", unit: "µs", decimals: 1}
	figClaimMisses    = figure{name: "claim_misses", label: "claims that found nothing"}
)

// The engine on its own, and the store in relation to it. A CPU ratio of 1.5 means
// that the store takes half as much again as its engine; a throughput ratio of 0.8
// that it does four fifths as many commits. The medians are over the rounds.
var (
	figRawCommits       = figure{name: "raw_commits", label: "raw commits"}
	figRawThroughput    = figure{name: "raw_commits_per_s", label: "raw commits", unit: "/s"}
	figRawCPU           = figure{name: "raw_cpu_us_per_commit", label: "raw CPU per commit", unit: "µs", decimals: 2}
	figRawP50           = figure{name: "raw_latency_p50_ms", label: "raw commit latency p50", unit: "ms", decimals: 3}
	figRawP99           = figure{name: "raw_latency_p99_ms", label: "raw commit latency p99", unit: "ms", decimals: 3}
	figRawMax           = figure{name: "raw_latency_max_ms", label: "raw commit latency max", unit: "ms", decimals: 3}
	figRawBytes         = figure{name: "raw_bytes_per_commit", label: "raw written per commit", unit: "B"}
	figRounds           = figure{name: "rounds", label: "rounds"}
	figCPURatio         = figure{name: "cpu_ratio", label: "CPU, store to raw", decimals: 3}
	figCPUMedian        = figure{name: "cpu_ratio_median", label: "CPU, store to raw, median", decimals: 3}
	figCPURounds        = figure{name: "cpu_ratio_rounds", label: "CPU, store to raw, rounds", decimals: 3}
	figThroughputRatio  = figure{name: "throughput_ratio", label: "throughput, store to raw", decimals: 3}
	figThroughputMedian = figure{name: "throughput_ratio_median", label: "throughput, store to raw, median", decimals: 3}
	figThroughputRounds = figure{name: "throughput_ratio_rounds", label: "throughput, store to raw, rounds", decimals: 3}
)

// Orchestrations. The latency is from the call that starts one to its result. What is on
// disk has grown by so much for each; what was written is more, as stores write a thing
// more than once.
var (
	figN              = figure{name: "n", label: "orchestrations"}
	figClients        = figure{name: "clients", label: "clients"}
	figProcesses      = figure{name: "processes", label: "processes"}
	figLength         = figure{name: "length", label: "length"}
	figWidth          = figure{name: "width", label: "width"}
	figOrchestrations = figure{name: "orchestrations_per_s", label: "orchestrations", unit: "/s", decimals: 1}
	figActivities     = figure{name: "activities_per_s", label: "activities", unit: "/s", decimals: 1}
	figSteps          = figure{name: "steps_per_s", label: "steps", unit: "/s", decimals: 1}
	figEvents         = figure{name: "events_per_s", label: "events", unit: "/s", decimals: 1}
	figResultP50      = figure{name: "latency_p50_ms", label: "start to result p50", unit: "ms", decimals: 3}
	figResultP99      = figure{name: "latency_p99_ms", label: "start to result p99", unit: "ms", decimals: 3}
	figResultMax      = figure{name: "latency_max_ms", label: "start to result max", unit: "ms", decimals: 3}
	figRaiseP50       = figure{name: "raise_p50_ms", label: "raise an event p50", unit: "ms", decimals: 3}
	figRaiseP99       = figure{name: "raise_p99_ms", label: "raise an event p99", unit: "ms", decimals: 3}
	figCPUEach        = figure{name: "cpu_us_per_orchestration", label: "CPU per orchestration", unit: "µs", decimals: 1}
	figDiskEach       = figure{name: "disk_bytes_per_orchestration", label: "on disk per orchestration", unit: "B"}
	figWrittenEach    = figure{name: "written_bytes_per_orchestration", label: "written per orchestration", unit: "B"}
)

// Instances that sleep. The lateness is from the time at which one is due to the time at
// which its code runs, by the clock of this machine; that of the turn ends when its
// message is claimed, by the clock of the store.
var (
	figOver        = figure{name: "over_s", label: "due over", unit: "s", decimals: 1}
	figLead        = figure{name: "lead_s", label: "started before", unit: "s", decimals: 1}
	figLateP50     = figure{name: "lateness_p50_ms", label: "lateness p50", unit: "ms", decimals: 3}
	figLateP99     = figure{name: "lateness_p99_ms", label: "lateness p99", unit: "ms", decimals: 3}
	figLateMax     = figure{name: "lateness_max_ms", label: "lateness max", unit: "ms", decimals: 3}
	figTurnLateP50 = figure{name: "turn_lateness_p50_ms", label: "lateness of the turn p50", unit: "ms", decimals: 3}
	figTurnLateP99 = figure{name: "turn_lateness_p99_ms", label: "lateness of the turn p99", unit: "ms", decimals: 3}
	figTurnLateMax = figure{name: "turn_lateness_max_ms", label: "lateness of the turn max", unit: "ms", decimals: 3}
	figOpenResult  = figure{name: "open_to_result_s", label: "open, and a first result", unit: "s", decimals: 4}
	figRSSReopened = figure{name: "rss_reopened_mib", label: "resident memory, opened again", unit: "MiB", decimals: 1}
)

// What the process and the store take in the end. With a raw engine, its memory is in
// there too.
var (
	figRSS     = figure{name: "rss_mib", label: "resident memory", unit: "MiB", decimals: 1}
	figRSSPeak = figure{name: "rss_peak_mib", label: "resident memory, peak", unit: "MiB", decimals: 1}
	figDisk    = figure{name: "store_mib", label: "store on disk", unit: "MiB", decimals: 1}
)
