package instances

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/abidehq/abide/internal/cli/connect"
	"github.com/abidehq/abide/internal/cli/console"

	"github.com/spf13/cobra"

	"github.com/abidehq/abide"
)

// instanceVerb is a verb that changes instances: those whose IDs are given, or all that match
// a filter.
type instanceVerb struct {
	connect.Home
	flags  instanceFilter
	sure   console.Consent
	all    bool
	noWait bool
	reason string

	recursive bool   // their children too
	as        string // the ID of the new instance

	kind   string                                                                           // as operations call it
	asks   bool                                                                             // it asks even about a single one
	reads  bool                                                                             // what is left of an instance can be read afterwards
	done   func(s abide.Status) bool                                                        // it has happened; nil if that is known at once
	change func(engine *abide.Client, ctx context.Context, ref abide.Ref, why string) error // a method of the client
}

// command makes the verb of a command.
func (v *instanceVerb) command(cmd *cobra.Command, takesReason bool) *cobra.Command {
	v.kind = cmd.Name()
	cmd.Use = v.kind + " ID... | --all [filters]"
	cmd.Long += `

With --all it is done to all instances of the tenant that match the filters, and were started
before: that is an operation, which continues at the server if this command is interrupted (see
'abide operations'). ` + console.ConsentHelp
	cmd.Args = cobra.ArbitraryArgs
	cmd.RunE = v.run
	f := cmd.Flags()
	f.SortFlags = false
	if takesReason {
		f.StringVar(&v.reason, "reason", "", "why")
	}
	switch v.kind {
	case "terminate", "delete":
		f.BoolVar(&v.recursive, "recursive", false, "their children too, and theirs; not with --all")
	case "restart":
		f.StringVar(&v.as, "as", "", "start a new instance with this ID instead, of the one that is named")
	}
	f.BoolVar(&v.all, "all", false, "all that match the filters")
	v.flags.AddTo(cmd)
	f.BoolVar(&v.noWait, "no-wait", false, "with --all: do not wait until it is done")
	v.sure.AddTo(cmd)
	v.Home.AddTo(cmd)
	return cmd
}

func (v *instanceVerb) run(cmd *cobra.Command, ids []string) error {
	switch {
	case v.all && len(ids) > 0:
		return console.Usage("%q takes IDs or --all, not both", cmd.CommandPath())
	case v.all && (v.recursive || v.as != ""):
		return console.Usage("--recursive and --as exclude --all")
	case v.all:
		return v.runAll(cmd)
	case v.as != "" && len(ids) > 1:
		return console.Usage("--as names one new instance, so %q takes one ID with it", cmd.CommandPath())
	case len(ids) == 0:
		return console.Usage("%q needs the IDs of instances, or --all", cmd.CommandPath())
	}
	if name := v.flags.named(cmd); name != "" {
		return console.Usage("--%s is a filter, which needs --all", name)
	}
	if v.asks {
		if err := v.sure.Ask(cmd, fmt.Sprintf("%s %s of tenant %s?", console.Title(v.kind), console.CountOf(ids, "instance"), v.Tenant)); err != nil {
			return err
		}
	}
	return v.UseEngine(cmd, false, func(ctx context.Context, engine *abide.Client) error {
		return v.each(ctx, cmd, engine, ids)
	})
}

// each changes the instances that are named. It continues after an error.
func (v *instanceVerb) each(ctx context.Context, cmd *cobra.Command, engine *abide.Client, ids []string) error {
	var changed []abide.Info
	var errs []error
	for _, id := range ids {
		ref := refOf(&v.Home, id)
		if err := v.change(engine, ctx, ref, v.reason); err != nil {
			errs = append(errs, err)
			continue
		}
		if v.as != "" {
			ref = refOf(&v.Home, v.as)
		}
		info := abide.Info{Ref: ref}
		if v.reads {
			var err error
			if info, err = v.settled(ctx, engine, ref); err != nil {
				errs = append(errs, err)
				continue
			}
		}
		changed = append(changed, info)
	}
	return errors.Join(v.report(cmd, changed), errors.Join(errs...))
}

// settleTimeout is how long a verb waits for the new status of an instance.
const settleTimeout = 3 * time.Second

// settled returns an instance when it has the status that the verb gives it. If it does not have it soon,
// because its code takes its time or nobody serves it, settled returns it as it is.
func (v *instanceVerb) settled(ctx context.Context, engine *abide.Client, ref abide.Ref) (abide.Info, error) {
	info, err := engine.Get(ctx, ref)
	if err != nil || v.done == nil || v.done(info.Status) || isUnserved(ctx, engine, &info) {
		return info, err
	}
	short, cancel := context.WithTimeout(ctx, settleTimeout)
	defer cancel()
	for !v.done(info.Status) {
		next, err := engine.WaitChange(short, ref, info.Revision)
		if err != nil {
			return info, ctx.Err() // what was asked for is durable
		}
		info = next
	}
	return info, nil
}

// report prints what has become of instances.
func (v *instanceVerb) report(cmd *cobra.Command, changed []abide.Info) error {
	if v.reads {
		return Rows.PrintEach(cmd, &v.Out, changed)
	}
	if !v.Out.IsJSON() {
		return nil
	}
	list := make([]console.Gone, len(changed))
	for i, info := range changed {
		list[i] = console.Gone{Tenant: info.Ref.Tenant, ID: info.Ref.ID, Deleted: true}
	}
	return v.Out.Print(cmd.OutOrStdout(), list, nil)
}

// terminate, restart and remove are the changes of verbs with flags of their own.
//
//nolint:revive // the shape of a method of the client
func (v *instanceVerb) terminate(engine *abide.Client, ctx context.Context, ref abide.Ref, why string) error {
	return engine.TerminateWith(ctx, ref, abide.Termination{Reason: why, Recursive: v.recursive})
}

//nolint:revive // the shape of a method of the client
func (v *instanceVerb) restart(engine *abide.Client, ctx context.Context, ref abide.Ref, _ string) error {
	if v.as == "" {
		return engine.Restart(ctx, ref)
	}
	_, err := engine.RestartAs(ctx, ref, v.as)
	return err
}

//nolint:revive // the shape of a method of the client
func (v *instanceVerb) remove(engine *abide.Client, ctx context.Context, ref abide.Ref, _ string) error {
	return engine.DeleteWith(ctx, ref, abide.Deletion{Recursive: v.recursive})
}

// newInstanceVerbs returns the verbs that change instances.
func newInstanceVerbs() []*cobra.Command {
	resumeNow := func(engine *abide.Client, ctx context.Context, ref abide.Ref, _ string) error {
		return engine.Resume(ctx, ref)
	}
	suspended := func(s abide.Status) bool { return s == abide.Suspended || s.Ended() }
	resumed := func(s abide.Status) bool { return s != abide.Suspended && s != abide.Stalled }
	cancel := &instanceVerb{reads: true, change: (*abide.Client).Cancel, done: abide.Status.Ended}
	terminate := &instanceVerb{asks: true, reads: true, done: abide.Status.Ended}
	terminate.change = terminate.terminate
	suspend := &instanceVerb{reads: true, change: (*abide.Client).Suspend, done: suspended}
	resume := &instanceVerb{reads: true, change: resumeNow, done: resumed}
	restart := &instanceVerb{asks: true, reads: true}
	restart.change = restart.restart
	rewind := &instanceVerb{asks: true, reads: true, change: (*abide.Client).Rewind}
	remove := &instanceVerb{asks: true}
	remove.change = remove.remove
	return []*cobra.Command{
		cancel.command(&cobra.Command{
			Use:   "cancel",
			Short: "Cancel instances",
			Long:  "Ask instances to come to an end. Their code decides how.",
			Example: `  abide instances cancel order-1 --reason "the customer has called"
  abide instances cancel --all --orchestration order --tag customer=7 --yes`,
		}, true),
		terminate.command(&cobra.Command{
			Use:   "terminate",
			Short: "Terminate instances",
			Long:  "End instances at once, without asking their code: nothing that they began is undone.",
			Example: `  abide instances terminate order-1 --reason "its code is gone"
  abide instances terminate --all --status stalled --from -24h --yes`,
		}, true),
		suspend.command(&cobra.Command{
			Use:   "suspend",
			Short: "Suspend instances",
			Long:  "Have instances wait until they are resumed. What reaches them meanwhile is kept.",
			Example: `  abide instances suspend order-1 --reason "the warehouse is closed"
  abide instances suspend --all --orchestration order --status running --yes`,
		}, true),
		resume.command(&cobra.Command{
			Use:   "resume",
			Short: "Resume suspended or stalled instances",
			Long:  "Resume instances that were suspended, or that have stalled and whose code was fixed.",
			Example: `  abide instances resume order-1
  abide instances resume --all --status stalled --orchestration order --yes`,
		}, false),
		restart.command(&cobra.Command{
			Use:   "restart",
			Short: "Restart ended instances",
			Long:  "Start instances that have ended once more, with the same input. Their old history goes.",
			Example: `  abide instances restart order-1 --yes
  abide instances restart --all --status failed --from -1h --yes`,
		}, false),
		rewind.command(&cobra.Command{
			Use:   "rewind",
			Short: "Rewind failed instances",
			Long: `Have instances that have failed go on from before their failure. Activities whose failures they
failed of run again, failed children are rewound too, and the last turn runs again. What has
succeeded does not.`,
			Example: `  abide instances rewind order-1 --reason "the bank is back" --yes
  abide instances rewind --all --status failed --from -1h --yes`,
		}, true),
		remove.command(&cobra.Command{
			Use:   "delete",
			Short: "Delete ended instances and their history",
			Long:  "Remove instances that have ended, with their history.",
			Example: `  abide instances delete order-1 --yes
  abide instances delete --all --status completed --to -720h --yes`,
		}, false),
	}
}
