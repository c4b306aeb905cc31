// Package timers measures tenant timers, through nothing but package timer: in bulk, and
// singly by clients in the same process. They are published to a subscriber in the process,
// which measures how late each is. A timer that fires early, is published twice, or is not
// published is an error.
//
// scheduled_… is scheduling in bulk, scheduled_single_… and latency_… scheduling singly.
// lateness_… is from the time at which a timer is due to the time at which the subscriber
// receives it, by the clock of this machine. drain_s is from the time at which the first
// timer is due to the last that is published; cpu_us_per_timer is that of all: scheduled in
// bulk, fired and published. With a herd, others counts timers of another tenant,
// others_meanwhile those of them that were due before the last of the herd was published,
// and other_lateness_… how late they were.
package timers
