// Package shards has the commands that show the shards of a store, and move tenants between them.
package shards

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"io"
	"strconv"
	"strings"
	"time"

	"github.com/abidehq/abide/internal/cli/connect"
	"github.com/abidehq/abide/internal/cli/console"

	"github.com/spf13/cobra"

	"github.com/abidehq/abide"
	"github.com/abidehq/abide/store"
	"github.com/abidehq/abide/store/shardstore"
)

// New returns the command abide shards.
func New() *cobra.Command {
	return console.Group(&cobra.Command{
		Use:   "shards",
		Short: "Show the shards of a store, and move tenants between them",
		Long: `A store of several shards has a URL such as shards:///etc/abide/shards, which names a file with a
line for each shard: its name, a space, and the URL of a store. These commands work on the store
itself, while servers run on it.`,
	}, newAdd(), newDrain(), newList(), newMove(), newRemove(), newResume())
}

// flags are those of all verbs.
type flags struct {
	url  string
	pace float64
	out  console.Output
}

// command makes cmd a verb that calls f with the open store.
func (f *flags) command(cmd *cobra.Command, do func(cmd *cobra.Command, s *shardstore.Store, args []string) error) *cobra.Command {
	cmd.RunE = func(cmd *cobra.Command, args []string) error {
		if err := f.out.Check(cmd); err != nil {
			return err
		}
		s, err := f.open(cmd.Context())
		if err != nil {
			return err
		}
		err = do(cmd, s, args)
		if errors.Is(err, store.ErrInvalid) {
			err = console.AsUsage(err)
		}
		return errors.Join(err, s.Close())
	}
	cmd.Flags().StringVar(&f.url, "store", "", "URL of the store, shards:///etc/abide/shards; that of $"+connect.EnvStore+" if not given")
	f.out.AddTo(cmd)
	return cmd
}

// addPace adds the flag of verbs that move something.
func (f *flags) addPace(cmd *cobra.Command) *cobra.Command {
	cmd.Flags().Float64Var(&f.pace, "pace", shardstore.DefaultPace, "share of the time in which it copies, up to 1; less slows others down less, and takes longer")
	return cmd
}

// open opens the store.
func (f *flags) open(ctx context.Context) (*shardstore.Store, error) {
	p, err := connect.FindStore(f.url)
	if err != nil {
		return nil, err
	}
	if !strings.HasPrefix(p.URL, "shards:") {
		return nil, console.Usage("%s is not a store of several shards: a URL looks like shards:///etc/abide/shards", p.Shown)
	}
	s, err := shardstore.Open(ctx, strings.TrimPrefix(p.URL, "shards://"), shardstore.Options{Mover: true, Pace: f.pace})
	if errors.Is(err, store.ErrInvalid) {
		return nil, console.AsUsage(err)
	}
	return s, err
}

// shardView is what programs read of a shard.
type shardView struct {
	Name    string `json:"name"`
	Listed  bool   `json:"listed"`
	Slots   int    `json:"slots"`
	Tenants int    `json:"tenants"`
	Pending int    `json:"pending"`
	Leases  int    `json:"leases"`
	Bytes   int64  `json:"bytes"`
	Error   string `json:"error,omitempty"`
}

// listView is what programs read of all.
type listView struct {
	Version int64       `json:"version"`
	Home    string      `json:"home"`
	Shards  []shardView `json:"shards"`
	Move    *moveView   `json:"move,omitempty"`
}

// moveView is what programs read of a move.
type moveView struct {
	Unit        string    `json:"unit"`
	From        string    `json:"from"`
	To          string    `json:"to"`
	Stage       string    `json:"stage"`
	Round       int       `json:"round"`
	Done        int       `json:"done"`
	Of          int       `json:"of"`
	SeenAt      time.Time `json:"seen_at,omitzero"`
	Interrupted bool      `json:"interrupted,omitempty"`
}

func newList() *cobra.Command {
	f := &flags{}
	return f.command(&cobra.Command{
		Use:   "list",
		Short: "List the shards, what they hold, and the move under way",
		Long: `List the shards with how many slots they have, how many tenants that were moved there by
themselves, and what they hold. A shard that is down is listed with the error. A move that is under
way, or was interrupted, is shown below the table.`,
		Example: `  abide shards list --store shards:///etc/abide/shards`,
		Args:    console.NoArgs,
	}, func(cmd *cobra.Command, s *shardstore.Store, _ []string) error {
		shards, err := s.Shards(cmd.Context())
		if err != nil {
			return err
		}
		view := viewList(&shards)
		return f.out.Print(cmd.OutOrStdout(), view, view.Write)
	})
}

func viewList(shards *store.Shards) listView {
	view := listView{Version: shards.Version, Home: shards.Home}
	for i := range shards.List {
		sh := &shards.List[i]
		row := shardView{Name: sh.Name, Listed: sh.Listed, Slots: sh.Slots, Tenants: sh.Tenants, Pending: sh.Pending(), Leases: sh.Stats.Leases, Bytes: sh.Stats.Bytes}
		if sh.Err != nil {
			row.Error = sh.Err.Error()
		}
		view.Shards = append(view.Shards, row)
	}
	if m := shards.Move; m != nil {
		unit := unitText(shardstore.Unit{Tenant: m.Tenant, Slot: m.Slot})
		view.Move = &moveView{unit, m.From, m.To, m.Stage, m.Round, m.Done, m.Of, m.SeenAt, m.Interrupted}
	}
	return view
}

// Write prints the list for people.
func (v listView) Write(w io.Writer) error {
	t := console.NewTable(w, "SHARD", "SLOTS", "TENANTS", "PENDING", "LEASES", "BYTES", "STATUS")
	for _, sh := range v.Shards {
		status := "up"
		switch {
		case sh.Error != "":
			status = "down: " + sh.Error
		case !sh.Listed:
			status = "not added"
		}
		t.Add(console.Row(sh.Name, sh.Slots, sh.Tenants, sh.Pending, sh.Leases, sh.Bytes, status)...)
	}
	if err := t.Write(w); err != nil {
		return err
	}
	if m := v.Move; m != nil {
		how := fmt.Sprintf("round %d, %d of %d keys and records", m.Round, m.Done, m.Of)
		if m.Interrupted {
			how = `interrupted; "abide shards resume" goes on with it`
		}
		_, err := fmt.Fprintf(w, "\nMove of %s from %s to %s, stage %s: %s.\n", m.Unit, m.From, m.To, m.Stage, how)
		return err
	}
	return nil
}

// unitText returns a unit for people, with the name of the default tenant.
func unitText(u shardstore.Unit) string {
	if u.Slot < 0 {
		return "tenant " + strconv.Quote(cmp.Or(u.Tenant, abide.DefaultTenant))
	}
	return u.String()
}

func newAdd() *cobra.Command {
	f := &flags{}
	return f.command(&cobra.Command{
		Use:   "add SHARD",
		Short: "Add a shard to the directory",
		Long: `Add a shard to the directory. Every process must be configured with it first: add its line to the
file of shards everywhere, restart the processes one by one, and then add it. It has no tenants
until some are moved there, and must be empty.`,
		Example: `  abide shards add c`,
		Args:    console.OneArg("the name of a shard"),
	}, func(cmd *cobra.Command, s *shardstore.Store, args []string) error {
		return s.AddShard(cmd.Context(), args[0])
	})
}

func newRemove() *cobra.Command {
	f := &flags{}
	return f.command(&cobra.Command{
		Use:   "remove SHARD",
		Short: "Remove a shard from the directory",
		Long: `Remove a shard that has no tenants from the directory: drain it first. After that its line can be
removed from the file of shards, on one machine after another.`,
		Example: `  abide shards remove a`,
		Args:    console.OneArg("the name of a shard"),
	}, func(cmd *cobra.Command, s *shardstore.Store, args []string) error {
		return s.RemoveShard(cmd.Context(), args[0])
	})
}

func newMove() *cobra.Command {
	f := &flags{}
	var tenant string
	var slots []int
	cmd := f.command(&cobra.Command{
		Use:   "move SHARD --tenant TENANT | --slot N,…",
		Short: "Move a tenant, or slots, to a shard",
		Long: `Move a tenant, or slots with their tenants, to a shard while everything runs. A copy is made in the
background. Then the tenant is closed for a moment, its calls wait, what has changed meanwhile is
copied, and it is on the other shard. The same command continues a move that was interrupted.`,
		Example: `  abide shards move b --tenant acme
  abide shards move b --slot 17,18,19`,
		Args: console.OneArg("the name of a shard"),
	}, func(cmd *cobra.Command, s *shardstore.Store, args []string) error {
		units, err := unitsOf(cmd, tenant, slots)
		if err != nil {
			return err
		}
		p := newProgress(cmd.ErrOrStderr())
		for _, u := range units {
			if err := s.Move(cmd.Context(), u, args[0], p.set); err != nil {
				return p.end(err)
			}
		}
		return p.end(nil)
	})
	cmd.Flags().StringVar(&tenant, "tenant", "", "the tenant to move")
	cmd.Flags().IntSliceVar(&slots, "slot", nil, "the slots to move, 0 to 1023")
	return f.addPace(cmd)
}

// unitsOf returns what the flags ask to move.
func unitsOf(cmd *cobra.Command, tenant string, slots []int) (units []shardstore.Unit, err error) {
	if cmd.Flags().Changed("tenant") == (len(slots) > 0) {
		return nil, console.Usage("needs either --tenant or --slot")
	}
	if len(slots) == 0 {
		if tenant == abide.DefaultTenant {
			tenant = ""
		}
		return []shardstore.Unit{shardstore.OneTenant(tenant)}, nil
	}
	for _, slot := range slots {
		if slot < 0 || slot >= shardstore.Slots {
			return nil, console.Usage("--slot is %d, 0 to %d is allowed", slot, shardstore.Slots-1)
		}
		units = append(units, shardstore.OneSlot(slot))
	}
	return units, nil
}

func newDrain() *cobra.Command {
	f := &flags{}
	return f.addPace(f.command(&cobra.Command{
		Use:   "drain SHARD",
		Short: "Move everything from a shard to the others",
		Long: `Move all slots and tenants of a shard to the others, slot by slot, each to the shard that has the
fewest. The same command continues a drain that was interrupted.`,
		Example: `  abide shards drain a`,
		Args:    console.OneArg("the name of a shard"),
	}, func(cmd *cobra.Command, s *shardstore.Store, args []string) error {
		p := newProgress(cmd.ErrOrStderr())
		return p.end(s.Drain(cmd.Context(), args[0], p.set))
	}))
}

func newResume() *cobra.Command {
	f := &flags{}
	return f.addPace(f.command(&cobra.Command{
		Use:     "resume",
		Short:   "Go on with a move that was interrupted",
		Example: `  abide shards resume`,
		Args:    console.NoArgs,
	}, func(cmd *cobra.Command, s *shardstore.Store, _ []string) error {
		p := newProgress(cmd.ErrOrStderr())
		return p.end(s.Resume(cmd.Context(), p.set))
	}))
}

// progress shows a bar for each stage, and how long each unit was closed.
type progress struct {
	w     io.Writer
	bar   *console.Progress
	shown string
}

func newProgress(w io.Writer) *progress { return &progress{w: w} }

func (p *progress) set(at shardstore.Progress) {
	what := fmt.Sprintf("%s: %s", unitText(at.Unit), at.Stage)
	if p.bar == nil || p.shown != what {
		p.stop()
		p.bar, p.shown = console.NewProgress(p.w, what, at.Of), what
		if at.Stage == shardstore.Cleaning && at.Closed > 0 {
			_, _ = fmt.Fprintf(p.w, "%s is on shard %s; it was closed for %v\n", unitText(at.Unit), at.To, at.Closed.Round(time.Millisecond))
		}
	}
	p.bar.Set(at.Done, at.Of)
}

func (p *progress) stop() {
	if p.bar != nil {
		p.bar.End()
		p.bar = nil
	}
}

func (p *progress) end(err error) error {
	p.stop()
	return err
}
