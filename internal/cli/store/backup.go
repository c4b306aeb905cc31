package store

import (
	"context"
	"errors"
	"fmt"
	"io"
	"path/filepath"

	"github.com/abidehq/abide/internal/cli/connect"
	"github.com/abidehq/abide/internal/cli/console"

	"github.com/spf13/cobra"

	"github.com/abidehq/abide/store"
	"github.com/abidehq/abide/store/pebblestore"
)

func newStoreBackup() *cobra.Command {
	var h connect.Home
	cmd := &cobra.Command{
		Use:   "backup DEST",
		Short: "Back up an embedded store, while it is in use or not",
		Long: `Back up an embedded store into the folder DEST, which must not exist. What works on the store
works on meanwhile. The backup holds everything that was committed before it was begun. On the
file system of the store it consists of hard links, and takes room only as the store changes; on
another one it is a copy.

` + connect.HomeHelp + ` DEST
is a folder on the server's machine, and for a server that is named with --server it is an
absolute path. It takes the role admin.

A backup is not opened by anything but "abide store check", "stats" and "copy", and by a URL with
inspect=true, which changes nothing: pebble:///backups/monday?inspect=true. "abide store restore"
makes it a store again. Other stores are backed up with the tools of their databases. See
docs/backup.md.`,
		Example: `  abide store backup /backups/monday
  abide store backup /backups/monday --db /var/lib/abide -o json`,
		Args: console.OneArg("the folder to back up to"),
		RunE: func(cmd *cobra.Command, args []string) error {
			address, err := h.Address()
			if err != nil {
				return err
			}
			dest := args[0]
			if address == "" {
				if dest, err = filepath.Abs(dest); err != nil {
					return fmt.Errorf("find the folder: %w", err)
				}
			}
			return h.Use(cmd, false, func(ctx context.Context, b connect.Backend) error {
				made, err := b.Backup(ctx, dest)
				if err != nil {
					return err
				}
				return h.Out.Print(cmd.OutOrStdout(), made, func(w io.Writer) error {
					_, err := fmt.Fprintln(w, made.Path)
					return err
				})
			})
		},
	}
	h.AddPlaceTo(cmd)
	return cmd
}

func newStoreRestore() *cobra.Command {
	var sure console.Consent
	var out console.Output
	cmd := &cobra.Command{
		Use:   "restore DIR",
		Short: "Restore an embedded store from a backup",
		Long: `Make the backup in the folder DIR a store again: from then on a server can be run on it. Restore a
copy of the backup if you want to keep it. Nothing may run on the store that was backed up any
more: both would do what the other does. docs/backup.md says what happens again.

` + console.ConsentHelp,
		Example: `  cp -a /backups/monday /var/lib/abide
  abide store restore /var/lib/abide`,
		Args: console.OneArg("the folder of a backup"),
		RunE: func(cmd *cobra.Command, args []string) error {
			if err := out.Check(cmd); err != nil {
				return err
			}
			p, err := existing(args[0])
			if err != nil {
				return err
			}
			if p.Dir == "" {
				return console.Usage("%s is not the folder of an embedded store", p.Shown)
			}
			if err := sure.Ask(cmd, "Make "+p.Shown+" a store that acts again?"); err != nil {
				return err
			}
			if err := restoreStore(cmd.Context(), p); err != nil {
				return err
			}
			view := struct {
				Path string `json:"path"`
			}{p.Dir}
			return out.Print(cmd.OutOrStdout(), view, func(w io.Writer) error {
				_, err := fmt.Fprintln(w, view.Path)
				return err
			})
		},
	}
	sure.AddTo(cmd)
	out.AddTo(cmd)
	return cmd
}

// restoreStore makes a backup a store, and notes it in its audit log.
func restoreStore(ctx context.Context, p connect.Place) (err error) {
	err = pebblestore.Restore(ctx, p.Dir, pebblestore.Options{})
	switch {
	case errors.Is(err, store.ErrInvalid):
		return console.AsUsage(err)
	case errors.Is(err, store.ErrInUse):
		return inUse(p, err)
	case err != nil:
		return err
	}
	st, err := store.Open(ctx, p.URL)
	if err != nil {
		return err
	}
	b := connect.NewStoreBackend(st)
	defer func() { err = errors.Join(err, b.Close()) }()
	n, err := b.Noting()
	if err != nil {
		return err
	}
	return connect.StoreTokens(n).Note(ctx, "restore-store", p.Dir, nil)
}
