package cli

import (
	"errors"
	"fmt"
	"io"
	"net/url"
	"strconv"
	"strings"

	"github.com/spf13/cobra"

	"github.com/abidehq/abide/internal/transfer"
	"github.com/abidehq/abide/server/api"
)

func newStoreCopy() *cobra.Command {
	var out output
	cmd := &cobra.Command{
		Use:   "copy FROM TO",
		Short: "Copy a store into an empty one, of any kind",
		Long: `Copy all that a store holds into an empty one, of the same kind or another: instances with their
histories, pending messages with their times and attempts, timers, actions, schedules, what is in
quarantine, tokens and the audit log. The source stays as it is.

Nothing may run on either store meanwhile: one that is in use is refused. If the copy is
interrupted, however hard, the same command goes on with it; until it has ended, nothing runs on
the target. At the end both stores are read and compared, tenant by tenant. The exit code is 1 if
a tenant is not the same on both sides, and 4 if a store is in use, the target is not empty, or
the source has changed since the copy was begun.

` + storeHelp,
		Example: `  abide store copy /var/lib/abide postgres://abide@db/abide
  abide store copy pebble:///var/lib/abide sqlite:///var/lib/abide.db -o json`,
		Args: twoArgs("the store to copy", "the store to copy it to"),
		RunE: func(cmd *cobra.Command, args []string) error {
			if err := out.check(cmd); err != nil {
				return err
			}
			report, err := copyStore(cmd, args[0], args[1])
			if err != nil {
				return err
			}
			view := viewCopy(&report)
			if err := out.print(cmd.OutOrStdout(), view, view.write); err != nil {
				return err
			}
			if differing := report.Differing(); len(differing) > 0 {
				return fmt.Errorf("%d of %d tenants are not the same: %s; the target must not be used, begin again with an empty one",
					len(differing), len(report.Tenants), shorten(strings.Join(namesOf(differing), ", "), 200))
			}
			return nil
		},
	}
	out.addTo(cmd)
	return cmd
}

// copyStore copies, with a bar.
func copyStore(cmd *cobra.Command, from, to string) (report transfer.Report, err error) {
	ctx := cmd.Context()
	source, err := existing(from)
	if err != nil {
		return report, err
	}
	target, err := findStore(to)
	if err != nil {
		return report, err
	}
	switch {
	case source.inMemory() || target.inMemory():
		return report, usage("a store in memory is gone when its process ends: it can be neither copied nor copied to")
	case source.url == target.url:
		return report, usage("FROM and TO are the same store, %s", source.shown)
	}
	s, err := source.inspected().openAlone(ctx)
	if err != nil {
		return report, err
	}
	defer func() { err = errors.Join(err, s.close()) }()
	t, err := target.openAlone(ctx)
	if err != nil {
		return report, err
	}
	defer func() { err = errors.Join(err, t.close()) }()

	bar := &stagedProgress{w: cmd.ErrOrStderr()}
	defer bar.end()
	c := transfer.Copy{From: s.store, To: t.store, Source: source.identity(), Progress: bar.set}
	report, err = c.Run(ctx)
	if ctx.Err() != nil {
		bar.end()
		cmd.PrintErrln("The copy is not finished, and nothing runs on the target: the same command goes on with it.")
	}
	return report, err
}

// inMemory reports whether the store is gone when its process ends.
func (p place) inMemory() bool { return strings.HasPrefix(p.url, "memory:") }

// identity names the store in the target of a copy: as it is written, but without what
// must not be written down.
func (p place) identity() string {
	u, err := url.Parse(p.url)
	if err != nil {
		return p.shown
	}
	u.User, u.RawQuery = nil, ""
	return u.String()
}

// stagedProgress shows one bar after the other.
type stagedProgress struct {
	w     io.Writer
	stage transfer.Stage
	bar   *progress
}

func (s *stagedProgress) set(p transfer.Progress) {
	if s.bar == nil || s.stage != p.Stage {
		s.end()
		s.stage, s.bar = p.Stage, newProgress(s.w, string(p.Stage), p.Of)
	}
	s.bar.set(p.Done, p.Of)
}

func (s *stagedProgress) end() {
	if s.bar != nil {
		s.bar.end()
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
		row.Tenant = api.FromTenant(r.Tenants[i].Tenant)
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

// write prints the copy for people: a line for each tenant, and one more for what the
// target has instead.
func (v copyView) write(w io.Writer) error {
	t := newTable(w, "TENANT", "KEYS", "MESSAGES", "ENTRIES", "RECORDS", "CHECKSUM", "SAME")
	for i := range v.Tenants {
		row := &v.Tenants[i]
		t.add(row.cells(plain(row.Tenant))...)
		if row.Target != nil {
			t.add(row.Target.cells(cell{"  in the target", faint})...)
		}
	}
	if len(v.Tenants) != 1 {
		t.add(v.Total.cells(cell{"(all)", faint})...)
	}
	if err := t.write(w); err != nil || !v.Resumed {
		return err
	}
	_, err := fmt.Fprintln(w, "\nIt went on with a copy that was interrupted.")
	return err
}

func (v *tenantView) cells(name cell) []cell {
	same := cell{"yes", green}
	if !v.Same {
		same = cell{"no", red}
	}
	return []cell{
		name, plain(strconv.Itoa(v.Keys)), plain(strconv.Itoa(v.Messages)), plain(strconv.Itoa(v.Entries)),
		plain(strconv.Itoa(v.Records)), plain(v.Checksum[:16]), same,
	}
}

// namesOf returns the names of tenants for a sentence.
func namesOf(tenants []string) []string {
	names := make([]string, len(tenants))
	for i, tenant := range tenants {
		names[i] = api.FromTenant(tenant)
	}
	return names
}
