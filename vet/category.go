package vet

// Category is a kind of nondeterminism: what a finding is filed under, and what a
// suppression names.
type Category string

// The categories of findings.
const (
	Clock       Category = "clock"       // the time of the machine, and waiting for it
	Random      Category = "random"      // values that are drawn anew on replay
	MapOrder    Category = "maporder"    // the order of a map that gets out of its loop
	Concurrency Category = "concurrency" // goroutines, channels, and waiting for them
	Lock        Category = "lock"        // memory that is shared with other goroutines
	IO          Category = "io"          // files, network, processes, databases, output
	Environment Category = "environment" // what differs from machine to machine
	Global      Category = "global"      // package-level variables that change
	Pointer     Category = "pointer"     // addresses in memory
	Allow       Category = "allow"       // suppressions that are wrong or not needed
)

// trait is what is common to the findings of a category.
type trait struct {
	does    string // the middle of a message: time.Now … : use …
	instead string // the end of it

	// confined categories stop at the end of a module. A lock, a cache in a variable,
	// a loop over a map or a format for addresses within another library is
	// nearly always something that its results do not show, and that its user cannot
	// mend.
	confined bool
}

// traits has every category that a suppression can name, in the order in which
// they are documented.
var traits = map[Category]trait{
	Clock: {
		does:    "uses the wall clock",
		instead: "use abide.Now(ctx), abide.Sleep or abide.NewTimer",
	},
	Random: {
		does:    "is random, and replay gets another value",
		instead: "use abide.Rand(ctx) or abide.NewID(ctx)",
	},
	MapOrder: {
		does:     "has the random order of a map",
		instead:  "iterate over slices.Sorted(maps.Keys(m))",
		confined: true,
	},
	Concurrency: {
		does:    "depends on the order in which goroutines run",
		instead: "use abide.Go, abide.Select and futures",
	},
	Lock: {
		does:     "is for memory shared between goroutines, which run in any order",
		instead:  "leave it out, since an orchestration's coroutines run one at a time, and use abide.Go and futures",
		confined: true,
	},
	IO: {
		does:    "does I/O, which replay repeats",
		instead: "do it in an activity or in abide.Step",
	},
	Environment: {
		does:    "depends on the process and the machine it runs on",
		instead: "pass the value as input, or read it in abide.Step",
	},
	Global: {
		does:     "is a package-level variable that changes",
		instead:  "pass the value as input, or read it in abide.Step",
		confined: true,
	},
	Pointer: {
		does:     "depends on an address in memory",
		instead:  "use a name or an ID of the value",
		confined: true,
	},
}

// say makes the text of a finding: what is wrong, and what to use instead.
func (c Category) say(subject string) string {
	return subject + " " + traits[c].does + ": " + traits[c].instead
}
