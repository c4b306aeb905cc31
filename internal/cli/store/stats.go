package store

import (
	"errors"
	"io"

	"github.com/abidehq/abide/internal/cli/connect"
	"github.com/abidehq/abide/internal/cli/console"
	"github.com/abidehq/abide/internal/cli/stats"

	"github.com/spf13/cobra"

	"github.com/abidehq/abide/server/api"
	"github.com/abidehq/abide/store"
)

func newStoreStats() *cobra.Command {
	var out console.Output
	cmd := &cobra.Command{
		Use:   "stats [STORE]",
		Short: "Show statistics of a store: queues, their age, leases and size",
		Long: `Show what a store holds: for each queue and route how many messages are pending, how many of
them are ready, and how long the oldest one has been waiting. It is what "abide stats" shows, of
the store itself: without a server, and of one that a copy is not finished with too. An embedded
store that another process has open is refused, with exit code 4: ask that process, with
"abide stats". Without an argument it is the store of $ABIDE_STORE, or ./` + connect.DefaultDB + `.

` + storeHelp,
		Example: `  abide store stats
  abide store stats postgres://abide@db/abide -o json`,
		Args: console.MaybeArg("a store"),
		RunE: func(cmd *cobra.Command, args []string) error {
			if err := out.Check(cmd); err != nil {
				return err
			}
			s, err := statsOfStore(cmd, maybe(args))
			if err != nil {
				return err
			}
			return out.Print(cmd.OutOrStdout(), api.FromStats(&s), func(w io.Writer) error { return stats.WriteStats(w, &s) })
		},
	}
	out.AddTo(cmd)
	return cmd
}

func statsOfStore(cmd *cobra.Command, db string) (s store.Stats, err error) {
	p, err := existing(db)
	if err != nil {
		return s, err
	}
	o, err := openPortable(cmd.Context(), inspected(p))
	if err != nil {
		return s, err
	}
	defer func() { err = errors.Join(err, o.Close()) }()
	return o.store.Stats(cmd.Context())
}
