// Package facts uses what is not deterministic in other packages.
package facts

import (
	"example.com/lib"

	"github.com/abidehq/abide"
)

var _ = abide.NewOrchestration("order", order)

func order(ctx abide.Context, in int) (int, error) {
	_ = lib.Stamp() // want `^time.Now uses the wall clock: use abide.Now\(ctx\) \(in orchestration "order", through lib.Stamp -> lib.now\)$`
	helper()
	_ = lib.Pure(in)
	_ = lib.Allowed()
	_ = lib.Flow(ctx) // reported in its own package
	var clock lib.Clock
	_ = clock.Now() // want `\(in orchestration "order", through lib.Clock.Now\)`
	lib.Each([]int{1}, func(int) { helper() })
	_ = lib.Any(map[string]int{}) // want `iteration over a map in random order returns .*through lib.Any\)`
	lib.Two()                     // want `time.Sleep uses` `println prints`
	_ = lib.Start                 // want `Start is initialised anew in each process: time.Now uses .*through lib.Start\)`
	_ = lib.Read()                // want `os.Getenv depends on .*through lib.Read\)`
	_ = lib.Level                 // want `Level \(written at lib.go:\d+\) is a package-level variable that changes.*through lib.Level\)`
	lib.Level = 2                 // want `Level`
	lib.Size = 2                  // want `lib.Size is a package-level variable that changes`
	method := clock.Now
	_ = method() // want `through lib.Clock.Now\)`
	return lib.Size, nil
}

func helper() {
	_ = lib.Deep() // want `\(in orchestration "order", through helper -> lib.Deep -> deep.Second\)$`
}
