// Package ratelimit counts events by who causes them: requests of callers, and failed proofs
// of identity of addresses. It also thins out the log lines that outsiders can cause at will.
package ratelimit
