// Package soak drives a mixed load for a long time, and measures whether it stays the same:
// throughput, latency, memory and disk at the end as at the beginning.
//
// It first finds the capacity of the machine: a closed loop of the same mix, in which sleeps
// and timers last a millisecond and each instance is deleted after its result, as retention
// will do later. Then operations begin in an open loop at a share of that rate. Of ten
// operations, three are orchestrations with an activity, two with a durable sleep, two that
// receive an event, two tenant timers and one an action. Every second instance with an
// activity is deleted after its result, every eighth timer is cancelled, and retention
// removes the rest.
//
// latency_… is from the time at which an orchestration should have started to its result,
// without the time for which it was to sleep; timer_lateness_… and action_lateness_… are from
// the time at which one is due to when the subscriber or the target is called.
//
// The run is divided into six windows: of ten minutes, in an hour. The verdicts compare the
// last of them with the second. series is a row for each sample; a chart has the same.
//
// An operation that was accepted and is not completed, an instance that is neither kept nor
// was deleted, a timer that is early, published twice or published although it was cancelled,
// and an action that runs twice are errors.
package soak
