package limits

import (
	"context"
	"fmt"
	"io"
	"strconv"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"github.com/abidehq/abide"
	"github.com/abidehq/abide/internal/cli/connect"
	"github.com/abidehq/abide/internal/cli/console"
	"github.com/abidehq/abide/server/api"
)

// New returns the command abide limits.
func New() *cobra.Command {
	return console.Group(
		&cobra.Command{
			Use:     "limits",
			Aliases: []string{"limit"},
			Short:   "List and show limits and what waits for them; change, pause and resume them",
			Long: `A limit says how many activities or instances may be under way at the same time, or how many may
begin in a period, over all processes of a tenant.

` + connect.HomeHelp,
		},
		newList(), newPause(), newResume(), newSet(), newShow(), newUnset(),
	)
}

// limitName is what the commands take.
const limitName = "the name of a limit"

func newList() *cobra.Command {
	var h connect.Home
	var watching console.Watching
	cmd := &cobra.Command{
		Use:   "list",
		Short: "List the limits of a tenant",
		Long: `List the limits of a tenant by name, with what is in use, what waits, and since when the oldest has
waited. Of a limit with a rule for each key these are sums over its keys in use; a + means that
there are more keys than were looked at.`,
		Example: `  abide limits list
  abide limits list --tenant acme --watch`,
		Args: console.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			return h.UseEngine(cmd, false, func(ctx context.Context, engine *abide.Client) error {
				if watching.Watch {
					return rows.Watch(ctx, cmd, &h.Out, func(ctx context.Context) ([]abide.LimitInfo, bool, error) {
						found, err := engine.Limits(ctx, h.Tenant)
						return found, true, err
					})
				}
				found, err := engine.Limits(ctx, h.Tenant)
				if err != nil {
					return err
				}
				return rows.PrintAll(cmd, &h.Out, found)
			})
		},
	}
	watching.AddTo(cmd)
	h.AddTo(cmd)
	return cmd
}

// rows prints limits.
var rows = console.Rows[abide.LimitInfo, api.Limit]{
	Noun:   "limits",
	Titles: []string{"NAME", "STATUS", "RULE", "RULE OF", "IN USE", "WAITING", "OLDEST"},
	Row: func(l *abide.LimitInfo) []console.Cell {
		return console.Row(l.Name, statusOf(l), ruleOf(l), sourceOf(l), counted(l.InUse, l.More), counted(l.Waiting, l.More), oldestOf(l))
	},
	Wire: api.FromLimit,
	Key:  func(l *abide.LimitInfo) [2]string { return [2]string{l.Tenant, l.Name} },
	Page: func(all []api.Limit, _ string) any { return api.LimitList{Limits: all} },
}

func statusOf(l *abide.LimitInfo) console.Cell {
	if l.Paused {
		return console.StatusCell("paused")
	}
	return console.StatusCell("active")
}

// ruleOf returns the rule that counts, for people.
func ruleOf(l *abide.LimitInfo) string {
	text := ruleText(l.Rule())
	if l.PerKey {
		text += " for each key"
	}
	return text
}

func ruleText(r abide.LimitRule) string {
	var parts []string
	if r.Concurrency > 0 {
		parts = append(parts, strconv.Itoa(r.Concurrency)+" at a time")
	}
	if r.Rate > 0 {
		parts = append(parts, strconv.Itoa(r.Rate)+"/"+console.Readable(r.Per)+" burst "+strconv.Itoa(r.Burst))
	}
	return strings.Join(parts, ", ")
}

// sourceOf says who has made the rule that counts.
func sourceOf(l *abide.LimitInfo) string {
	if l.Set != nil {
		return "operator"
	}
	return "code"
}

// counted returns a number that is less than the true one if there is more.
func counted(n int, more bool) string {
	if more {
		return strconv.Itoa(n) + "+"
	}
	return strconv.Itoa(n)
}

// oldestOf returns since when something has waited, as far as the keys are known.
func oldestOf(l *abide.LimitInfo) (oldest time.Time) {
	for i := range l.Keys {
		if at := l.Keys[i].Oldest; !at.IsZero() && (oldest.IsZero() || at.Before(oldest)) {
			oldest = at
		}
	}
	return oldest
}

func newShow() *cobra.Command {
	return connect.Verb(&cobra.Command{
		Use:   "show NAME",
		Short: "Show a limit, its rules, and the keys for which most waits",
		Long: `Show a limit: the rule that code declares, the one that an operator has set instead, what is in use
and what waits. A limit with a rule for each key shows up to 100 keys, those with the most waiting
first.`,
		Example: `  abide limits show stripe`,
	}, limitName, connect.Backend.Engine, func(ctx context.Context, engine *abide.Client, tenant, name string) (abide.LimitInfo, error) {
		return engine.Limit(ctx, tenant, name)
	}, func(cmd *cobra.Command, out *console.Output, l abide.LimitInfo) error {
		return out.Print(cmd.OutOrStdout(), api.FromLimit(&l), func(w io.Writer) error { return show(w, &l) })
	})
}

// show prints all there is about a limit.
func show(w io.Writer, l *abide.LimitInfo) error {
	declared, set := "", ""
	if l.Declared != nil {
		declared = ruleText(*l.Declared)
	}
	if l.Set != nil {
		set = ruleText(*l.Set)
	}
	changed := console.LocalTime(l.ChangedAt)
	if changed != "" && l.ChangedBy != "" {
		changed += " by " + l.ChangedBy
	}
	perKey := ""
	if l.PerKey {
		perKey = "yes"
	}
	err := console.WriteFields(w, [][2]string{
		{"name", l.Name},
		{"tenant", l.Tenant},
		{"status", statusOf(l).Text},
		{"per key", perKey},
		{"rule of code", declared},
		{"rule of operator", set},
		{"changed", changed},
		{"in use", counted(l.InUse, l.More)},
		{"waiting", counted(l.Waiting, l.More)},
		{"oldest", console.LocalTime(oldestOf(l))},
		{"admitted", strconv.FormatInt(l.Admitted, 10)},
	})
	if err != nil || !l.PerKey || len(l.Keys) == 0 {
		return err
	}
	if _, err := fmt.Fprintln(w); err != nil {
		return err
	}
	t := console.NewTable(w, "KEY", "IN USE", "WAITING", "OLDEST", "ADMITTED")
	for i := range l.Keys {
		k := &l.Keys[i]
		t.Add(console.Row(k.Key, k.InUse, k.Waiting, k.Oldest, k.Admitted)...)
	}
	return t.Write(w)
}
