// Package bench is the harness behind "abide bench": it opens a store, runs a [Workload] on
// it, and reports figures.
//
// A workload is a type with three methods: Validate checks its options, Open starts what
// serves the store, and Measure runs the load and adds figures to the report. One that
// fills the store first is a [Loader]; its store can be reopened, cleanly or after the
// process that loaded it was killed, before it is measured. [Measure] does the rest: it
// opens and closes the store, profiles, and reports memory, disk and opening time.
//
// Workloads have the same few tools:
//
//   - [Run.Loop] repeats an operation with many workers, closed (each starts the next when
//     the one before has returned) or open (operations begin at a fixed rate), until enough
//     were done or the time is up, and returns a [Sample]: count, time, CPU, bytes written
//     and a histogram of latencies. A warm-up is run and not counted.
//   - [Run.Batches] loads.
//   - [Ledger] holds when numbered things were due, and how late each of them came.
//   - [Run.Guard] and [Run.Await] end a run in which nothing happens any more.
//
// Everything that a workload stores has the tenant, queue or name [Name], or one that
// begins with it, so that nothing else in the store is touched.
//
// # Figures
//
// A figure is a name and a value. The name is the key in JSON and says the unit:
// latency_p99_ms, orchestrations_per_s, cpu_us_per_commit. The table for people is made of
// the same names. Figures that several workloads have:
//
//   - workload, store (the scheme of its URL), gomaxprocs, go, warmup_s
//   - loaded, loaded_per_s: what was loaded by this process, and how fast
//   - reopen, open_to_result_s, rss_reopened_mib: how the store was opened again, how long
//     that took until a first result, and the memory then
//   - idle_s, idle_cpu_ms, idle_cpu_percent: the CPU that the process used while nothing was
//     due, in percent of one core
//   - duration_s, cpu_us_per_…, written_bytes_per_…, bytes_counted_by: of what is measured;
//     CPU is that of the whole process, and bytes are those that reached the disk
//     (write_bytes) or, where that is not counted, those of system calls (wchar)
//   - rss_mib, rss_peak_mib: memory after loading, or else at the end
//   - store_mib, open_s: the size of the store, and how long it took to open it and start
//     what serves it
//
// A figure that cannot be measured is left out.
//
// Latencies are counted by hdrhistogram-go, with two significant digits.
package bench
