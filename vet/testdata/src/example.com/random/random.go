// Package random has randomness in orchestration code.
package random

import (
	crand "crypto/rand"
	"hash/maphash"
	oldrand "math/rand"
	"math/rand/v2"

	"github.com/abidehq/abide"
	"github.com/google/uuid"
)

var Draw = abide.NewOrchestration("draw", draw)

func draw(ctx abide.Context, in int) (int, error) {
	_ = rand.IntN(6)                // want `rand.IntN is random, and replay gets another value: use abide.Rand\(ctx\) or abide.NewID\(ctx\) \(in orchestration "draw"\)`
	_ = rand.N(6)                   // want `rand.N is random`
	_ = rand.New(rand.NewPCG(1, 2)) // want `rand.NewPCG is random`
	_ = oldrand.Intn(6)             // want `rand.Intn is random`
	_ = oldrand.NewSource(1)        // want `rand.NewSource is random`
	_, _ = crand.Read(nil)          // want `rand.Read is random`
	_ = crand.Reader                // want `rand.Reader is random`
	_ = crand.Text()                // want `rand.Text is random`
	_ = maphash.MakeSeed()          // want `maphash.MakeSeed is random`
	_ = uuid.New()                  // want `uuid.New is random`
	_ = uuid.NewString()            // want `uuid.NewString is random`
	_, _ = uuid.NewV7()             // want `uuid.NewV7 is random`

	// What is made from its arguments is the same each time, and the source of the
	// history draws the same again.
	space, _ := uuid.Parse("6ba7b810-9dad-11d1-80b4-00c04fd430c8")
	_ = uuid.NewSHA1(space, []byte("x"))
	r := abide.Rand(ctx)
	r.Shuffle(3, func(i, j int) {})
	_ = abide.NewID(ctx)
	return r.IntN(in), nil
}
