// Package builds has the commands that show builds and what needs them, ramp and drain them, and move instances between
// them.
package builds

import (
	"context"
	"errors"
	"fmt"
	"io"
	"strconv"
	"strings"

	"github.com/abidehq/abide/internal/cli/connect"
	"github.com/abidehq/abide/internal/cli/console"

	"github.com/spf13/cobra"

	"github.com/abidehq/abide"
	"github.com/abidehq/abide/server/api"
)

// New returns the command abide builds.
func New() *cobra.Command {
	return console.Group(
		&cobra.Command{
			Use:     "builds",
			Aliases: []string{"build"},
			Short:   "Show builds and what needs them; ramp and drain them",
			Long: `Instances of an orchestration that is registered with abide.Builds(abide.Pinned) stay with the build
of the program that ran their first turn. These commands show which builds are needed, and say
which of them get new instances.

` + connect.HomeHelp,
		},
		newClear(), newDrain(), newList(), newMove(), newRamp(), newReport(),
	)
}

func newList() *cobra.Command {
	return connect.ListAll(&cobra.Command{
		Use:     "list",
		Short:   "List builds",
		Example: "  abide builds list",
	}, buildRows, func(ctx context.Context, b connect.Backend) ([]abide.Build, error) {
		engine, err := b.Engine()
		if err != nil {
			return nil, err
		}
		return engine.Builds(ctx, "")
	})
}

// buildRows prints builds.
var buildRows = console.Rows[abide.Build, api.Build]{
	Noun:   "builds that pin instances",
	Titles: []string{"BUILD", "SHARE", "DRAINED", "WORKERS", "OPEN", "SEEN", "PINS"},
	Row: func(b *abide.Build) []console.Cell {
		drained := ""
		if b.Drained {
			drained = "drained"
		}
		return console.Row(b.ID, shareOf(b), drained, b.Workers, openOf(b), b.SeenAt, strings.Join(b.Orchestrations, ", "))
	},
	Wire: api.FromBuild,
	Key:  func(b *abide.Build) [2]string { return [2]string{"", b.ID} },
	Page: func(all []api.Build, _ string) any { return api.BuildList{Builds: all} },
}

func shareOf(b *abide.Build) string {
	if b.Percent == nil {
		return ""
	}
	return strconv.Itoa(*b.Percent) + "%"
}

// openOf returns how many open instances need a build.
func openOf(b *abide.Build) string {
	n := 0
	for i := range b.Needs {
		n += b.Needs[i].Open
	}
	if b.More {
		return strconv.Itoa(n) + "+"
	}
	return strconv.Itoa(n)
}

func newReport() *cobra.Command {
	var h connect.Home
	cmd := &cobra.Command{
		Use:   "report [BUILD]",
		Short: "Say which instances still need a build",
		Long: `Say which instances still need a build, or each of them. The time after "until" is the latest for
which one of the 100 oldest of these instances has set a timer. They may end before it, and may
need the build after it.`,
		Example: `  abide builds report
  abide builds report 4f2a9c1`,
		Args: cobra.MaximumNArgs(1),
		RunE: func(cmd *cobra.Command, args []string) error {
			return h.UseEngine(cmd, false, func(ctx context.Context, engine *abide.Client) error {
				found, err := engine.Builds(ctx, strings.Join(args, ""))
				if err != nil {
					return err
				}
				list := api.BuildList{Builds: buildRows.Wires(found)}
				return h.Out.Print(cmd.OutOrStdout(), list, func(w io.Writer) error { return writeReport(w, found) })
			})
		},
	}
	h.AddPlaceTo(cmd)
	return cmd
}

// writeReport writes which instances need builds, for people.
func writeReport(w io.Writer, found []abide.Build) error {
	var errs []error
	say := func(format string, args ...any) {
		_, err := fmt.Fprintf(w, format+"\n", args...)
		errs = append(errs, err)
	}
	if len(found) == 0 {
		say("no builds that pin instances")
	}
	for i := range found {
		b := &found[i]
		id := console.Printable(b.ID)
		if len(b.Needs) == 0 {
			say("nothing needs build %s", id)
		}
		for _, n := range b.Needs {
			until := ""
			if !n.Until.IsZero() {
				until = " until " + console.LocalTime(n.Until)
			}
			verb := "need"
			if n.Open == 1 {
				verb = "needs"
			}
			say("%s of %s %s build %s%s", console.Counted(n.Open, "instance"), console.Printable(n.Orchestration), verb, id, until)
		}
		if b.More {
			say("build %s has more instances than were counted", id)
		}
		if b.Workers == 0 && len(b.Needs) > 0 {
			say("no live worker is of build %s: they wait", id)
		}
	}
	return errors.Join(errs...)
}

// setter makes cmd a command that changes what is set for the build that is its first argument.
func setter(cmd *cobra.Command, change func(args []string) (abide.BuildChange, error)) *cobra.Command {
	var h connect.Home
	cmd.RunE = func(cmd *cobra.Command, args []string) error {
		c, err := change(args[1:])
		if err != nil {
			return err
		}
		return h.UseEngine(cmd, false, func(ctx context.Context, engine *abide.Client) error {
			if err := engine.SetBuild(ctx, args[0], c); err != nil {
				if errors.Is(err, abide.ErrInvalid) {
					err = console.AsUsage(err)
				}
				return err
			}
			found, err := engine.Builds(ctx, args[0])
			if err != nil {
				return err
			}
			return buildRows.PrintOne(cmd, &h.Out, found[0])
		})
	}
	h.AddPlaceTo(cmd)
	return cmd
}

func newRamp() *cobra.Command {
	return setter(&cobra.Command{
		Use:   "ramp BUILD PERCENT",
		Short: "Set the share of new instances that a build gets",
		Long: `Set the share of new instances of pinned orchestrations that a build gets. The rest goes to the
live builds without a share. Which instances are in the share depends on their tenants and IDs
alone. A share of a build that is not alive goes to the others.`,
		Example: `  abide builds ramp 4f2a9c1 10%
  abide builds ramp 4f2a9c1 100%`,
		Args: cobra.ExactArgs(2),
	}, func(args []string) (abide.BuildChange, error) {
		percent, err := strconv.Atoi(strings.TrimSuffix(args[0], "%"))
		if err != nil || percent < 0 || percent > 100 {
			return abide.BuildChange{}, console.Usage("%q is not a share: 0%% to 100%%", args[0])
		}
		return abide.BuildChange{Percent: &percent}, nil
	})
}

func newDrain() *cobra.Command {
	return setter(&cobra.Command{
		Use:   "drain BUILD",
		Short: "Give a build nothing that another build can run",
		Long: `Give a build no new instances, and no turns of instances that are not pinned, as long as another
live build that is not drained serves the orchestration. What is pinned to it stays: abide builds
report says what that is.`,
		Example: "  abide builds drain 4f2a9c1",
		Args:    console.OneArg("a build"),
	}, func([]string) (abide.BuildChange, error) {
		return abide.BuildChange{Drained: new(true)}, nil
	})
}

func newClear() *cobra.Command {
	return setter(&cobra.Command{
		Use:     "clear BUILD",
		Short:   "Take back the share and the drain of a build",
		Example: "  abide builds clear 4f2a9c1",
		Args:    console.OneArg("a build"),
	}, func([]string) (abide.BuildChange, error) {
		return abide.BuildChange{Percent: new(abide.NoShare), Drained: new(false)}, nil
	})
}

func newMove() *cobra.Command {
	var h connect.Home
	var m abide.BuildMove
	var sure console.Consent
	var follow bool
	cmd := &cobra.Command{
		Use:   "move --from BUILD (--to BUILD | --follow)",
		Short: "Move the instances of a build that is gone to another one",
		Long: `Move the open instances that are pinned to a build to another one, which replays their histories:
an instance whose history does not fit the code stalls. With --follow any build may run them from
then on. It is refused while workers of the build are alive, unless --live is given.

` + console.ConsentHelp,
		Example: `  abide builds move --from 4f2a9c1 --to 8d03e77
  abide builds move --from 4f2a9c1 --follow --orchestration order --yes`,
		Args: console.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			if m.From == "" || (m.To == "") != follow {
				return console.Usage("%q needs --from, and either --to or --follow", cmd.CommandPath())
			}
			if err := sure.Ask(cmd, "Move the instances of build "+m.From+"?"); err != nil {
				return err
			}
			return h.UseEngine(cmd, false, func(ctx context.Context, engine *abide.Client) error {
				return move(ctx, cmd, &h, engine, m)
			})
		},
	}
	f := cmd.Flags()
	f.StringVar(&m.From, "from", "", "the build that they are pinned to")
	f.StringVar(&m.To, "to", "", "the build to pin them to")
	f.BoolVar(&follow, "follow", false, "any build may run them from then on")
	f.StringSliceVar(&m.Orchestrations, "orchestration", nil, "those of these orchestrations alone, as NAME or NAME@VERSION")
	f.BoolVar(&m.Live, "live", false, "although workers of the build are alive")
	sure.AddTo(cmd)
	h.AddPlaceTo(cmd)
	return cmd
}

// move moves instances, a part at a time.
func move(ctx context.Context, cmd *cobra.Command, h *connect.Home, engine *abide.Client, m abide.BuildMove) error {
	total := 0
	for more := true; more; {
		moved, err := engine.MoveBuild(ctx, m)
		total += moved.Moved
		if err != nil {
			return err
		}
		more = moved.More && moved.Moved > 0
	}
	return h.Out.Print(cmd.OutOrStdout(), api.BuildMoved{Moved: total}, func(w io.Writer) error {
		_, err := fmt.Fprintf(w, "%s moved\n", console.Counted(total, "instance"))
		return err
	})
}
