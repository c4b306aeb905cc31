// Package allow has suppressions.
package allow

import (
	"context"
	"os"
	"time"

	"github.com/abidehq/abide"
)

func flow(ctx abide.Context, in map[string]int) (int, error) {
	_ = time.Now() //abide:allow clock the value is thrown away
	//abide:allow clock the value is thrown away, too
	_ = time.Now()
	//abide:allow clock both are thrown away
	//abide:allow environment both are thrown away
	_, _ = time.Now(), os.Getenv("X")
	// An explanation that needs more than a line.
	//abide:allow maporder whichever comes first
	// is good enough.
	for k := range in {
		return len(k), nil
	}

	/* want `unknown category "": write //abide:allow <category> <reason>, with a category of clock, random, maporder, concurrency, lock, io, environment, global, pointer` */ //abide:allow
	/* want `unknown category "time"` */ //abide:allow time it is not a category
	/* want `a suppression needs a reason: write //abide:allow clock <reason>` */ //abide:allow clock
	_ = time.Now()                                                                // want `time.Now uses the wall clock`
	/* want `this allows nothing: there is no finding of category clock here, so remove it` */ //abide:allow clock nothing is here
	_ = in
	/* want `this allows nothing: there is no finding of category random` */ //abide:allow random another category
	_ = time.Now()                                                           // want `time.Now uses the wall clock`

	_ = 1          /* want `this allows nothing` */ //abide:allow clock it is for its own line
	_ = time.Now() // want `time.Now uses the wall clock`
	//abide:allow clock it is two lines above // want `this allows nothing`

	_ = time.Now() // want `time.Now uses the wall clock`

	_, _ = abide.Step(ctx, "step", func(context.Context) (time.Time, error) {
		return time.Now(), nil /* want `this allows nothing` */ //abide:allow clock a step may do so anyway
	})
	//abide:allowance is another word
	return 0, nil
}

func helper() time.Time { return time.Now() } //abide:allow clock whoever calls this knows
