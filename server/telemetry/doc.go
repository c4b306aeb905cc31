// Package telemetry is where a process shows what it measures: to Prometheus, to a
// collector of OpenTelemetry, and to its own page, which draws the last ten minutes.
//
// All of it comes from one set of instruments: those that package meter names. A process
// that does nothing is measured at next to no cost: every two seconds the differences of
// a few counters are recorded, and the store is read only as often as samples are requested.
package telemetry
