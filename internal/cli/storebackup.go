package cli

import (
	"context"
	"errors"
	"fmt"
	"io"
	"path/filepath"

	"github.com/spf13/cobra"

	"github.com/abidehq/abide/internal/base"
	"github.com/abidehq/abide/server/api"
	"github.com/abidehq/abide/store"
	"github.com/abidehq/abide/store/pebblestore"
)

func newStoreBackup() *cobra.Command {
	var h home
	cmd := &cobra.Command{
		Use:   "backup DEST",
		Short: "Back up an embedded store, while it is in use or not",
		Long: `Back up an embedded store into the folder DEST, which must not exist. What works on the store
works on meanwhile. The backup holds everything that was committed before it was begun. On the
file system of the store it consists of hard links, and takes room only as the store changes; on
another one it is a copy.

` + homeHelp + ` DEST
is a folder on the server's machine, and for a server that is named with --server it is an
absolute path. It takes the role admin.

A backup is not opened by anything but "abide store check", "stats" and "copy", and by a URL with
inspect=true, which changes nothing: pebble:///backups/monday?inspect=true. "abide store restore"
makes it a store again. Other stores are backed up with the tools of their databases. See
docs/backup.md.`,
		Example: `  abide store backup /backups/monday
  abide store backup /backups/monday --db /var/lib/abide -o json`,
		Args: oneArg("the folder to back up to"),
		RunE: func(cmd *cobra.Command, args []string) error {
			address, err := h.address()
			if err != nil {
				return err
			}
			dest := args[0]
			if address == "" {
				if dest, err = filepath.Abs(dest); err != nil {
					return fmt.Errorf("find the folder: %w", err)
				}
			}
			return h.use(cmd, false, func(ctx context.Context, b backend) error {
				made, err := b.backup(ctx, dest)
				if err != nil {
					return err
				}
				return h.out.print(cmd.OutOrStdout(), made, func(w io.Writer) error {
					_, err := fmt.Fprintln(w, made.Path)
					return err
				})
			})
		},
	}
	h.addPlaceTo(cmd)
	return cmd
}

func (b serverBackend) backup(ctx context.Context, dest string) (api.Backup, error) {
	return b.client.Backup(ctx, dest)
}

func (b *storeBackend) backup(ctx context.Context, dest string) (api.Backup, error) {
	made := api.Backup{Path: dest, CreatedAt: base.System{}.Now().UTC()}
	n, err := b.noting()
	if err != nil {
		return made, err
	}
	s, ok := b.store.(store.Backuper)
	if !ok {
		return made, usage("only the embedded store is backed up into a folder, others with the tools of their databases: see docs/backup.md")
	}
	err = s.Backup(ctx, dest)
	if errors.Is(err, store.ErrInvalid) {
		err = &usageError{err}
	}
	return made, storeTokens(n).note(ctx, "create-backup", dest, err)
}

func newStoreRestore() *cobra.Command {
	var sure consent
	var out output
	cmd := &cobra.Command{
		Use:   "restore DIR",
		Short: "Restore an embedded store from a backup",
		Long: `Make the backup in the folder DIR a store again: from then on a server can be run on it. Restore a
copy of the backup if you want to keep it. Nothing may run on the store that was backed up any
more: both would do what the other does. docs/backup.md says what happens again.

` + consentHelp,
		Example: `  cp -a /backups/monday /var/lib/abide
  abide store restore /var/lib/abide`,
		Args: oneArg("the folder of a backup"),
		RunE: func(cmd *cobra.Command, args []string) error {
			if err := out.check(cmd); err != nil {
				return err
			}
			p, err := existing(args[0])
			if err != nil {
				return err
			}
			if p.dir == "" {
				return usage("%s is not the folder of an embedded store", p.shown)
			}
			if err := sure.ask(cmd, "Make "+p.shown+" a store that acts again?"); err != nil {
				return err
			}
			if err := restoreStore(cmd.Context(), p); err != nil {
				return err
			}
			view := struct {
				Path string `json:"path"`
			}{p.dir}
			return out.print(cmd.OutOrStdout(), view, func(w io.Writer) error {
				_, err := fmt.Fprintln(w, view.Path)
				return err
			})
		},
	}
	sure.addTo(cmd)
	out.addTo(cmd)
	return cmd
}

// restoreStore makes a backup a store, and notes it in its audit log.
func restoreStore(ctx context.Context, p place) (err error) {
	err = pebblestore.Restore(ctx, p.dir, pebblestore.Options{})
	switch {
	case errors.Is(err, store.ErrInvalid):
		return &usageError{err}
	case errors.Is(err, store.ErrInUse):
		return p.inUse(err)
	case err != nil:
		return err
	}
	st, err := store.Open(ctx, p.url)
	if err != nil {
		return err
	}
	b := newStoreBackend(st)
	defer func() { err = errors.Join(err, b.close()) }()
	n, err := b.noting()
	if err != nil {
		return err
	}
	return storeTokens(n).note(ctx, "restore-store", p.dir, nil)
}
