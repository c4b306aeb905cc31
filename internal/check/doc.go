// Package check holds the assertions of all tests.
//
//	check.OK(t, err)                                  // fatal unless err is nil
//	check.Equal(t, "status", got.Status, timer.Fired) // by go-cmp, with a diff
//	check.Error(t, err, store.ErrNotFound, "order-1") // errors.Is, and the words of the text
//	check.Eventually(t, "the server is up", isUp)     // polls in real time
//	check.Golden(t, "testdata/format_1.txt", text)    // go test -update rewrites the file
//
// OK and Eventually end the test, as nothing after them makes sense; the others report and
// go on. Functions that end the test must run on its own goroutine.
//
// It imports no other package of the module, so that the tests of every package can use
// it. Stores, clocks, recorders and faults are in internal/rig.
package check
