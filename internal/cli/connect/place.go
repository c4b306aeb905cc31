package connect

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net/url"
	"os"
	"path/filepath"
	"strings"
	"time"

	"github.com/abidehq/abide/internal/cli/console"

	"github.com/abidehq/abide/internal/backoff"
	"github.com/abidehq/abide/internal/base"
	"github.com/abidehq/abide/store"
)

// DefaultDB is the default folder of the store.
const DefaultDB = "abide-data"

// patience is how long a command waits for a store that another process has open: one that
// is about to end, or is not ready yet.
const patience = 3 * time.Second

// Place is where a store is.
type Place struct {
	URL   string
	Shown string // for people: without a password
	Dir   string // of the embedded store, with no symbolic links; empty for others
}

// FindStore returns the place that a path or a URL names; that of ABIDE_STORE, or
// abide-data in the working directory, if it is empty.
func FindStore(db string) (Place, error) {
	if db == "" { // and not as the flag's default, which the help would show with its password
		db = os.Getenv(EnvStore)
	}
	if db == "" {
		db = DefaultDB
	}
	if !strings.Contains(db, "://") {
		return embedded(db, "")
	}
	u, err := url.Parse(db)
	if err != nil {
		return Place{}, console.Usage("malformed URL of a store; it looks like pebble:///var/lib/abide")
	}
	if u.Scheme == "pebble" && u.Opaque == "" && u.Host+u.Path != "" && u.User == nil {
		return embedded(u.Host+u.Path, u.RawQuery)
	}
	shown := *u
	shown.RawQuery = ""
	return Place{URL: db, Shown: shown.Redacted()}, nil
}

// embedded returns the place of the embedded store in a folder.
func embedded(path, options string) (Place, error) {
	dir, err := filepath.Abs(path)
	if err != nil {
		return Place{}, fmt.Errorf("find the store: %w", err)
	}
	// However the folder is called, its socket has one name.
	if resolved, err := filepath.EvalSymlinks(dir); err == nil {
		dir = resolved
	}
	if isSQLite(dir) {
		return Place{}, console.Usage("%s is an SQLite database, and a path names the folder of an embedded store; write sqlite://%s", path, path)
	}
	u := url.URL{Scheme: "pebble", Path: filepath.ToSlash(dir), RawQuery: options}
	return Place{URL: u.String(), Shown: path, Dir: dir}, nil
}

// isSQLite reports whether a file is an SQLite database.
func isSQLite(path string) bool {
	const magic = "SQLite format 3\x00"
	f, err := os.Open(path)
	if err != nil {
		return false
	}
	defer f.Close()
	head := make([]byte, len(magic))
	_, err = io.ReadFull(f, head)
	return err == nil && string(head) == magic
}

// Exists reports whether there is a store. What is not embedded says so itself.
func (p Place) Exists() bool {
	if p.Dir == "" {
		return true
	}
	_, err := os.Stat(filepath.Join(p.Dir, "LOCK"))
	return err == nil
}

// Open opens the store to work on it, unless it is an unfinished copy. If another process
// has it, it calls meanwhile, which may end the wait, and tries again for a while.
func (p Place) Open(ctx context.Context, meanwhile func() (done bool)) (store.Store, error) {
	clock := base.System{}
	pause := backoff.Pause{Clock: clock, Min: 10 * time.Millisecond, Max: 200 * time.Millisecond}
	for until := clock.Now().Add(patience); ; {
		st, err := store.Open(ctx, p.URL)
		switch {
		case err == nil:
			return p.whole(ctx, st)
		case errors.Is(err, store.ErrInvalid):
			return nil, console.AsUsage(err)
		case !errors.Is(err, store.ErrInUse), meanwhile(), clock.Now().After(until):
			return nil, err
		}
		if err := pause.Sleep(ctx); err != nil {
			return nil, err
		}
	}
}

// whole returns the store that was opened, or closes it if it is an unfinished copy.
func (p Place) whole(ctx context.Context, st store.Store) (store.Store, error) {
	if err := store.Whole(ctx, st); err != nil {
		return nil, errors.Join(fmt.Errorf("%s: %w", p.Shown, err), st.Close())
	}
	return st, nil
}

// EnvStore is the variable with the URL of the store, for all commands that have one.
const EnvStore = "ABIDE_STORE"
