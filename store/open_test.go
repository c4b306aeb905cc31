package store_test

import (
	"context"
	"errors"
	"net/url"
	"os"
	"strings"
	"testing"

	"github.com/abidehq/abide/store"
)

// errOpened is what the openers of these tests return, so that a test can see
// that its URL got as far as the opener.
var errOpened = errors.New("opened")

func init() {
	store.Register("opentest", store.Scheme{
		Open:    func(context.Context, *url.URL) (store.Store, error) { return nil, errOpened },
		Options: []string{"cache", "sync"},
		Example: "opentest:///var/lib/example",
	})
	store.Register("opentest-plain", store.Scheme{
		Open:    func(context.Context, *url.URL) (store.Store, error) { return nil, errOpened },
		Example: "opentest-plain://",
	})
}

func TestOpenHandsTheURLToTheSchemesOpener(t *testing.T) {
	t.Parallel()
	var got *url.URL
	store.Register("opentest-seen", store.Scheme{
		Open: func(_ context.Context, u *url.URL) (store.Store, error) {
			got = u
			return nil, errOpened
		},
		Options: []string{"sync"},
		Example: "opentest-seen://host/db",
	})
	if _, err := store.Open(t.Context(), "opentest-seen://user:pw@host/db?sync=off"); !errors.Is(err, errOpened) {
		t.Fatalf("Open: %v, want the opener's own error", err)
	}
	if want := "opentest-seen://user:pw@host/db?sync=off"; got.String() != want {
		t.Errorf("the opener got %q, want %q: it needs the password too", got, want)
	}
}

func TestOpenAcceptsEveryDeclaredOption(t *testing.T) {
	t.Parallel()
	for _, rawURL := range []string{
		"opentest:///x", "opentest:///x?cache=1", "opentest:///x?sync=off&cache=1", "opentest:///x?sync=",
		"OPENTEST:///x", "opentest-plain://",
	} {
		if _, err := store.Open(t.Context(), rawURL); !errors.Is(err, errOpened) {
			t.Errorf("Open(%q): %v, want the opener to be called", rawURL, err)
		}
	}
}

func TestOpenSaysWhatIsWrongAndWhatIsAllowed(t *testing.T) {
	t.Parallel()
	for _, tc := range []struct {
		name, url string
		want      []string
	}{
		{"an unknown scheme names the known ones", "opentset:///x", []string{`"opentset"`, "opentest", "opentest-plain", "imported?"}},
		{"a missing scheme shows examples", "/var/lib/abide", []string{"no scheme", "opentest:///var/lib/example", "opentest-plain://"}},
		{"an empty URL shows examples", "", []string{"no scheme", "opentest:///var/lib/example"}},
		{"a malformed URL shows examples", "opentest://[::1", []string{"malformed", "opentest:///var/lib/example"}},
		{"an unknown option names the allowed ones", "opentest:///x?snyc=off", []string{`"snyc"`, "cache, sync"}},
		{"a scheme without options says so", "opentest-plain:///x?a=1", []string{`"a"`, "none"}},
		{"an option given twice is named", "opentest:///x?sync=on&sync=off", []string{`"sync"`, "twice"}},
		{"malformed options are an error", "opentest:///x?sync=%zz", []string{"malformed options"}},
		{"a semicolon does not hide an option", "opentest:///x?sync=on;cache=1", []string{"malformed options"}},
	} {
		t.Run(tc.name, func(t *testing.T) {
			t.Parallel()
			s, err := store.Open(t.Context(), tc.url)
			if s != nil || !errors.Is(err, store.ErrInvalid) {
				t.Fatalf("Open(%q) = %v, %v; want ErrInvalid", tc.url, s, err)
			}
			wantText(t, err, tc.want...)
		})
	}
}

// TestOpenShowsABackendOfTwoSchemesOnce, such as postgres and postgresql.
func TestOpenShowsABackendOfTwoSchemesOnce(t *testing.T) {
	t.Parallel()
	for _, name := range []string{"opentwice", "opentwices"} {
		store.Register(name, store.Scheme{
			Open: func(context.Context, *url.URL) (store.Store, error) { return nil, errOpened }, Example: "opentwice://host",
		})
	}
	_, err := store.Open(t.Context(), "/var/lib/abide")
	if n := strings.Count(err.Error(), "opentwice://host"); n != 1 {
		t.Errorf("the example is there %d times: %v", n, err)
	}
}

func TestOpenNamesTheImportOfABackendThatIsNotLinked(t *testing.T) {
	t.Parallel()
	for scheme, backend := range map[string]string{
		"memory": "memstore", "pebble": "pebblestore", "sqlite": "sqlitestore", "redis": "redisstore", "rediss": "redisstore",
		"postgres": "pgstore", "postgresql": "pgstore", "shards": "shardstore",
	} {
		if _, err := os.Stat(backend); err != nil {
			t.Error(err)
		}
		_, err := store.Open(t.Context(), scheme+"://user:hunter2@host/x")
		if !errors.Is(err, store.ErrInvalid) {
			t.Fatalf("Open of %s: %v, want ErrInvalid", scheme, err)
		}
		wantText(t, err, `_ "github.com/abidehq/abide/store/`+backend+`"`)
		if strings.Contains(err.Error(), "hunter2") {
			t.Errorf("the error shows the password: %v", err)
		}
	}
}

func TestOpenDoesNotRepeatAPassword(t *testing.T) {
	t.Parallel()
	for _, rawURL := range []string{
		"opentset://user:hunter2@host/db",              // unknown scheme
		"opentest://user:hunter2@host/db?x=1",          // unknown option
		"opentest://user:hunter2@host/db?sync=1&sync=", // option twice
		"opentest://user:hunter2@host/db?sync=%zz",     // malformed option
		"//user:hunter2@host/db",                       // no scheme
		"opentest://user:hunter2@host/\x7f",            // malformed path
		"opentest://user:hunter2@[::1/db",              // malformed host
		"opentest://user:hunter2%zz@host/db",           // password that is not escaped well
		"opentest://user:hunter2 @host/db",             // password with a space
		"opentest://user:hunter2#1@host/db",            // password that ends the authority early
		"opentest://user:hunter2/1@host/db",
		"opentest://user:hunter2?1@host/db",
	} {
		_, err := store.Open(t.Context(), rawURL)
		if !errors.Is(err, store.ErrInvalid) {
			t.Errorf("Open(%q): %v, want ErrInvalid", rawURL, err)
		}
		if err != nil && strings.Contains(err.Error(), "hunter2") {
			t.Errorf("the error shows the password: %v", err)
		}
	}
}

func TestRegisterTwicePanicsAndNamesTheScheme(t *testing.T) {
	t.Parallel()
	defer func() {
		text, _ := recover().(string)
		if !strings.Contains(text, `"opentest"`) || !strings.Contains(text, "twice") {
			t.Errorf("Register panicked with %q, want the scheme's name and that it is registered twice", text)
		}
	}()
	store.Register("opentest", store.Scheme{})
	t.Error("Register of a known scheme returned")
}

func TestErrorsOfOpenersHideThePasswordAndNameWhatIsAllowed(t *testing.T) {
	t.Parallel()
	u, err := url.Parse("opentest://user:hunter2@host/db?sync=maybe")
	if err != nil {
		t.Fatal(err)
	}
	for _, tc := range []struct {
		err  error
		want []string
	}{
		{store.InvalidOption(u, "sync", "on or off"), []string{`"sync"`, `"maybe"`, "on or off", "user:xxxxx@host"}},
		{store.InvalidURL(u, "port %d is not %s", 1, "open"), []string{"port 1 is not open", "user:xxxxx@host"}},
	} {
		if !errors.Is(tc.err, store.ErrInvalid) {
			t.Errorf("%v does not match ErrInvalid", tc.err)
		}
		wantText(t, tc.err, tc.want...)
		if strings.Contains(tc.err.Error(), "hunter2") {
			t.Errorf("the error shows the password: %v", tc.err)
		}
	}
}

// wantText fails the test unless the error's text has all of parts.
func wantText(t *testing.T, err error, parts ...string) {
	t.Helper()
	for _, part := range parts {
		if !strings.Contains(err.Error(), part) {
			t.Errorf("error %q does not say %q", err, part)
		}
	}
}
