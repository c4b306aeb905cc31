package timers

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"io"
	"os"

	"github.com/abidehq/abide/internal/cli/connect"
	"github.com/abidehq/abide/internal/cli/console"

	"github.com/spf13/cobra"

	"github.com/abidehq/abide/timer"
)

// importBatch is how many timers are scheduled in one commit.
const importBatch = 1_000

// timersImport is the verb: abide timers import.
type timersImport struct {
	connect.Home
	format string
	dryRun bool
}

func newTimersImport() *cobra.Command {
	i := &timersImport{}
	cmd := &cobra.Command{
		Use:   "import [FILE]",
		Short: "Schedule many timers from CSV or lines of JSON",
		Long: `Schedule the timers that a file has, or standard input: CSV with a line of titles, or an object
of JSON on each line. Known are

    key             the timer's key, which is needed
    due_at, delay   when it is due, or how long from now: one of them is needed
    tenant          whose it is, if not that of --tenant
    correlation_id  ID of what led to it
    payload         JSON that is published with it

They are scheduled in the order of the lines, a thousand in one commit. A line that makes no
sense ends it: what stands in the lines before is scheduled, and it does no harm to import it
once more. --dry-run reads everything and schedules nothing.`,
		Example: `  abide timers import reminders.csv --tenant acme
  abide timers import --dry-run < reminders.jsonl
  export-reminders | abide timers import --format jsonl`,
		Args: console.MaybeArg("a file"),
		RunE: i.run,
	}
	cmd.Flags().StringVar(&i.format, "format", "", "csv or jsonl; if not given, the first character tells")
	cmd.Flags().BoolVar(&i.dryRun, "dry-run", false, "read everything, and schedule nothing")
	i.AddTo(cmd)
	return cmd
}

// imported is what programs read of an import.
type imported struct {
	Timers int  `json:"timers"`
	DryRun bool `json:"dry_run,omitempty"`
}

func (i *timersImport) run(cmd *cobra.Command, args []string) error {
	in := cmd.InOrStdin()
	if len(args) == 1 && args[0] != "-" {
		file, err := os.Open(args[0])
		if err != nil {
			return console.AsUsage(err)
		}
		defer file.Close()
		in = file
	}
	lines, err := i.Open(bufio.NewReader(in))
	if err != nil {
		return err
	}
	if i.dryRun {
		if err := i.Out.Check(cmd); err != nil {
			return err
		}
		n, err := i.all(cmd, lines, func([]timer.Request) error { return nil })
		return errors.Join(i.report(cmd, n, err), err)
	}
	return i.UseTimers(cmd, true, func(ctx context.Context, timers connect.TimersAPI) error {
		n, err := i.all(cmd, lines, func(batch []timer.Request) error {
			_, err := timers.ScheduleAll(ctx, batch)
			return err
		})
		return errors.Join(i.report(cmd, n, err), err)
	})
}

// report says how many timers there were.
func (i *timersImport) report(cmd *cobra.Command, n int, failed error) error {
	return i.Out.Print(cmd.OutOrStdout(), imported{Timers: n, DryRun: i.dryRun}, func(w io.Writer) error {
		text := "%d timers were scheduled\n"
		switch {
		case i.dryRun && failed == nil:
			text = "%d timers can be scheduled\n"
		case i.dryRun:
			text = "%d timers could be scheduled before a line that makes no sense\n"
		}
		_, err := fmt.Fprintf(w, text, n)
		return err
	})
}

// all reads all timers, and has them scheduled in batches. It returns how many there were.
func (i *timersImport) all(cmd *cobra.Command, lines timerLines, schedule func(batch []timer.Request) error) (done int, err error) {
	bar := console.NewProgress(cmd.ErrOrStderr(), "timers", -1)
	defer bar.End()
	var batch []timer.Request
	var first, last int // lines of the batch
	seen := map[[2]string]bool{}
	flush := func() error {
		if len(batch) == 0 {
			return nil
		}
		if err := schedule(batch); err != nil {
			return fmt.Errorf("lines %d to %d: %w", first, last, err)
		}
		done += len(batch)
		bar.Set(done, -1)
		batch = batch[:0]
		clear(seen)
		return nil
	}
	for {
		r, line, err := lines.next(i.Tenant)
		if errors.Is(err, io.EOF) {
			return done, flush()
		}
		if err != nil {
			return done, errors.Join(flush(), err)
		}
		key := [2]string{r.Tenant, r.Key}
		if len(batch) == importBatch || seen[key] { // the same timer cannot be twice in a commit
			if err := flush(); err != nil {
				return done, err
			}
		}
		if len(batch) == 0 {
			first = line
		}
		last = line
		batch, seen[key] = append(batch, r), true
	}
}
