package store

import (
	"context"
	"fmt"
	"maps"
	"net/url"
	"slices"
	"strings"
	"sync"
)

// backends are the packages of this module that register a scheme, for the error that a
// program gets which does not import them.
var backends = map[string]string{
	"memory":     "github.com/abidehq/abide/store/memstore",
	"pebble":     "github.com/abidehq/abide/store/pebblestore",
	"postgres":   "github.com/abidehq/abide/store/pgstore",
	"postgresql": "github.com/abidehq/abide/store/pgstore",
	"redis":      "github.com/abidehq/abide/store/redisstore",
	"rediss":     "github.com/abidehq/abide/store/redisstore",
	"shards":     "github.com/abidehq/abide/store/shardstore",
	"sqlite":     "github.com/abidehq/abide/store/sqlitestore",
}

// Opener opens the store that a URL names. It gets the options that it declared
// and no others.
type Opener func(ctx context.Context, u *url.URL) (Store, error)

// Scheme is how a kind of store is opened by URL.
type Scheme struct {
	// Open opens the store.
	Open Opener

	// Options are the names that may stand in the query of the URL.
	Options []string

	// Example is a URL of this scheme, shown in error messages.
	Example string
}

var schemes = struct {
	sync.RWMutex
	byName map[string]Scheme
}{byName: map[string]Scheme{}}

// Register makes a scheme known to [Open]. A backend does so in an init function;
// registering a name twice, or one that is not in lower case, as the schemes of
// URLs are, is a mistake in the program and panics.
func Register(name string, s Scheme) {
	if name == "" || name != strings.ToLower(name) {
		panic(fmt.Sprintf("store: scheme %q is not in lower case", name))
	}
	schemes.Lock()
	defer schemes.Unlock()
	if _, dup := schemes.byName[name]; dup {
		panic(fmt.Sprintf("store: scheme %q is registered twice", name))
	}
	schemes.byName[name] = s
}

// Open opens the store that a URL names, such as pebble:///var/lib/abide. The
// package of the backend must be imported, if only for its registration. A
// malformed URL, an unknown scheme and an unknown option give an error that
// matches [ErrInvalid] and names what is allowed.
func Open(ctx context.Context, rawURL string) (Store, error) {
	u, err := url.Parse(rawURL)
	if err != nil {
		// The parser's own words may repeat a password.
		return nil, invalid("open", "malformed URL (is every special character percent-encoded?); a URL looks like %s", examples())
	}
	shown := showURL(u)
	if u.Scheme == "" {
		return nil, invalid("open", "URL %q has no scheme; a URL looks like %s", shown, examples())
	}
	schemes.RLock()
	scheme, ok := schemes.byName[u.Scheme]
	schemes.RUnlock()
	if path := backends[u.Scheme]; !ok && path != "" {
		return nil, invalid("open", "the backend of %q is not part of this program; add to its imports: _ %q", shown, path)
	}
	if !ok {
		return nil, invalid("open", "unknown scheme %q in %q; known are: %s (is the backend's package imported?)", u.Scheme, shown, names())
	}
	query, err := url.ParseQuery(u.RawQuery)
	if err != nil {
		return nil, invalid("open", "malformed options in %q: %v", shown, err)
	}
	for _, name := range slices.Sorted(maps.Keys(query)) {
		if !slices.Contains(scheme.Options, name) {
			return nil, invalid("open", "unknown option %q in %q; %s: knows %s", name, shown, u.Scheme, list(scheme.Options))
		}
		if len(query[name]) > 1 {
			return nil, invalid("open", "option %q is given twice in %q", name, shown)
		}
	}
	return scheme.Open(ctx, u)
}

// InvalidOption returns the [ErrInvalid] of an option whose value an opener does
// not accept.
func InvalidOption(u *url.URL, name, allowed string) error {
	return invalid("open", "option %q in %q is %q; allowed: %s", name, showURL(u), u.Query().Get(name), allowed)
}

// InvalidURL returns the [ErrInvalid] of a URL that an opener does not accept.
func InvalidURL(u *url.URL, format string, args ...any) error {
	return invalid("open", "%q: %s", showURL(u), fmt.Sprintf(format, args...))
}

// showURL returns a URL for an error message: without a password, which may stand
// before the host or among the options.
func showURL(u *url.URL) string {
	shown := *u
	shown.RawQuery = ""
	return shown.Redacted()
}

func names() string {
	schemes.RLock()
	defer schemes.RUnlock()
	return list(slices.Sorted(maps.Keys(schemes.byName)))
}

func examples() string {
	schemes.RLock()
	defer schemes.RUnlock()
	var urls []string
	for _, name := range slices.Sorted(maps.Keys(schemes.byName)) {
		urls = append(urls, schemes.byName[name].Example)
	}
	if len(urls) == 0 {
		return "scheme://place (no backend is imported)"
	}
	return strings.Join(slices.Compact(urls), " or ") // names of one backend stand together
}

func list(names []string) string {
	if len(names) == 0 {
		return "none"
	}
	return strings.Join(names, ", ")
}
