// Package telemetry is where a process shows what it measures: to Prometheus, to a
// collector of OpenTelemetry, and to its own page, which draws the last ten minutes.
//
// All of it comes from one set of instruments: those that package meter names. A process
// that does nothing is measured at next to no cost: every two seconds the differences of
// a few counters are noted, and the store is asked only as often as somebody looks.
package telemetry
