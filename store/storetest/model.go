package storetest

import (
	"context"
	"flag"
	"fmt"
	"testing"

	"pgregory.net/rapid"

	"github.com/abidehq/abide/internal/base"
	"github.com/abidehq/abide/internal/testenv"
	"github.com/abidehq/abide/store"
	"github.com/abidehq/abide/store/memstore"
)

// RunModel compares the backends of factory with the model, memstore: it does the
// same random operations to both, and compares what they return and what can be
// observed after each. What the cases of Run say one by one must hold here in any
// mixture.
//
// A failure is shrunk to few and small operations, and printed one to a line, with
// what the backend did and what the model did instead. To see it again, give the
// test the seed or the file that the failure names:
//
//	go test ./store/pebblestore -run '^TestModel$/^round_1$' -rapid.seed=123456789
//	go test ./store/pebblestore -run '^TestModel$/^round_1$' -rapid.failfile=testdata/rapid/…
//
// A file in testdata/rapid is also tried first by every later run of that test, until
// it is removed. Both are good only as long as operations are drawn as they are now:
// what a failure taught belongs into a case of its own.
//
// The flags -rapid.checks and -rapid.steps say how many lists of operations there are
// and about how long each is, and -rapid.shrinktime how long to shrink a failure. With
// ABIDE_TEST_LONG set there are many more.
func RunModel(t *testing.T, factory Factory) { runModel(t, factory, false) }

// RunModelOneByOne is RunModel with claims of one message at a time. It is for a
// store that was opened with limits so small that it may deliver fewer messages than
// it could, as the contract allows for a key with very many.
func RunModelOneByOne(t *testing.T, factory Factory) { runModel(t, factory, true) }

// longRounds is how many times as much a long run does.
const longRounds = 20

// racedChecks is how many lists of operations there are under the race detector, unless a
// flag says: what it finds it finds in few, and the rest is what the other runs are for.
const racedChecks = "20"

// init runs before the flags are read, so that one that is given counts, and before any test
// reads what the flag says.
func init() {
	if testenv.Raced && !testenv.Long() {
		if err := flag.Set("rapid.checks", racedChecks); err != nil {
			panic(err)
		}
	}
}

func runModel(t *testing.T, factory Factory, oneByOne bool) {
	t.Helper()
	rounds := 1
	if testenv.Long() {
		rounds = longRounds
	}
	for i := range rounds {
		t.Run(fmt.Sprintf("round %d", i+1), func(t *testing.T) {
			t.Parallel()
			steps := 0
			rapid.Check(t, func(r *rapid.T) {
				c := newComparison(t, r, factory)
				c.oneByOne = oneByOne
				c.run()
				steps += c.steps
			})
			t.Logf("%d steps and no difference", steps)
		})
	}
}

// newComparison opens a backend and a model whose clocks show the same time.
func newComparison(t *testing.T, r *rapid.T, factory Factory) *comparison {
	ctx, cancel := context.WithTimeout(r.Context(), caseLimit)
	r.Cleanup(cancel)
	another := func() *Backend { return factory(checkTB{t, r}) }
	c := &comparison{t: r, ctx: ctx, backend: another(), another: another, named: map[store.Key]bool{}, namedRecords: map[store.RecordKey]bool{}}
	stats, err := c.backend.Store.Stats(ctx)
	if err != nil {
		r.Fatalf("stats: %v", err)
	}
	c.start = stats.Now
	c.clock = base.NewManual(c.start)
	c.model = memstore.New(memstore.Options{Clock: c.clock})
	r.Cleanup(func() {
		if err := c.model.Close(); err != nil {
			r.Errorf("close the model: %v", err)
		}
	})
	return c
}

// checkTB is what a factory gets: its store is closed at the end of the check, not of
// the test, and its failures are those of the check.
type checkTB struct {
	testing.TB
	check *rapid.T
}

func (t checkTB) Cleanup(f func())                  { t.check.Cleanup(f) }
func (t checkTB) Context() context.Context          { return t.check.Context() }
func (t checkTB) Error(args ...any)                 { t.check.Error(args...) }
func (t checkTB) Errorf(format string, args ...any) { t.check.Errorf(format, args...) }
func (t checkTB) Fail()                             { t.check.Fail() }
func (t checkTB) FailNow()                          { t.check.FailNow() }
func (t checkTB) Failed() bool                      { return t.check.Failed() }
func (t checkTB) Fatal(args ...any)                 { t.check.Fatal(args...) }
func (t checkTB) Fatalf(format string, args ...any) { t.check.Fatalf(format, args...) }
func (t checkTB) Log(args ...any)                   { t.check.Log(args...) }
func (t checkTB) Logf(format string, args ...any)   { t.check.Logf(format, args...) }
