package store

import (
	"cmp"
	"errors"
	"fmt"
	"io"
	"net/url"
	"strings"

	"github.com/abidehq/abide/internal/cli/connect"
	"github.com/abidehq/abide/internal/cli/console"

	"github.com/spf13/cobra"

	"github.com/abidehq/abide"
	"github.com/abidehq/abide/internal/transfer"
)

func newStoreCopy() *cobra.Command {
	var out console.Output
	cmd := &cobra.Command{
		Use:   "copy FROM TO",
		Short: "Copy a store into an empty one, of any kind",
		Long: `Copy all that a store holds into an empty one, of the same kind or another: instances with their
histories, pending messages with their times and attempts, timers, actions, schedules, what is in
quarantine, tokens and the audit log. The source stays as it is.

Nothing may run on either store meanwhile: one that is in use is refused. If the copy is
interrupted, even by a crash, the same command continues it; until it has ended, nothing runs on
the target. At the end both stores are read and compared, tenant by tenant. The exit code is 1 if
a tenant is not the same on both sides, and 4 if a store is in use, the target is not empty, or
the source has changed since the copy was begun.

` + storeHelp,
		Example: `  abide store copy /var/lib/abide postgres://abide@db/abide
  abide store copy pebble:///var/lib/abide sqlite:///var/lib/abide.db -o json`,
		Args: console.TwoArgs("the store to copy", "the store to copy it to"),
		RunE: func(cmd *cobra.Command, args []string) error {
			if err := out.Check(cmd); err != nil {
				return err
			}
			report, err := copyStore(cmd, args[0], args[1])
			if err != nil {
				return err
			}
			view := viewCopy(&report)
			if err := out.Print(cmd.OutOrStdout(), view, view.Write); err != nil {
				return err
			}
			if differing := report.Differing(); len(differing) > 0 {
				return fmt.Errorf("%d of %d tenants are not the same: %s; the target must not be used, begin again with an empty one",
					len(differing), len(report.Tenants), console.Shorten(strings.Join(namesOf(differing), ", "), 200))
			}
			return nil
		},
	}
	out.AddTo(cmd)
	return cmd
}

// copyStore copies, with a bar.
func copyStore(cmd *cobra.Command, from, to string) (report transfer.Report, err error) {
	ctx := cmd.Context()
	source, err := existing(from)
	if err != nil {
		return report, err
	}
	target, err := connect.FindStore(to)
	if err != nil {
		return report, err
	}
	switch {
	case inMemory(source) || inMemory(target):
		return report, console.Usage("a store in memory is gone when its process ends: it can be neither copied nor copied to")
	case source.URL == target.URL:
		return report, console.Usage("FROM and TO are the same store, %s", source.Shown)
	}
	s, err := openAlone(ctx, inspected(source))
	if err != nil {
		return report, err
	}
	defer func() { err = errors.Join(err, s.Close()) }()
	t, err := openAlone(ctx, target)
	if err != nil {
		return report, err
	}
	defer func() { err = errors.Join(err, t.Close()) }()

	bar := &stagedProgress{w: cmd.ErrOrStderr()}
	defer bar.End()
	c := transfer.Copy{From: s.store, To: t.store, Source: Identity(source), Progress: bar.Set}
	report, err = c.Run(ctx)
	if ctx.Err() != nil {
		bar.End()
		cmd.PrintErrln("The copy is not finished, and nothing runs on the target: the same command goes on with it.")
	}
	return report, err
}

// inMemory reports whether the store is gone when its process ends.
func inMemory(p connect.Place) bool { return strings.HasPrefix(p.URL, "memory:") }

// Identity names the store in the target of a copy: as it is written, but without what
// must not be written down.
func Identity(p connect.Place) string {
	u, err := url.Parse(p.URL)
	if err != nil {
		return p.Shown
	}
	u.User, u.RawQuery = nil, ""
	return u.String()
}

// stagedProgress shows one bar after the other.
type stagedProgress struct {
	w     io.Writer
	stage transfer.Stage
	bar   *console.Progress
}

func (s *stagedProgress) Set(p transfer.Progress) {
	if s.bar == nil || s.stage != p.Stage {
		s.End()
		s.stage, s.bar = p.Stage, console.NewProgress(s.w, string(p.Stage), p.Of)
	}
	s.bar.Set(p.Done, p.Of)
}

func (s *stagedProgress) End() {
	if s.bar != nil {
		s.bar.End()
	}
}

// copyView is what programs read of a copy.
type copyView struct {
	Resumed bool         `json:"resumed"`
	Same    bool         `json:"same"`
	Tenants []tenantView `json:"tenants"`
	Total   tenantView   `json:"total"`
}

// tenantView is what the source has of a tenant, and whether the target has the same.
type tenantView struct {
	Tenant   string `json:"tenant,omitempty"`
	Keys     int    `json:"keys"`
	Messages int    `json:"messages"`
	Entries  int    `json:"entries"`
	Records  int    `json:"records"`
	Checksum string `json:"checksum"`
	Same     bool   `json:"same"`

	// Target is what the target has, if that is not the same.
	Target *tenantView `json:"target,omitempty"`
}

func viewCopy(r *transfer.Report) copyView {
	view := copyView{Resumed: r.Resumed, Same: len(r.Differing()) == 0, Total: viewTenant(&r.Total), Tenants: []tenantView{}}
	for i := range r.Tenants {
		row := viewTenant(&r.Tenants[i])
		row.Tenant = cmp.Or(r.Tenants[i].Tenant, abide.DefaultTenant)
		view.Tenants = append(view.Tenants, row)
	}
	return view
}

func viewTenant(c *transfer.Comparison) tenantView {
	view := viewSum(c.From)
	if view.Same = c.Same(); !view.Same {
		target := viewSum(c.To)
		view.Target = &target
	}
	return view
}

func viewSum(s transfer.Sum) tenantView {
	return tenantView{Keys: s.Keys, Messages: s.Messages, Entries: s.Entries, Records: s.Records, Checksum: s.Checksum()}
}

// Write prints the copy for people: a line for each tenant, and one more for what the
// target has instead.
func (v copyView) Write(w io.Writer) error {
	t := console.NewTable(w, "TENANT", "KEYS", "MESSAGES", "ENTRIES", "RECORDS", "CHECKSUM", "SAME")
	for i := range v.Tenants {
		row := &v.Tenants[i]
		t.Add(row.cells(console.Plain(row.Tenant))...)
		if row.Target != nil {
			t.Add(row.Target.cells(console.Cell{Text: "  in the target", Colour: console.Faint})...)
		}
	}
	if len(v.Tenants) != 1 {
		t.Add(v.Total.cells(console.Cell{Text: "(all)", Colour: console.Faint})...)
	}
	if err := t.Write(w); err != nil || !v.Resumed {
		return err
	}
	_, err := fmt.Fprintln(w, "\nIt went on with a copy that was interrupted.")
	return err
}

func (v *tenantView) cells(name console.Cell) []console.Cell {
	same := console.Cell{Text: "yes", Colour: console.Green}
	if !v.Same {
		same = console.Cell{Text: "no", Colour: console.Red}
	}
	return console.Row(name, v.Keys, v.Messages, v.Entries, v.Records, v.Checksum[:16], same)
}

// namesOf returns the names of tenants for a sentence.
func namesOf(tenants []string) []string {
	names := make([]string, len(tenants))
	for i, tenant := range tenants {
		names[i] = cmp.Or(tenant, abide.DefaultTenant)
	}
	return names
}
