package cli

import (
	"io"

	"github.com/spf13/cobra"

	"github.com/abidehq/abide"
	"github.com/abidehq/abide/server/api"
)

func newInstances() *cobra.Command {
	return group(
		&cobra.Command{
			Use:     "instances",
			Aliases: []string{"instance"},
			Short:   "Start, inspect and control instances",
			Long: `An instance is one run of an orchestration, under an ID, within a tenant. It is pending until
its code begins, running while it works or waits, and then completed, failed, cancelled or
terminated; meanwhile it can be suspended, or stall because its code cannot go on.

` + homeHelp,
		},
		newInstancesStart(), newInstancesList(), newInstancesShow(), newInstancesHistory(),
		newInstancesResult(), newInstancesWait(), newInstancesRaise(),
		newInstancesCancel(), newInstancesTerminate(), newInstancesSuspend(), newInstancesResume(),
		newInstancesRestart(), newInstancesFork(), newInstancesMoveTimer(), newInstancesDelete(),
	)
}

// homeHelp is what the help of each noun says about where things are.
const homeHelp = `The commands talk to the server that --server or $ABIDE_SERVER names, with the token in
$ABIDE_TOKEN or in the file that $ABIDE_TOKEN_FILE names. Without one they open the store, or
talk to the process that has it open.`

// instanceID is what most of the commands take.
const instanceID = "the ID of an instance"

// ref names an instance of the tenant.
func (h *home) ref(id string) abide.Ref { return abide.Ref{Tenant: api.Tenant(h.tenant), ID: id} }

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

// instanceRow is an instance in a table.
func instanceRow(info *abide.Info, tenants bool) []cell {
	took := ""
	if info.Status.Ended() && !info.EndedAt.IsZero() {
		took = readable(info.EndedAt.Sub(info.StartedAt))
	}
	row := []cell{
		plain(info.Ref.ID), plain(orchestrationOf(info)), statusCell(info.Status), plain(localTime(info.StartedAt)),
		plain(took), plain(shorten(noteOf(info), 60)),
	}
	if tenants {
		row = append([]cell{plain(api.FromTenant(info.Ref.Tenant))}, row...)
	}
	return row
}

// instancesTable returns what prints instances as a table.
func instancesTable(instances []abide.Info, tenants bool) func(io.Writer) error {
	return func(w io.Writer) error {
		if len(instances) == 0 {
			return nil
		}
		t := newTable(w, instanceTitles(tenants)...)
		for i := range instances {
			t.add(instanceRow(&instances[i], tenants)...)
		}
		return t.write(w)
	}
}

// printInstance prints an instance as it is in a list.
func (h *home) printInstance(cmd *cobra.Command, info abide.Info) error {
	return h.out.print(cmd.OutOrStdout(), wireInstance(info), instancesTable([]abide.Info{info}, false))
}
