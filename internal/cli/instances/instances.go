package instances

import (
	"context"
	"io"
	"slices"

	"github.com/abidehq/abide/internal/cli/connect"
	"github.com/abidehq/abide/internal/cli/console"

	"github.com/spf13/cobra"

	"github.com/abidehq/abide"
	"github.com/abidehq/abide/server/api"
)

// New returns the command abide instances.
func New() *cobra.Command {
	return console.Group(
		&cobra.Command{
			Use:     "instances",
			Aliases: []string{"instance"},
			Short:   "Start, inspect and control instances",
			Long: `An instance is one run of an orchestration, under an ID, within a tenant. It is pending until
its code begins, running while it works or waits, and then completed, failed, cancelled or
terminated; meanwhile it can be suspended, or stall because its code cannot continue.

` + connect.HomeHelp,
		},
		newInstancesStart(), newInstancesList(), newInstancesShow(), newInstancesHistory(),
		newInstancesResult(), newInstancesWait(), newInstancesRaise(),
		newInstancesCancel(), newInstancesTerminate(), newInstancesSuspend(), newInstancesResume(),
		newInstancesRestart(), newInstancesFork(), newInstancesMoveTimer(), newInstancesDelete(),
	)
}

// instanceID is what most of the commands take.
const instanceID = "the ID of an instance"

// ref names an instance of the tenant.
func refOf(h *connect.Home, id string) abide.Ref {
	return abide.Ref{Tenant: api.Tenant(h.Tenant), ID: id}
}

// orchestrationOf is what an instance is one of, with its version.
func orchestrationOf(info *abide.Info) string {
	if info.Version == "" {
		return info.Orchestration
	}
	return info.Orchestration + "@" + info.Version
}

// noteOf says in a few words why an instance is as it is, or what it says about itself.
func noteOf(info *abide.Info) string {
	switch {
	case info.Reason != "":
		return info.Reason
	case info.Err != nil:
		return info.Err.Error()
	default:
		return info.StatusText
	}
}

// instanceTitles are the columns of instances in a table.
func instanceTitles(tenants bool) []string {
	titles := []string{"ID", "ORCHESTRATION", "STATUS", "STARTED", "TOOK", "NOTE"}
	if tenants {
		titles = append([]string{"TENANT"}, titles...)
	}
	return titles
}

// InstanceRow is an instance in a table.
func InstanceRow(info *abide.Info, tenants bool) []console.Cell {
	took := ""
	if info.Status.Ended() && !info.EndedAt.IsZero() {
		took = console.Readable(info.EndedAt.Sub(info.StartedAt))
	}
	row := []console.Cell{
		console.Plain(info.Ref.ID), console.Plain(orchestrationOf(info)), console.StatusCell(info.Status), console.Plain(console.LocalTime(info.StartedAt)),
		console.Plain(took), console.Plain(console.Shorten(noteOf(info), 60)),
	}
	if tenants {
		row = append([]console.Cell{console.Plain(api.FromTenant(info.Ref.Tenant))}, row...)
	}
	return row
}

// instancesTable returns what prints instances as a table.
func instancesTable(instances []abide.Info, tenants bool) func(io.Writer) error {
	return func(w io.Writer) error {
		if len(instances) == 0 {
			return nil
		}
		t := console.NewTable(w, instanceTitles(tenants)...)
		for i := range instances {
			t.Add(InstanceRow(&instances[i], tenants)...)
		}
		return t.Write(w)
	}
}

// printInstance prints an instance as it is in a list.
func printInstance(h *connect.Home, cmd *cobra.Command, info abide.Info) error {
	return h.Out.Print(cmd.OutOrStdout(), wireInstance(info), instancesTable([]abide.Info{info}, false))
}

// isUnserved reports whether an instance waits for a process that serves it. Who cannot be
// asked is taken to serve it.
func isUnserved(ctx context.Context, engine *abide.Client, info *abide.Info) bool {
	unserved, err := engine.Unserved(ctx)
	return err == nil && slices.ContainsFunc(unserved, func(u abide.Unserved) bool {
		return !u.Activity && !u.Target && u.Route == orchestrationOf(info)
	})
}
