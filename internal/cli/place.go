package cli

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

	"github.com/abidehq/abide/internal/backoff"
	"github.com/abidehq/abide/internal/base"
	"github.com/abidehq/abide/store"
)

// defaultDB is where the store is unless somebody says otherwise.
const defaultDB = "abide-data"

// patience is how long a command waits for a store that another process has open: one that
// is about to end, or is not ready yet.
const patience = 3 * time.Second

// place is where a store is.
type place struct {
	url   string
	shown string // for people: without a password
	dir   string // of the embedded store, with no symbolic links; empty for others
}

// findStore returns the place that a path or a URL names; that of ABIDE_STORE, or
// abide-data in the working directory, if it is empty.
func findStore(db string) (place, error) {
	if db == "" { // and not as the flag's default, which the help would show with its password
		db = os.Getenv(envStore)
	}
	if db == "" {
		db = defaultDB
	}
	if !strings.Contains(db, "://") {
		return embedded(db, "")
	}
	u, err := url.Parse(db)
	if err != nil {
		return place{}, usage("malformed URL of a store; it looks like pebble:///var/lib/abide")
	}
	if u.Scheme == "pebble" && u.Opaque == "" && u.Host+u.Path != "" && u.User == nil {
		return embedded(u.Host+u.Path, u.RawQuery)
	}
	shown := *u
	shown.RawQuery = ""
	return place{url: db, shown: shown.Redacted()}, nil
}

// embedded returns the place of the embedded store in a folder.
func embedded(path, options string) (place, error) {
	dir, err := filepath.Abs(path)
	if err != nil {
		return place{}, fmt.Errorf("find the store: %w", err)
	}
	// However the folder is called, its socket has one name.
	if resolved, err := filepath.EvalSymlinks(dir); err == nil {
		dir = resolved
	}
	if isSQLite(dir) {
		return place{}, usage("%s is an SQLite database, and a path names the folder of an embedded store; write sqlite://%s", path, path)
	}
	u := url.URL{Scheme: "pebble", Path: filepath.ToSlash(dir), RawQuery: options}
	return place{url: u.String(), shown: path, dir: dir}, nil
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

// exists reports whether there is a store. What is not embedded says so itself.
func (p place) exists() bool {
	if p.dir == "" {
		return true
	}
	_, err := os.Stat(filepath.Join(p.dir, "LOCK"))
	return err == nil
}

// open opens the store to work on it, unless it is an unfinished copy. If another process
// has it, it calls meanwhile, which may end the wait, and tries again for a while.
func (p place) open(ctx context.Context, meanwhile func() (done bool)) (store.Store, error) {
	clock := base.System{}
	pause := backoff.Pause{Clock: clock, Min: 10 * time.Millisecond, Max: 200 * time.Millisecond}
	for until := clock.Now().Add(patience); ; {
		st, err := store.Open(ctx, p.url)
		switch {
		case err == nil:
			return p.whole(ctx, st)
		case errors.Is(err, store.ErrInvalid):
			return nil, &usageError{err}
		case !errors.Is(err, store.ErrInUse), meanwhile(), clock.Now().After(until):
			return nil, err
		}
		if err := pause.Sleep(ctx); err != nil {
			return nil, err
		}
	}
}

// whole returns the store that was opened, or closes it if it is an unfinished copy.
func (p place) whole(ctx context.Context, st store.Store) (store.Store, error) {
	if err := store.Whole(ctx, st); err != nil {
		return nil, errors.Join(fmt.Errorf("%s: %w", p.shown, err), st.Close())
	}
	return st, nil
}
