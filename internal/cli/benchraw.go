package cli

import (
	"maps"
	"net/url"
	"path/filepath"
	"slices"
	"strings"

	"github.com/abidehq/abide/internal/bench"
	"github.com/abidehq/abide/store/pebblestore"
)

// rawEngines opens, in an empty folder, the engine below the stores of a scheme. It
// has a row for each scheme whose engine can be measured on its own.
var rawEngines = map[string]func(dir string) (bench.RawDB, error){
	"pebble": func(dir string) (bench.RawDB, error) { return pebblestore.OpenRaw(dir) },
}

// setRaw makes a benchmark measure the engine of its store too, in a folder beside
// that of the store.
func setRaw(o *bench.Options) error {
	scheme, _, _ := strings.Cut(o.Store, ":")
	open, ok := rawEngines[scheme]
	if !ok {
		return usage("--raw is not possible with a %s: store, which has no engine to run on its own; it is with: %s",
			scheme, strings.Join(slices.Sorted(maps.Keys(rawEngines)), ", "))
	}
	u, err := url.Parse(o.Store)
	if err != nil {
		return usage("malformed URL of the store")
	}
	o.OpenRaw = open
	o.RawParent = filepath.Dir(filepath.Clean(u.Host + u.Path)) // they all are scheme://path
	return nil
}
