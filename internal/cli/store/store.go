package store

import (
	"context"
	"errors"
	"fmt"
	"net/url"

	"github.com/abidehq/abide/internal/cli/connect"
	"github.com/abidehq/abide/internal/cli/console"

	"github.com/spf13/cobra"

	"github.com/abidehq/abide/store"
)

// New returns the command abide store.
func New() *cobra.Command {
	return console.Group(&cobra.Command{
		Use:   "store",
		Short: "Back up, copy, check, convert and measure a store",
		Long: `Back up, copy, check, convert and measure a store by its URL, or the folder of an embedded one. What
runs on it has to be stopped first, except for backup and stats.`,
	}, newStoreBackup(), newStoreCheck(), newStoreClock(), newStoreConvert(), newStoreCopy(), newStoreRestore(), newStoreStats())
}

// storeHelp is what the help of these commands says about their arguments.
const storeHelp = `A store is a URL, such as pebble:///var/lib/abide or postgres://abide@db/abide, or the folder
of an embedded one.`

// opened is a store that one of these commands works on.
type opened struct {
	connect.Place
	store   store.Portable
	release func() error
}

// inspected returns the place of a store that is only read: also that of a backup.
func inspected(p connect.Place) connect.Place {
	if p.Dir == "" {
		return p
	}
	u, err := url.Parse(p.URL)
	if err != nil {
		return p // opening it says so
	}
	q := u.Query()
	q.Set("inspect", "true")
	u.RawQuery = q.Encode()
	p.URL = u.String()
	return p
}

// openPortable opens the store at a place. It does not mind that it is an unfinished copy.
func openPortable(ctx context.Context, p connect.Place) (*opened, error) {
	st, err := store.Open(ctx, p.URL)
	switch {
	case errors.Is(err, store.ErrInvalid):
		return nil, console.AsUsage(err)
	case errors.Is(err, store.ErrInUse):
		return nil, inUse(p, err)
	case err != nil:
		return nil, err
	}
	portable, ok := st.(store.Portable)
	if !ok {
		return nil, errors.Join(console.Usage("%s: stores of this kind can be neither copied nor checked", p.Shown), st.Close())
	}
	return &opened{Place: p, store: portable, release: func() error { return nil }}, nil
}

// openAlone opens the store at a place and keeps all others out.
func openAlone(ctx context.Context, p connect.Place) (*opened, error) {
	o, err := openPortable(ctx, p)
	if err != nil {
		return nil, err
	}
	release, err := o.store.Exclude(ctx)
	if err != nil {
		if errors.Is(err, store.ErrInUse) {
			err = inUse(p, err)
		}
		return nil, errors.Join(err, o.store.Close())
	}
	o.release = release
	return o, nil
}

// inUse adds advice to the error of a store that another process uses.
func inUse(p connect.Place, err error) error {
	return fmt.Errorf("%s is in use: stop what runs on it first: %w", p.Shown, err)
}

// Close lets others in again, and closes the store.
func (o *opened) Close() error { return errors.Join(o.release(), o.store.Close()) }

// existing returns the place of a store that must be there.
func existing(db string) (connect.Place, error) {
	p, err := connect.FindStore(db)
	if err == nil && !p.Exists() {
		err = fmt.Errorf("there is no store in %s: %w", p.Shown, store.ErrNotFound)
	}
	return p, err
}

// maybe returns the argument, or nothing.
func maybe(args []string) string {
	if len(args) == 0 {
		return ""
	}
	return args[0]
}
