// Package vet finds nondeterminism in orchestration code, before a replay does.
//
// An orchestration is a function that is run again from its history, after a crash,
// a deploy or a long wait. It must then decide what it decided before. This package
// looks at the source and reports what will not: with the place, with what to use
// instead, and with the orchestration and the calls through which it is reached.
//
// # How to run it
//
//	abide vet ./...
//	go vet -vettool=$(which abidevet) ./...
//	abidevet ./...
//
// The program abidevet is in vet/cmd/abidevet. Programs use [Check], and drivers of
// go/analysis, such as golangci-lint's, use [Analyzer].
//
// # What is orchestration code
//
// The function that is given to abide.NewOrchestration, whether it is named, a
// method, a literal or in a variable; every function whose first parameter is an
// abide.Context, since only orchestrations have one; and all that these call, in
// the same package and in others, of the same module or not. Function literals
// belong to the function that they are written in, and so do functions that are
// handed on as values.
//
// Functions that take a context.Context, and are handed on as values, do not belong:
// these are activities and the bodies of abide.Step, and have side effects for a
// living.
//
// # What is found
//
//	category     what                                                  use instead
//	clock        time.Now, Since, Sleep, After, NewTimer, …,           abide.Now(ctx), abide.Sleep,
//	             context.WithTimeout                                   abide.NewTimer
//	random       math/rand, crypto/rand, hash/maphash, generators      abide.Rand(ctx), abide.NewID(ctx)
//	             of UUIDs
//	maporder     the order of a map that gets out of its loop          slices.Sorted(maps.Keys(m))
//	concurrency  go, channels, select, sync.WaitGroup, sync.Cond       abide.Go, abide.Select, futures
//	lock         sync.Mutex, Once, Pool, Map, …, sync/atomic           nothing: coroutines take turns
//	io           os, net, net/http, database/sql, os/exec, syscall,    an activity or abide.Step;
//	             log, slog, fmt.Print, client calls of package abide   abide.Logger(ctx)
//	environment  os.Getenv, Args, Hostname, flag, runtime.NumCPU, …,   input, or abide.Step
//	             time.Local, variables initialised with these
//	global       package-level variables that are written after the    input, or abide.Step
//	             package was initialised
//	pointer      %p and addresses from package reflect                 a name or an ID
//	allow        suppressions that are wrong or not needed
//
// A loop over a map is fine as long as it leaves behind what it would in any other
// order: it may fill another map or set, add integers, delete, look for the largest,
// and collect into a slice that is sorted before it is used. It is reported if it
// calls functions with an abide.Context, fills a slice that is not sorted, returns
// or keeps what depends on the element it meets first or last, builds a string, or
// adds floating-point numbers.
//
// What is in another package is reported at the call that leaves the package of the
// orchestration. Of other modules, the categories maporder, lock, global and pointer are
// left out: a library's cache behind a lock is seldom seen in its results. Of the
// rest, what is nearest to the call is reported. On one line, a category is reported
// once.
//
// # How to suppress a finding
//
// With a comment beside it, or on the line above, that has the category and a
// reason:
//
//	//abide:allow maporder whichever server answers is as good as any other
//	for server := range servers {
//
// It works also in the function of another package, for all who call it. A
// suppression without a reason, of a category that does not exist, or of nothing is
// itself reported.
//
// # What is not found
//
// The analysis follows names, not values. It does not see what is called through an
// interface, a field of a struct, or a function that another function returned; what
// is behind a pointer or a second name for the same slice; that a function sorts
// unless its name says so; nondeterminism inside the standard library beyond the
// table of names above; and variables of another module that change. It does not
// know that a caller sorts what a function returns unsorted. A clean report is no
// proof: replaying recorded histories, as package abidetest does, is the other half.
package vet
