// Package workers has programs elsewhere run orchestrations and activities for a server: they connect to it
// over gRPC, and need neither the store nor its password. docs/workers.md says how to use it, and the
// protocol is in internal/workerpb/worker.proto.
package workers
