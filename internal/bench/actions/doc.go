// Package actions measures package action: ticks that find nothing due (tick_…), actions
// that are due for a target in the same process that does nothing (added_…, dispatched_…),
// and webhooks that senders in the same process send over HTTP to package hook (requests_…,
// latency_…). An action that is run twice, or not at all, is an error.
//
// dispatch_s is from the first tick until the last outcome is durable; adding the actions is
// not in it. The latency of a webhook is what a sender waits for its answer; the CPU is that
// of both sides.
package actions
