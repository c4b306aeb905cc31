package quarantine

import (
	"context"
	"errors"
	"fmt"
	"io"
	"strconv"
	"strings"

	"github.com/abidehq/abide/internal/cli/connect"
	"github.com/abidehq/abide/internal/cli/console"

	"github.com/spf13/cobra"

	"github.com/abidehq/abide"
	"github.com/abidehq/abide/history"
	"github.com/abidehq/abide/server/api"
)

// New returns the command abide quarantine.
func New() *cobra.Command {
	return console.Group(
		&cobra.Command{
			Use:   "quarantine",
			Short: "List, redrive and discard messages that could not be processed",
			Long: `Quarantine holds messages that could not be handled, and wait for a person: an activity that
took its process down time and again, an event whose instance never came, a delivery that a
sink refuses, a message that cannot be read.

` + connect.HomeHelp,
		},
		newQuarantineList(), newQuarantineShow(), newQuarantineRedrive(), newQuarantineDelete(),
	)
}

// messageID is what most of the commands take.
const messageID = "the ID of a quarantined message"

// quarantineFilter says which messages are meant.
type quarantineFilter struct {
	queue, route, reason string
	tenants              bool
}

// AddTo gives a command the flags.
func (q *quarantineFilter) AddTo(cmd *cobra.Command) {
	f := cmd.Flags()
	f.StringVar(&q.queue, "queue", "", "those of that queue")
	f.StringVar(&q.route, "route", "", "those of that route: an orchestration, an activity or a sink")
	f.StringVar(&q.reason, "reason", "", "those whose reason has that in it")
	f.BoolVar(&q.tenants, "all-tenants", false, "those of all tenants")
}

// named returns a flag of the filter that was given.
func (q *quarantineFilter) named(cmd *cobra.Command) string {
	for _, name := range []string{"queue", "route", "reason", "all-tenants"} {
		if cmd.Flags().Changed(name) {
			return name
		}
	}
	return ""
}

// filter returns what the flags say of tenants.
func (q *quarantineFilter) filter(cmd *cobra.Command, tenant string) (abide.QuarantineFilter, error) {
	tenant, err := console.TenantOrAll(cmd, tenant, q.tenants)
	if err != nil || q.tenants {
		return abide.QuarantineFilter{}, err
	}
	return abide.QuarantineFilter{Tenant: &tenant}, nil
}

// matches reports whether a message is meant.
func (q *quarantineFilter) matches(m *abide.Quarantined) bool {
	return (q.queue == "" || m.Queue == q.queue) && (q.route == "" || m.Route == q.route) &&
		strings.Contains(m.Reason, q.reason)
}

// read returns a page of those messages that match.
func (q *quarantineFilter) read(ctx context.Context, engine *abide.Client, f abide.QuarantineFilter, limit int, cursor string) ([]abide.Quarantined, string, error) {
	f.Limit, f.Cursor = limit, cursor
	page, err := engine.Quarantine(ctx, f)
	if err != nil {
		return nil, "", err
	}
	var found []abide.Quarantined
	for i := range page.Messages {
		if q.matches(&page.Messages[i]) {
			found = append(found, page.Messages[i])
		}
	}
	return found, page.Next, nil
}

// quarantineList is the verb: abide quarantine list.
type quarantineList struct {
	connect.Home
	console.Paging
	console.Watching
	flags quarantineFilter
}

func newQuarantineList() *cobra.Command {
	l := &quarantineList{}
	cmd := &cobra.Command{
		Use:   "list",
		Short: "List quarantined messages",
		Example: `  abide quarantine list
  abide quarantine list --all-tenants --reason attempts -o json`,
		Args: console.NoArgs,
		RunE: l.run,
	}
	cmd.Flags().SortFlags = false
	l.flags.AddTo(cmd)
	l.Paging.AddTo(cmd)
	l.Watching.AddTo(cmd)
	l.Home.AddTo(cmd)
	return cmd
}

func (l *quarantineList) run(cmd *cobra.Command, _ []string) error {
	filter, err := l.flags.filter(cmd, l.Tenant)
	if err != nil {
		return err
	}
	return l.UseEngine(cmd, false, func(ctx context.Context, engine *abide.Client) error {
		return quarantineRows.PrintPages(ctx, cmd, &l.Out, l.Paging, l.Watch, func(ctx context.Context, limit int, cursor string) ([]abide.Quarantined, string, error) {
			return l.flags.read(ctx, engine, filter, limit, cursor)
		})
	})
}

// quarantineRows prints messages in quarantine.
var quarantineRows = console.Rows[abide.Quarantined, api.Quarantined]{
	Noun:   "messages in quarantine",
	Titles: []string{"ID", "TENANT", "SINCE", "QUEUE", "ROUTE", "KEY", "ATTEMPTS", "REASON"},
	Row: func(m *abide.Quarantined) []console.Cell {
		return console.Row(m.ID, m.Tenant, m.At, m.Queue, m.Route, m.Key, m.Attempts, console.Cell{Text: console.Shorten(m.Reason, 80), Colour: console.Red})
	},
	Wire: api.FromQuarantined,
	Key:  func(m *abide.Quarantined) [2]string { return [2]string{m.Tenant, m.ID} },
	Page: func(all []api.Quarantined, next string) any {
		return api.QuarantineList{Messages: all, NextPageToken: next}
	},
}

func newQuarantineShow() *cobra.Command {
	var h connect.Home
	var body bool
	cmd := &cobra.Command{
		Use:   "show ID",
		Short: "Show a quarantined message",
		Example: `  abide quarantine show 0198c0de
  abide quarantine show 0198c0de --body | xxd`,
		Args: console.OneArg(messageID),
		RunE: func(cmd *cobra.Command, args []string) error {
			return h.UseEngine(cmd, false, func(ctx context.Context, engine *abide.Client) error {
				m, err := findQuarantined(ctx, engine, h.Tenant, args[0])
				if err != nil {
					return err
				}
				if body {
					_, err := cmd.OutOrStdout().Write(m.Body)
					return err
				}
				return h.Out.Print(cmd.OutOrStdout(), api.FromQuarantined(&m), func(w io.Writer) error { return showQuarantined(w, &m) })
			})
		},
	}
	cmd.Flags().BoolVar(&body, "body", false, "only what it says, byte for byte")
	h.AddTo(cmd)
	return cmd
}

// showQuarantined prints all there is about a message.
func showQuarantined(w io.Writer, m *abide.Quarantined) error {
	tenant := ""
	if m.Tenant != abide.DefaultTenant {
		tenant = " --tenant " + m.Tenant
	}
	return console.WriteFields(w, [][2]string{
		{"id", m.ID},
		{"tenant", m.Tenant},
		{"reason", m.Reason},
		{"since", console.LocalTime(m.At)},
		{"queue", m.Queue},
		{"route", m.Route},
		{"key", m.Key},
		{"message", m.Message},
		{"attempts", strconv.Itoa(m.Attempts)},
		{"instance", m.Instance},
		{"brings", brings(m.Event)},
		{"body", fmt.Sprintf("%d bytes", len(m.Body))},
		{"next", "it is handled again once it is redriven: abide quarantine redrive " + m.ID + tenant},
	})
}

// brings says what a message brings to its instance, with the payload.
func brings(e *history.Event) string {
	if e == nil {
		return ""
	}
	text := strings.TrimSpace(e.Kind.String() + " " + e.Name)
	if data, err := e.Data.MarshalJSON(); err == nil && len(e.Data) > 0 {
		text += " " + string(data)
	}
	return text
}

// findQuarantined returns a message by its ID.
func findQuarantined(ctx context.Context, engine *abide.Client, tenant, id string) (abide.Quarantined, error) {
	for m, err := range engine.AllQuarantined(ctx, abide.QuarantineFilter{Tenant: &tenant, Limit: 1_000}) {
		if err != nil {
			return abide.Quarantined{}, err
		}
		if m.ID == id {
			return m, nil
		}
	}
	return abide.Quarantined{}, fmt.Errorf("message %s of tenant %s is not in quarantine: %w", id, tenant, abide.ErrNotFound)
}

// quarantineVerb is a verb that does something to quarantined messages: those whose IDs are
// given, or all that match a filter.
type quarantineVerb struct {
	connect.Home
	flags  quarantineFilter
	sure   console.Consent
	all    bool
	asks   bool // it asks even about a single one
	past   string
	change func(engine *abide.Client, ctx context.Context, tenant, id string) error // a method of the client
}

func newQuarantineRedrive() *cobra.Command {
	v := &quarantineVerb{past: "redriven", change: (*abide.Client).Redrive}
	return v.command(&cobra.Command{
		Use:   "redrive",
		Short: "Put quarantined messages back into their queues",
		Example: `  abide quarantine redrive 0198c0de
  abide quarantine redrive --all --route charge --yes`,
	})
}

func newQuarantineDelete() *cobra.Command {
	v := &quarantineVerb{asks: true, past: "deleted", change: (*abide.Client).Discard}
	return v.command(&cobra.Command{
		Use:   "delete",
		Short: "Discard quarantined messages",
		Example: `  abide quarantine delete 0198c0de --yes
  abide quarantine delete --all --reason "cannot be read" --yes`,
	})
}

// command makes the verb of a command.
func (v *quarantineVerb) command(cmd *cobra.Command) *cobra.Command {
	cmd.Long = cmd.Short + ": those whose IDs are given,\nor with --all those that match.\n\n" + console.ConsentHelp
	cmd.Use += " ID... | --all [filters]"
	cmd.Args = cobra.ArbitraryArgs
	cmd.RunE = v.run
	cmd.Flags().SortFlags = false
	cmd.Flags().BoolVar(&v.all, "all", false, "all that match the filters")
	v.flags.AddTo(cmd)
	v.sure.AddTo(cmd)
	v.Home.AddTo(cmd)
	return cmd
}

func (v *quarantineVerb) run(cmd *cobra.Command, ids []string) error {
	switch {
	case v.all && len(ids) > 0:
		return console.Usage("%q takes IDs or --all, not both", cmd.CommandPath())
	case !v.all && len(ids) == 0:
		return console.Usage("%q needs the IDs of quarantined messages, or --all", cmd.CommandPath())
	case !v.all && v.flags.named(cmd) != "":
		return console.Usage("--%s is a filter, which needs --all", v.flags.named(cmd))
	}
	filter, err := v.flags.filter(cmd, v.Tenant)
	if err != nil {
		return err
	}
	if v.all || v.asks {
		what := console.CountOf(ids, "message")
		if v.all {
			what = "all quarantined messages that match"
		}
		if err := v.sure.Ask(cmd, console.Title(cmd.Name())+" "+what+"?"); err != nil {
			return err
		}
	}
	return v.UseEngine(cmd, false, func(ctx context.Context, engine *abide.Client) error {
		var n int
		var err error
		if v.all {
			n, err = v.every(ctx, cmd, engine, filter)
		} else {
			var done []string
			done, err = console.Each(ids, func(id string) (string, error) { return id, v.change(engine, ctx, v.Tenant, id) })
			n = len(done)
		}
		return errors.Join(v.Out.Print(cmd.OutOrStdout(), map[string]int{v.past: n}, func(w io.Writer) error {
			_, err := fmt.Fprintf(w, "%s %s\n", console.CountText(n, "message"), v.past)
			return err
		}), err)
	})
}

// every does it to all that match. What is redriven may come back: only what is there at the
// beginning is meant.
func (v *quarantineVerb) every(ctx context.Context, cmd *cobra.Command, engine *abide.Client, filter abide.QuarantineFilter) (n int, err error) {
	var all []abide.Ref // without what they say, which may be much
	filter.Limit = 1_000
	for m, err := range engine.AllQuarantined(ctx, filter) {
		if err != nil {
			return 0, err
		}
		if v.flags.matches(&m) {
			all = append(all, abide.Ref{Tenant: m.Tenant, ID: m.ID})
		}
	}
	bar := console.NewProgress(cmd.ErrOrStderr(), cmd.Name(), len(all))
	defer bar.End()
	var errs []error
	for i := range all {
		err := v.change(engine, ctx, all[i].Tenant, all[i].ID)
		switch {
		case err == nil:
			n++
		case errors.Is(err, abide.ErrNotFound): // another command was faster
		default:
			errs = append(errs, err)
		}
		if ctx.Err() != nil || len(errs) > 10 {
			return n, errors.Join(errs...)
		}
		bar.Set(i+1, len(all))
	}
	return n, errors.Join(errs...)
}
