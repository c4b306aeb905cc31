// Package bench has the commands that measure; the workloads are in internal/bench.
package bench
