package instances

import (
	"context"
	"fmt"
	"slices"
	"unicode/utf8"

	"github.com/abidehq/abide/internal/cli/connect"
	"github.com/abidehq/abide/internal/cli/console"

	"github.com/spf13/cobra"

	"github.com/abidehq/abide"
	"github.com/abidehq/abide/server/api"
)

// New returns the command abide instances.
func New() *cobra.Command {
	verbs := append(newInstanceVerbs(), newInstancesStart(), newInstancesList(), newInstancesShow(), newInstancesHistory(),
		newInstancesResult(), newInstancesWait(), newInstancesRaise(), newInstancesCorrect(), newInstancesFork(), newInstancesMoveTimer())
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
		verbs...,
	)
}

// instanceID is what most of the commands take.
const instanceID = "the ID of an instance"

// ref names an instance of the tenant.
func refOf(h *connect.Home, id string) abide.Ref {
	return abide.Ref{Tenant: h.Tenant, ID: id}
}

// orchestrationOf is what an instance is one of, with its version.
func orchestrationOf(info *abide.Info) string {
	if info.Version == "" {
		return info.Orchestration
	}
	return info.Orchestration + "@" + info.Version
}

// noteOf says in a few words why an instance is as it is, what it returned, or what it says about itself.
func noteOf(info *abide.Info) string {
	switch {
	case info.Reason != "":
		return info.Reason
	case info.Err != nil:
		return info.Err.Error()
	case info.Status == abide.Completed && len(info.Result) > 0 && utf8.Valid(info.Result):
		return string(info.Result)
	case info.Status == abide.Completed && len(info.Result) > 0:
		return fmt.Sprintf("%d bytes", len(info.Result))
	default:
		return info.StatusText
	}
}

// maxNote is how much of a note is in a row. A terminal shows as much as fits into a line.
const maxNote = 4096

// Rows prints instances.
var Rows = console.Rows[abide.Info, api.Instance]{
	Noun:   "instances",
	Titles: []string{"ID", "ORCHESTRATION", "STATUS", "STARTED", "TOOK", "NOTE"},
	Row: func(info *abide.Info) []console.Cell {
		took := ""
		if info.Status.Ended() && !info.EndedAt.IsZero() {
			took = console.Readable(info.EndedAt.Sub(info.StartedAt))
		}
		return console.Row(info.Ref.ID, orchestrationOf(info), console.StatusCell(info.Status), info.StartedAt, took, console.Shorten(noteOf(info), maxNote))
	},
	Wire: api.FromInfo,
	Key:  func(info *abide.Info) [2]string { return keyOf(info.Ref) },
	Page: func(all []api.Instance, next string) any {
		return api.InstanceList{Instances: all, NextPageToken: next}
	},
}

// printCurrent reads an instance and prints it as it is in a list.
func printCurrent(ctx context.Context, h *connect.Home, cmd *cobra.Command, engine *abide.Client, ref abide.Ref) error {
	info, err := engine.Get(ctx, ref)
	if err != nil {
		return err
	}
	return Rows.PrintOne(cmd, &h.Out, info)
}

// isUnserved reports whether an instance waits for a process that serves it. Who cannot be
// asked is taken to serve it.
func isUnserved(ctx context.Context, engine *abide.Client, info *abide.Info) bool {
	unserved, err := engine.Unserved(ctx)
	return err == nil && slices.ContainsFunc(unserved, func(u abide.Unserved) bool {
		return !u.Activity && !u.Target && u.Route == orchestrationOf(info) && u.Build == info.Build
	})
}
