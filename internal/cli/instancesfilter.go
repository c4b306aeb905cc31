package cli

import (
	"slices"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"github.com/abidehq/abide"
	"github.com/abidehq/abide/internal/base"
	"github.com/abidehq/abide/server/api"
)

// instanceStatuses are those that instances can have.
var instanceStatuses = []abide.Status{
	abide.Pending, abide.Running, abide.Suspended, abide.Stalled,
	abide.Completed, abide.Failed, abide.Cancelled, abide.Terminated,
}

// instanceFilter says which instances are meant.
type instanceFilter struct {
	orchestrations, statuses, tags []string
	from, to                       string
	tenants                        bool
}

// addTo gives a command the flags.
func (i *instanceFilter) addTo(cmd *cobra.Command) {
	f := cmd.Flags()
	f.StringSliceVar(&i.orchestrations, "orchestration", nil, "those of one of these orchestrations")
	f.StringSliceVar(&i.statuses, "status", nil, "those with one of these statuses: "+listOf(instanceStatuses))
	f.StringVar(&i.from, "from", "", "those started at that time or later")
	f.StringVar(&i.to, "to", "", "those started before that time")
	f.StringArrayVar(&i.tags, "tag", nil, "those with that tag, as NAME=VALUE; can be given more than once")
	f.BoolVar(&i.tenants, "all-tenants", false, "those of all tenants")
}

// named reports whether a flag of the filter was given.
func (i *instanceFilter) named(cmd *cobra.Command) string {
	for _, name := range []string{"orchestration", "status", "from", "to", "tag", "all-tenants"} {
		if cmd.Flags().Changed(name) {
			return name
		}
	}
	return ""
}

// filter returns what the flags say.
func (i *instanceFilter) filter(cmd *cobra.Command, tenant string) (abide.Filter, error) {
	f := abide.Filter{Orchestrations: i.orchestrations}
	if i.tenants && cmd.Flags().Changed("tenant") {
		return f, usage("--tenant and --all-tenants exclude each other")
	}
	if !i.tenants {
		tenant = api.Tenant(tenant)
		f.Tenant = &tenant
	}
	var err error
	if f.Statuses, err = oneOf("status", i.statuses, instanceStatuses); err != nil {
		return f, err
	}
	if f.Tags, err = parseTags(i.tags); err != nil {
		return f, err
	}
	now := base.System{}.Now()
	if f.From, err = parseTime("from", i.from, now, time.Local); err != nil {
		return f, err
	}
	f.To, err = parseTime("to", i.to, now, time.Local)
	return f, err
}

// parseTags reads tags.
func parseTags(texts []string) (map[string]string, error) {
	var tags map[string]string
	for _, text := range texts {
		name, value, ok := strings.Cut(text, "=")
		if !ok || name == "" {
			return nil, usage("--tag is %q; NAME=VALUE is allowed", text)
		}
		if tags == nil {
			tags = map[string]string{}
		}
		tags[name] = value
	}
	return tags, nil
}

// oneOf returns the values of a flag, each of which must be one of those that are known.
func oneOf[T ~string](what string, texts []string, known []T) ([]T, error) {
	var values []T
	for _, text := range texts {
		if !slices.Contains(known, T(text)) {
			return nil, usage("unknown %s %q; known are: %s", what, text, listOf(known))
		}
		values = append(values, T(text))
	}
	return values, nil
}

// listOf returns words for people.
func listOf[T ~string](words []T) string {
	texts := make([]string, len(words))
	for i, word := range words {
		texts[i] = string(word)
	}
	return strings.Join(texts, ", ")
}
