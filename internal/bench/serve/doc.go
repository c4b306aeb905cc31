// Package serve measures a server as "abide serve" runs it, with page and audit log, on a
// port of this machine. Clients in the same process start instances, read pages and lists
// while the store is full, and follow changes, all of it over HTTP. Answers are checked: an
// error, an answer without what must be in it, an instance whose start was answered and that
// has no result, and a change that does not reach a stream end the run.
//
// latency_… is what a client waits until its start is answered, when the instance is
// durable; the CPU of a start is that of both sides, and of running the instance. page_…
// and list_… are requests one at a time, to the last byte; list_slowest is the query with
// the highest p99. stream_… is from the commit of a change until it has reached the last of
// all clients, stream_kib the memory of a stream on both sides.
package serve
