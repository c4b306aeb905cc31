package instances

import (
	"context"
	"errors"
	"fmt"
	"io"
	"maps"
	"slices"
	"strconv"
	"time"

	"github.com/abidehq/abide/internal/cli/connect"
	"github.com/abidehq/abide/internal/cli/console"

	"github.com/spf13/cobra"

	"github.com/abidehq/abide/internal/backoff"
	"github.com/abidehq/abide/internal/base"
	"github.com/abidehq/abide/remote"
	"github.com/abidehq/abide/server/api"
	"github.com/abidehq/abide/server/operation"
)

// NewOperations returns the command abide operations.
func NewOperations() *cobra.Command {
	return console.Group(
		&cobra.Command{
			Use:     "operations",
			Aliases: []string{"operation"},
			Short:   "Show and cancel operations on many instances",
			Long: `An operation does one thing to many instances: 'abide instances cancel --all' starts one, and so
do terminate, suspend, resume, restart, rewind and delete. It continues if its process dies,
and is kept for a week after it has ended.

` + connect.HomeHelp,
		},
		newOperationsList(), newOperationsShow(), newOperationsWatch(), newOperationsCancel(),
	)
}

// operationID is what most of the commands take.
const operationID = "the ID of an operation"

// useOperations calls f with the operations.
func useOperations(h *connect.Home, cmd *cobra.Command, f func(ctx context.Context, b connect.Backend, operations connect.OperationsAPI) error) error {
	return h.Use(cmd, false, func(ctx context.Context, b connect.Backend) error {
		operations, err := b.Operations()
		if err != nil {
			return err
		}
		return f(ctx, b, operations)
	})
}

// operationHome has the flags of a command that names an operation.
type operationHome struct {
	connect.Home
	tenants bool
}

func (h *operationHome) AddTo(cmd *cobra.Command) {
	cmd.Flags().BoolVar(&h.tenants, "all-tenants", false, "an operation about all tenants")
	h.Home.AddTo(cmd)
}

// useNamed calls f with the operations, after tenant was set to that of the operation.
func (h *operationHome) useNamed(cmd *cobra.Command, f func(ctx context.Context, b connect.Backend, operations connect.OperationsAPI) error) error {
	var err error
	if h.Tenant, err = console.TenantOrAll(cmd, h.Tenant, h.tenants); err != nil {
		return err
	}
	return useOperations(&h.Home, cmd, f)
}

// operationsList is the verb: abide operations list.
type operationsList struct {
	connect.Home
	console.Paging
	console.Watching
	statuses, kinds []string
	tenants         bool
}

func newOperationsList() *cobra.Command {
	l := &operationsList{}
	cmd := &cobra.Command{
		Use:   "list",
		Short: "List operations, the latest first",
		Example: `  abide operations list
  abide operations list --status running --all-tenants --watch`,
		Args: console.NoArgs,
		RunE: l.run,
	}
	f := cmd.Flags()
	f.SortFlags = false
	f.StringSliceVar(&l.statuses, "status", nil, "those with one of these statuses: "+console.ListOf(operation.Statuses))
	f.StringSliceVar(&l.kinds, "kind", nil, "those of one of these kinds: "+console.ListOf(operation.Kinds))
	f.BoolVar(&l.tenants, "all-tenants", false, "those about all tenants too, and about each")
	l.Paging.AddTo(cmd)
	l.Watching.AddTo(cmd)
	l.Home.AddTo(cmd)
	return cmd
}

// filter returns what the flags say.
func (l *operationsList) filter(cmd *cobra.Command) (f remote.OperationFilter, err error) {
	if f.Tenant, err = console.TenantOrAll(cmd, l.Tenant, l.tenants); err != nil {
		return f, err
	}
	if _, err := console.OneOf("status", l.statuses, operation.Statuses); err != nil {
		return f, err
	}
	if _, err := console.OneOf("kind", l.kinds, operation.Kinds); err != nil {
		return f, err
	}
	f.Statuses, f.Kinds = l.statuses, l.kinds
	return f, nil
}

func (l *operationsList) run(cmd *cobra.Command, _ []string) error {
	filter, err := l.filter(cmd)
	if err != nil {
		return err
	}
	return useOperations(&l.Home, cmd, func(ctx context.Context, _ connect.Backend, operations connect.OperationsAPI) error {
		return operationRows.PrintPages(ctx, cmd, &l.Out, l.Paging, l.Watch, func(ctx context.Context, limit int, cursor string) ([]api.Operation, string, error) {
			filter.Limit, filter.Cursor = limit, cursor
			page, err := operations.List(ctx, filter)
			return page.Operations, page.NextPageToken, err
		})
	})
}

// operationRows prints operations.
var operationRows = console.Rows[api.Operation, api.Operation]{
	Noun:   "operations",
	Titles: []string{"ID", "KIND", "TENANT", "STATUS", "STARTED", "DONE", "SKIPPED", "FAILED", "BY", "REASON"},
	Row: func(o *api.Operation) []console.Cell {
		return console.Row(o.ID, o.Kind, tenantsOf(o), console.StatusCell(o.Status), o.CreatedAt, o.Done, o.Skipped, o.Failed, o.By, console.Shorten(o.Reason, 60))
	},
	Wire: console.Same[api.Operation],
	Key:  func(o *api.Operation) [2]string { return [2]string{o.Filter.Tenant, o.ID} },
	Page: func(all []api.Operation, next string) any {
		return api.OperationList{Operations: all, NextPageToken: next}
	},
}

// tenantsOf says whose instances an operation is about.
func tenantsOf(o *api.Operation) string {
	if o.Filter.Tenant == "" {
		return "(all)"
	}
	return o.Filter.Tenant
}

func newOperationsShow() *cobra.Command {
	var h operationHome
	cmd := &cobra.Command{
		Use:     "show ID",
		Short:   "Show an operation",
		Example: "  abide operations show 0198c0de",
		Args:    console.OneArg(operationID),
		RunE: func(cmd *cobra.Command, args []string) error {
			return h.useNamed(cmd, func(ctx context.Context, _ connect.Backend, operations connect.OperationsAPI) error {
				o, err := operations.Get(ctx, h.Tenant, args[0])
				if err != nil {
					return err
				}
				return h.Out.Print(cmd.OutOrStdout(), o, func(w io.Writer) error { return showOperation(w, &o) })
			})
		},
	}
	h.AddTo(cmd)
	return cmd
}

// showOperation prints all there is about an operation.
func showOperation(w io.Writer, o *api.Operation) error {
	total := ""
	if o.Total > 0 {
		total = "about " + strconv.Itoa(o.Total)
	}
	f := &o.Filter
	fields := [][2]string{
		{"id", o.ID},
		{"kind", o.Kind},
		{"tenant", tenantsOf(o)},
		{"orchestrations", console.ListOf(f.Orchestrations)},
		{"statuses", console.ListOf(f.Statuses)},
		{"started from", console.LocalTime(f.From)},
		{"started before", console.LocalTime(f.To)},
		{"status", o.Status},
		{"error", o.Error},
		{"reason", o.Reason},
		{"by", o.By},
		{"created", console.LocalTime(o.CreatedAt)},
		{"begun", console.LocalTime(o.BegunAt)},
		{"ended", console.LocalTime(o.EndedAt)},
		{"instances", total},
		{"matched", strconv.Itoa(o.Matched)},
		{"done", strconv.Itoa(o.Done)},
		{"skipped", strconv.Itoa(o.Skipped)},
		{"failed", strconv.Itoa(o.Failed)},
	}
	if f.Prefix != "" {
		fields = append(fields, [2]string{"prefix", f.Prefix})
	}
	if f.Parent != "" {
		fields = append(fields, [2]string{"parent", f.Parent})
	}
	if f.Build != "" {
		fields = append(fields, [2]string{"build", f.Build})
	}
	for _, name := range slices.Sorted(maps.Keys(f.Tags)) {
		fields = append(fields, [2]string{"tag", name + "=" + f.Tags[name]})
	}
	for _, e := range o.Errors {
		fields = append(fields, [2]string{"failed with", e.Tenant + "/" + e.ID + ": " + e.Error})
	}
	return console.WriteFields(w, fields)
}

func newOperationsCancel() *cobra.Command {
	var h operationHome
	cmd := &cobra.Command{
		Use:     "cancel ID",
		Short:   "Cancel an operation",
		Long:    "Have an operation stop. What is done is done.",
		Example: "  abide operations cancel 0198c0de",
		Args:    console.OneArg(operationID),
		RunE: func(cmd *cobra.Command, args []string) error {
			return h.useNamed(cmd, func(ctx context.Context, _ connect.Backend, operations connect.OperationsAPI) error {
				o, err := operations.Cancel(ctx, h.Tenant, args[0])
				if err != nil {
					return err
				}
				return operationRows.PrintOne(cmd, &h.Out, o)
			})
		},
	}
	h.AddTo(cmd)
	return cmd
}

func newOperationsWatch() *cobra.Command {
	var h operationHome
	cmd := &cobra.Command{
		Use:   "watch ID",
		Short: "Show the progress of an operation until it has ended",
		Long: `Show how an operation gets on, until it has ended, and print it. The exit code is 0 if it has
completed and worked with all instances.

On a store without a running server, this command runs the operation.`,
		Example: "  abide operations watch 0198c0de",
		Args:    console.OneArg(operationID),
		RunE: func(cmd *cobra.Command, args []string) error {
			return h.useNamed(cmd, func(ctx context.Context, b connect.Backend, operations connect.OperationsAPI) error {
				o, err := operations.Get(ctx, h.Tenant, args[0])
				if err != nil {
					return err
				}
				if o.Ended() {
					return errors.Join(operationRows.PrintOne(cmd, &h.Out, o), operationOutcome(&o))
				}
				return follow(ctx, &h.Home, cmd, b, operations, o)
			})
		},
	}
	h.AddTo(cmd)
	return cmd
}

// waitForOperation shows how an operation gets on until it has ended.
func waitForOperation(ctx context.Context, cmd *cobra.Command, operations connect.OperationsAPI, o api.Operation) (api.Operation, error) {
	total := func() int {
		if o.Total > 0 {
			return max(o.Total, o.Matched)
		}
		return -1
	}
	bar := console.NewProgress(cmd.ErrOrStderr(), fmt.Sprintf("%s instances", o.Kind), total())
	defer bar.End()
	pause := backoff.Pause{Clock: base.System{}, Min: 20 * time.Millisecond, Max: time.Second}
	for !o.Ended() {
		if err := pause.Sleep(ctx); err != nil {
			return o, err
		}
		next, err := operations.Get(ctx, o.Filter.Tenant, o.ID)
		if err != nil {
			return o, errors.Join(err, ctx.Err())
		}
		o = next
		bar.Set(o.Matched, total())
	}
	return o, nil
}
