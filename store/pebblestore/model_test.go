package pebblestore

import (
	"testing"

	"github.com/abidehq/abide/store/storetest"
)

func TestModel(t *testing.T) {
	t.Parallel()
	storetest.RunModel(t, newBackend)
}
