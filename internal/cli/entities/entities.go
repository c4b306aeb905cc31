package entities

import (
	"context"
	"fmt"
	"io"
	"strconv"
	"strings"

	"github.com/spf13/cobra"

	"github.com/abidehq/abide"
	"github.com/abidehq/abide/history"
	"github.com/abidehq/abide/internal/cli/connect"
	"github.com/abidehq/abide/internal/cli/console"
	"github.com/abidehq/abide/server/api"
)

// New returns the command abide entities.
func New() *cobra.Command {
	return console.Group(
		&cobra.Command{
			Use:   "entities",
			Short: "List, show and signal entities",
			Long: `An entity is a durable object: it has a state, and operations that run one after the other.
Its ID is @NAME@KEY.

` + connect.HomeHelp,
		},
		newList(), newShow(), newSignal(),
	)
}

// entityID is what the commands take.
const entityID = "the ID of an entity, @NAME@KEY"

// list is the verb: abide entities list.
type list struct {
	connect.Home
	console.Paging
	console.Watching
	prefix     string
	empty, all bool
}

func newList() *cobra.Command {
	l := &list{}
	cmd := &cobra.Command{
		Use:   "list",
		Short: "List entities",
		Long:  "List entities in the order in which they were modified.",
		Example: `  abide entities list
  abide entities list --prefix @cart@ -o json`,
		Args: console.NoArgs,
		RunE: l.run,
	}
	f := cmd.Flags()
	f.SortFlags = false
	f.StringVar(&l.prefix, "prefix", "", "those whose ID begins with that, such as @cart@")
	f.BoolVar(&l.empty, "empty", false, "also those that have no state and are only locked")
	f.BoolVar(&l.all, "all-tenants", false, "those of all tenants")
	l.Paging.AddTo(cmd)
	l.Watching.AddTo(cmd)
	l.Home.AddTo(cmd)
	return cmd
}

func (l *list) run(cmd *cobra.Command, _ []string) error {
	tenant, err := console.TenantOrAll(cmd, l.Tenant, l.all)
	if err != nil {
		return err
	}
	filter := abide.EntityFilter{Prefix: l.prefix, Empty: l.empty}
	if !l.all {
		filter.Tenant = &tenant
	}
	return l.UseEngine(cmd, false, func(ctx context.Context, engine *abide.Client) error {
		return rows.PrintPages(ctx, cmd, &l.Out, l.Paging, l.Watch, func(ctx context.Context, limit int, cursor string) ([]abide.EntityInfo, string, error) {
			filter.Limit, filter.Cursor = limit, cursor
			page, err := engine.Entities(ctx, filter)
			return page.Entities, page.Next, err
		})
	})
}

// rows prints entities.
var rows = console.Rows[abide.EntityInfo, api.Entity]{
	Noun:   "entities",
	Titles: []string{"ID", "TENANT", "MODIFIED", "LOCKED BY", "WAITING", "STATE"},
	Row: func(e *abide.EntityInfo) []console.Cell {
		return console.Row(e.Ref.ID, e.Ref.Tenant, e.ModifiedAt, e.LockedBy, e.Backlog, console.Shorten(text(e.State), 80))
	},
	Wire: api.FromEntity,
	Key:  func(e *abide.EntityInfo) [2]string { return [2]string{e.Ref.Tenant, e.Ref.ID} },
	Page: func(all []api.Entity, next string) any { return api.EntityList{Entities: all, NextPageToken: next} },
}

// text returns a payload for people.
func text(data []byte) string { return string(api.FromPayload(data)) }

func newShow() *cobra.Command {
	var h connect.Home
	cmd := &cobra.Command{
		Use:     "show ID",
		Short:   "Show an entity",
		Long:    "Show the state of an entity, which instance has locked it, and what waits for the lock.",
		Example: `  abide entities show @cart@customer-7`,
		Args:    console.OneArg(entityID),
		RunE: func(cmd *cobra.Command, args []string) error {
			return h.UseEngine(cmd, false, func(ctx context.Context, engine *abide.Client) error {
				e, err := engine.Entity(ctx, abide.Ref{Tenant: h.Tenant, ID: args[0]})
				if err != nil {
					return err
				}
				return h.Out.Print(cmd.OutOrStdout(), api.FromEntity(&e), func(w io.Writer) error { return show(w, &e) })
			})
		},
	}
	h.AddTo(cmd)
	return cmd
}

// show prints all there is about an entity.
func show(w io.Writer, e *abide.EntityInfo) error {
	fields := [][2]string{
		{"id", e.Ref.ID},
		{"tenant", e.Ref.Tenant},
		{"modified", console.LocalTime(e.ModifiedAt)},
		{"state", text(e.State)},
		{"locked by", e.LockedBy},
	}
	if e.Backlog > 0 {
		fields = append(fields, [2]string{"waiting", strconv.Itoa(e.Backlog)})
	}
	for _, wait := range e.Waiting {
		what := map[history.Kind]string{
			history.EntityCalled: "call of ", history.EntitySignaled: "signal ", history.EntityLockRequested: "request for the lock",
		}[wait.Kind] + wait.Operation
		if wait.From != "" {
			what += " by " + wait.From
		}
		fields = append(fields, [2]string{"", what})
	}
	return console.WriteFields(w, fields)
}

// signal is the verb: abide entities signal.
type signal struct {
	connect.Home
	input, id string
}

func newSignal() *cobra.Command {
	s := &signal{}
	cmd := &cobra.Command{
		Use:   "signal ID OPERATION",
		Short: "Send an operation to an entity",
		Long: `Send an operation to an entity, which need not exist, and do not wait until it has run. Its
result, or its failure, is not reported.`,
		Example: `  abide entities signal @cart@customer-7 add --input 2
  abide entities signal @cart@customer-7 add --input @item.json --request-id item-77`,
		Args: console.TwoArgs(entityID, "the name of an operation"),
		RunE: s.run,
	}
	f := cmd.Flags()
	f.SortFlags = false
	f.StringVar(&s.input, "input", "", "JSON that comes with it; @FILE for that of a file, @- for standard input")
	f.StringVar(&s.id, "request-id", "", "a name of your own: what is sent twice runs once, as long as it is among the last that the entity has received")
	s.Home.AddTo(cmd)
	return cmd
}

func (s *signal) run(cmd *cobra.Command, args []string) error {
	input, err := console.ReadJSON(cmd, "input", s.input)
	if err != nil {
		return err
	}
	id, err := abide.ParseEntityID(args[0])
	if err != nil {
		return err
	}
	return s.UseEngine(cmd, true, func(ctx context.Context, engine *abide.Client) error {
		r := abide.SignalRequest{Ref: abide.Ref{Tenant: s.Tenant, ID: id.String()}, Operation: args[1], Input: input, ID: s.id}
		if err := engine.Signal(ctx, r); err != nil {
			return err
		}
		out := map[string]string{"tenant": s.Tenant, "id": r.Ref.ID, "operation": r.Operation}
		return s.Out.Print(cmd.OutOrStdout(), out, func(w io.Writer) error {
			_, err := fmt.Fprintln(w, strings.Join([]string{r.Ref.ID, r.Operation, "sent"}, " "))
			return err
		})
	})
}
