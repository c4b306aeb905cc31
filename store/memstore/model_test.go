package memstore_test

import (
	"testing"

	"github.com/abidehq/abide/store/storetest"
)

// TestModel compares the model with itself. That says nothing about the store, and
// all about the comparison: it is the same each time, and asks for nothing that the
// contract leaves open.
func TestModel(t *testing.T) {
	t.Parallel()
	storetest.RunModel(t, newBackend)
}
