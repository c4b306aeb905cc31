package store

import (
	"errors"
	"io"
	"time"

	"github.com/abidehq/abide/internal/cli/connect"
	"github.com/abidehq/abide/internal/cli/console"

	"github.com/spf13/cobra"

	"github.com/abidehq/abide/store"
)

func newStoreClock() *cobra.Command {
	var out console.Output
	var reset bool
	cmd := &cobra.Command{
		Use:   "clock [STORE]",
		Short: "Show the clock that a store keeps, and reset it",
		Long: `Show the latest time that a store has kept, its mark, and what its clock shows. SQLite and Redis
keep a mark, so that the time does not run backwards for a process that opens the store later. A
mark that is ahead of the clock is from a clock that was wrong: up to ` + store.MaxClockLead.String() + ` are waited for, and more
is ignored.

With --reset the mark is set to what the clock shows. Nothing may run on the store meanwhile: one
that is in use is refused, with exit code 4. Times that were stored with timers and messages while
the clock was wrong stay as they are. Other stores keep no mark, and are refused with exit code 2.
Without an argument it is the store of $ABIDE_STORE, or ./` + connect.DefaultDB + `.

` + storeHelp,
		Example: `  abide store clock sqlite:///var/lib/abide.db
  abide store clock redis://cache/0 --reset`,
		Args: console.MaybeArg("a store"),
		RunE: func(cmd *cobra.Command, args []string) error {
			if err := out.Check(cmd); err != nil {
				return err
			}
			view, err := clockOfStore(cmd, maybe(args), reset)
			if err != nil {
				return err
			}
			return out.Print(cmd.OutOrStdout(), view, view.Write)
		},
	}
	cmd.Flags().BoolVar(&reset, "reset", false, "set the mark to what the clock shows")
	out.AddTo(cmd)
	return cmd
}

// clockView is what programs read of the clock of a store.
type clockView struct {
	Clock time.Time `json:"clock"`
	Mark  time.Time `json:"mark,omitzero"`
	Lead  float64   `json:"lead_seconds"`
	Reset bool      `json:"reset"`

	mark store.ClockMark
}

func clockOfStore(cmd *cobra.Command, db string, reset bool) (view clockView, err error) {
	ctx := cmd.Context()
	p, err := existing(db)
	if err != nil {
		return view, err
	}
	open := openPortable
	if reset {
		open = openAlone
	}
	o, err := open(ctx, p)
	if err != nil {
		return view, err
	}
	defer func() { err = errors.Join(err, o.Close()) }()
	marked, ok := o.store.(store.Marked)
	if !ok {
		return view, console.Usage("%s keeps no latest time, so there is nothing to look at or to reset: its time is that of its clock. SQLite and Redis keep one", p.Shown)
	}
	look := marked.ClockMark
	if reset {
		look = marked.ResetClockMark
	}
	mark, err := look(ctx)
	return clockView{Clock: mark.Clock, Mark: mark.Mark, Lead: mark.Lead().Seconds(), Reset: reset, mark: mark}, err
}

func (v clockView) Write(w io.Writer) error {
	mark, ahead := "none", "no"
	if !v.Mark.IsZero() {
		mark = console.LocalTime(v.Mark)
	}
	switch lead := v.mark.Lead(); {
	case v.mark.Counts():
		ahead = console.Readable(lead) + ", which is waited for"
	case lead > 0:
		ahead = console.Readable(lead) + ", which is ignored"
	}
	fields := [][2]string{{"clock", console.LocalTime(v.Clock)}, {"mark", mark}, {"ahead", ahead}}
	if v.Reset {
		fields = append(fields, [2]string{"reset", "the mark is what the clock shows"})
	}
	return console.WriteFields(w, fields)
}
