package store

import (
	"errors"
	"fmt"
	"io"
	"strconv"

	"github.com/abidehq/abide/internal/cli/connect"
	"github.com/abidehq/abide/internal/cli/console"

	"github.com/spf13/cobra"

	"github.com/abidehq/abide/internal/transfer"
)

// ShownProblems is how many problems are kept to be printed. One that has more has them
// counted.
const ShownProblems = 1000

func newStoreCheck() *cobra.Command {
	var out console.Output
	cmd := &cobra.Command{
		Use:   "check [STORE]",
		Short: "Check a store for consistency",
		Long: `Look at all that a store holds, and whether it fits together: the tables of the backend, keys
with their messages and logs, instances with their histories, timers, actions, schedules and
operations with their messages, and whether this release can read it. Nothing is changed.

Nothing may run on the store meanwhile: one that is in use is refused, with exit code 4. The exit
code is 1 if there is a problem. Without an argument it is the store of $ABIDE_STORE, or
./` + connect.DefaultDB + `.

` + storeHelp,
		Example: `  abide store check
  abide store check postgres://abide@db/abide -o json`,
		Args: console.MaybeArg("a store"),
		RunE: func(cmd *cobra.Command, args []string) error {
			if err := out.Check(cmd); err != nil {
				return err
			}
			view, err := checkStore(cmd, maybe(args))
			if err != nil {
				return err
			}
			if err := out.Print(cmd.OutOrStdout(), view, view.Write); err != nil {
				return err
			}
			if view.Count > 0 {
				return fmt.Errorf("%s found", console.Counted(view.Count, "problem"))
			}
			return nil
		},
	}
	out.AddTo(cmd)
	return cmd
}

// checkView is what programs read of a check.
type checkView struct {
	Tenants  int           `json:"tenants"`
	Keys     int           `json:"keys"`
	Messages int           `json:"messages"`
	Entries  int           `json:"entries"`
	Records  int           `json:"records"`
	Unknown  int           `json:"unknown"`
	Count    int           `json:"problem_count"`
	Problems []problemView `json:"problems"`
}

type problemView struct {
	Rule  string `json:"rule"`
	Found string `json:"found"`
}

func checkStore(cmd *cobra.Command, db string) (view checkView, err error) {
	ctx := cmd.Context()
	p, err := existing(db)
	if err != nil {
		return view, err
	}
	o, err := openAlone(ctx, inspected(p))
	if err != nil {
		return view, err
	}
	defer func() { err = errors.Join(err, o.Close()) }()
	bar := console.NewProgress(cmd.ErrOrStderr(), "checking", -1)
	defer bar.End()
	view.Problems = []problemView{}
	check := transfer.Check{Store: o.store, Progress: bar.Set, Report: func(problem transfer.Problem) {
		if view.Count++; view.Count <= ShownProblems {
			view.Problems = append(view.Problems, problemView(problem))
		}
	}}
	checked, err := check.Run(ctx)
	view.Tenants, view.Keys, view.Messages = checked.Tenants, checked.Keys, checked.Messages
	view.Entries, view.Records, view.Unknown = checked.Entries, checked.Records, checked.Unknown
	return view, err
}

// Write prints the check for people: what was looked at, then each rule that does not hold
// with what was found.
func (v checkView) Write(w io.Writer) error {
	unknown := ""
	if v.Unknown > 0 {
		unknown = strconv.Itoa(v.Unknown) + " messages and records are not of this release; nothing can be said about them"
	}
	err := console.WriteFields(w, [][2]string{
		{"tenants", strconv.Itoa(v.Tenants)},
		{"keys", strconv.Itoa(v.Keys)},
		{"messages", strconv.Itoa(v.Messages)},
		{"entries", strconv.Itoa(v.Entries)},
		{"records", strconv.Itoa(v.Records)},
		{"unknown", unknown},
		{"problems", strconv.Itoa(v.Count)},
	})
	if err != nil {
		return err
	}
	rule := ""
	for _, p := range v.Problems {
		if p.Rule != rule {
			rule = p.Rule
			if _, err := fmt.Fprintf(w, "\nIt should hold that %s, but\n", rule); err != nil {
				return err
			}
		}
		if _, err := fmt.Fprintln(w, "  "+console.OneLine(p.Found)); err != nil {
			return err
		}
	}
	if more := v.Count - len(v.Problems); more > 0 {
		_, err = fmt.Fprintf(w, "\n%d more are not shown.\n", more)
	}
	return err
}
