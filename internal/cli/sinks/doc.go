// Package sinks has the commands about sinks and deliveries.
package sinks
