package top

import (
	"context"
	"errors"
	"fmt"
	"io"
	"strconv"
	"strings"
	"time"

	"github.com/abidehq/abide/internal/cli/connect"
	"github.com/abidehq/abide/internal/cli/console"

	tea "charm.land/bubbletea/v2"
	"github.com/spf13/cobra"

	"github.com/abidehq/abide/internal/base"
)

// top is the verb: abide top.
type top struct {
	connect.Home
	once     bool
	interval time.Duration
}

// New returns the command abide top.
func New() *cobra.Command {
	t := &top{}
	cmd := &cobra.Command{
		Use:   "top",
		Short: "Show live rates, queues, workers, and what needs attention",
		Long: `Show live what happens: how many instances start and end, the queues with what is pending and
ready and how old it is, the workers, what has stalled or is in quarantine, and the latest
instances. The arrows choose an instance, enter shows it, q ends it.

Where the output is no terminal it prints a line for each look. --once prints one overview.

` + connect.HomeHelp,
		Example: `  abide top --server https://abide.example.com
  abide top --once
  abide top -o json --interval 10s | jq .stats`,
		Args: console.NoArgs,
		RunE: t.run,
	}
	cmd.Flags().BoolVar(&t.once, "once", false, "print one overview, and end")
	console.DurationVar(cmd.Flags(), &t.interval, "interval", console.PollEvery, "how often to look")
	t.AddPlaceTo(cmd)
	return cmd
}

func (t *top) run(cmd *cobra.Command, _ []string) error {
	if t.interval < 100*time.Millisecond {
		return console.Usage("--interval is %v; 100ms or more is allowed", t.interval)
	}
	return t.Use(cmd, false, func(ctx context.Context, b connect.Backend) error {
		ctx, cancel := context.WithCancel(ctx)
		defer cancel()
		w, err := newWatcher(ctx, b)
		if err != nil {
			return err
		}
		out := cmd.OutOrStdout()
		switch {
		case t.once:
			o, err := w.look(ctx)
			if err != nil {
				return err
			}
			return t.Out.Print(out, o.wire(), o.Write)
		case t.Out.IsJSON() || !console.IsTerminal(out) || !console.IsTerminal(cmd.InOrStdin()):
			return console.Ended(ctx, t.lines(ctx, out, w))
		default:
			return t.screen(ctx, cmd, w)
		}
	})
}

// screen shows the overview on a terminal, until a person has seen enough.
func (t *top) screen(ctx context.Context, cmd *cobra.Command, w *watcher) error {
	model := newTopModel(ctx, w, t.interval, console.Colours(cmd.OutOrStdout()))
	program := tea.NewProgram(model,
		tea.WithContext(ctx), tea.WithInput(cmd.InOrStdin()), tea.WithOutput(cmd.OutOrStdout()), tea.WithoutSignalHandler())
	final, err := program.Run()
	if err != nil && ctx.Err() == nil && !errors.Is(err, tea.ErrInterrupted) {
		return fmt.Errorf("show the overview: %w", err)
	}
	if m, ok := final.(*topModel); ok && m.overview == nil {
		return m.err // it was never there
	}
	return nil
}

// titlesEvery is after how many lines the titles come again.
const titlesEvery = 20

// lines prints a line for each look, until ctx ends.
func (t *top) lines(ctx context.Context, out io.Writer, w *watcher) error {
	for n := 0; ; n++ {
		o, err := w.look(ctx)
		if err != nil {
			return err
		}
		err = t.Out.Print(out, o.wire(), func(to io.Writer) error {
			if n%titlesEvery == 0 {
				if _, err := fmt.Fprintln(to, lineOf("TIME", "STARTED/S", "ENDED/S", "FAILED/S", "PENDING", "READY", "AGE", "STALLED", "QUARANTINE", "UNSERVED", "WORKERS")); err != nil {
					return err
				}
			}
			_, err := fmt.Fprintln(to, o.line())
			return err
		})
		if err != nil {
			return err
		}
		if err := base.Sleep(ctx, w.clock, t.interval); err != nil {
			return err
		}
	}
}

// line is an overview on one line.
func (o *overview) line() string {
	pending, ready, age := o.totals()
	return lineOf(o.at.Local().Format(time.TimeOnly), rateText(o.started), rateText(o.ended), rateText(o.failed), strconv.Itoa(pending), strconv.Itoa(ready),
		console.Readable(age), capped(o.stalled, topCount), capped(o.quarantined, topCount), strconv.Itoa(len(o.unserved)), strconv.Itoa(len(o.workers)))
}

// lineOf aligns the fields of a line.
func lineOf(fields ...string) string {
	var line strings.Builder
	fmt.Fprintf(&line, "%-8s", fields[0])
	for _, f := range fields[1:] {
		fmt.Fprintf(&line, "  %10s", f)
	}
	return line.String()
}
