// Package lib has helpers, some of which are not deterministic.
package lib

import (
	"math/rand/v2"
	"os"
	"time"

	"example.com/deep"
	"github.com/abidehq/abide"
)

// Stamp reads the clock through another function.
func Stamp() time.Time { return now() } // want Stamp:`clock through lib.Stamp -> lib.now`

func now() time.Time { return time.Now() }

// Deep reads the clock in another package.
func Deep() int { return deep.Second() } // want Deep:`clock through lib.Deep -> deep.Second`

// Pure is fine.
func Pure(n int) int { return n + 1 }

// Allowed is allowed.
func Allowed() string {
	return os.Getenv("X") //abide:allow environment it is the same on all machines
}

// Flow is orchestration code itself.
func Flow(ctx abide.Context) int { // want Flow:"random through lib.Flow"
	return rand.IntN(6) // want `rand.IntN is random.*\(in Flow, which takes an abide.Context\)$`
}

// Clock has methods.
type Clock struct{}

// Now reads the clock.
func (*Clock) Now() time.Time { return time.Now() } // want Now:`clock through lib.Clock.Now`

// Each calls what it is given.
func Each[T any](in []T, f func(T)) {
	for _, v := range in {
		f(v)
	}
}

// Any is generic and takes the first of a map.
func Any[K comparable, V any](m map[K]V) K { // want Any:`maporder through lib.Any`
	for k := range m {
		return k
	}
	panic("empty")
}

// Two does two things.
func Two() { // want Two:`clock through lib.Two, io through lib.Two -> lib.print`
	time.Sleep(1)
	print()
}

func print() { println() }

// Start is the time of the process.
var Start = time.Now() // want Start:`clock through lib.Start`

// Read is a variable with a function.
var Read = func() string { return os.Getenv("X") } // want Read:`environment through lib.Read`

// Level changes.
var Level = 1 // want Level:`global through lib.Level`

// SetLevel changes it.
func SetLevel(n int) { Level = n } // want SetLevel:`global through lib.SetLevel`

// Size does not.
var Size = 1
