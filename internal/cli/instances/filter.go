package instances

import (
	"github.com/abidehq/abide/internal/cli/console"

	"github.com/spf13/cobra"

	"github.com/abidehq/abide"
	"github.com/abidehq/abide/server/api"
)

// InstanceStatuses are those that instances can have.
var InstanceStatuses = []abide.Status{
	abide.Pending, abide.Running, abide.Suspended, abide.Stalled,
	abide.Completed, abide.Failed, abide.Cancelled, abide.Terminated,
}

// instanceFilter says which instances are meant.
type instanceFilter struct {
	orchestrations, statuses, tags []string
	period                         console.Period
	prefix, parent, build          string
	tenants                        bool
}

// AddTo gives a command the flags.
func (i *instanceFilter) AddTo(cmd *cobra.Command) {
	f := cmd.Flags()
	f.StringSliceVar(&i.orchestrations, "orchestration", nil, "those of one of these orchestrations")
	f.StringSliceVar(&i.statuses, "status", nil, "those with one of these statuses: "+console.ListOf(InstanceStatuses))
	i.period.AddTo(cmd, "those started at that time or later", "those started before that time")
	f.StringArrayVar(&i.tags, "tag", nil, "those with that tag, as NAME=VALUE; can be given more than once")
	f.StringVar(&i.prefix, "prefix", "", "those whose ID begins with that")
	f.StringVar(&i.parent, "parent", "", "the children of the instance with that ID")
	f.StringVar(&i.build, "build", "", "those that are pinned to that build")
	f.BoolVar(&i.tenants, "all-tenants", false, "those of all tenants")
}

// named reports whether a flag of the filter was given.
func (i *instanceFilter) named(cmd *cobra.Command) string {
	for _, name := range []string{"orchestration", "status", "from", "to", "tag", "prefix", "parent", "build", "all-tenants"} {
		if cmd.Flags().Changed(name) {
			return name
		}
	}
	return ""
}

// filter returns what the flags say.
func (i *instanceFilter) filter(cmd *cobra.Command, tenant string) (abide.Filter, error) {
	f := abide.Filter{Orchestrations: i.orchestrations, Prefix: i.prefix, Parent: i.parent, Build: i.build}
	tenant, err := console.TenantOrAll(cmd, tenant, i.tenants)
	if err != nil {
		return f, err
	}
	if !i.tenants {
		f.Tenant = &tenant
	}
	if f.Statuses, err = console.OneOf("status", i.statuses, InstanceStatuses); err != nil {
		return f, err
	}
	if f.Tags, err = parseTags(i.tags); err != nil {
		return f, err
	}
	f.From, f.To, err = i.period.Parse()
	return f, err
}

// parseTags reads tags, in the notation of the API.
func parseTags(texts []string) (map[string]string, error) {
	var tags map[string]string
	for _, text := range texts {
		name, value, err := api.ParseTyped(text)
		if err != nil {
			return nil, console.Usage("--tag: %w", err)
		}
		if tags == nil {
			tags = map[string]string{}
		}
		tags[name] = value
	}
	return tags, nil
}
