// Package workers measures what workers cost their server that are connected and have nothing to do.
package workers
