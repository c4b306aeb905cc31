package tokens

import (
	"context"
	"io"
	"strconv"
	"time"

	"github.com/abidehq/abide/internal/cli/connect"
	"github.com/abidehq/abide/internal/cli/console"

	"github.com/spf13/cobra"

	"github.com/abidehq/abide/internal/base"
	"github.com/abidehq/abide/remote"
	"github.com/abidehq/abide/server/api"
)

// NewAudit returns the command abide audit.
func NewAudit() *cobra.Command {
	return console.Group(
		&cobra.Command{
			Use:   "audit",
			Short: "Read the audit log: who has changed what",
			Long: `The audit log has each call that changes something: when, by whom, from where, what was done to
what, and how it ended.

` + connect.HomeHelp,
		},
		newAuditList(),
	)
}

// auditList is the verb: abide audit list.
type auditList struct {
	connect.Home
	console.Paging
	q        remote.AuditQuery
	from, to string
}

func newAuditList() *cobra.Command {
	l := &auditList{}
	cmd := &cobra.Command{
		Use:   "list",
		Short: "List entries, the latest first",
		Long:  "List what was done, the latest first.\n\n" + console.TimeHelp,
		Example: `  abide audit list --from -24h
  abide audit list --operation terminate-instance --of-tenant acme -o json`,
		Args: console.NoArgs,
		RunE: l.run,
	}
	f := cmd.Flags()
	f.SortFlags = false
	f.StringVar(&l.from, "from", "", "what was done at that time or later")
	f.StringVar(&l.to, "to", "", "what was done before that time")
	f.StringVar(&l.q.Subject, "subject", "", "what that one did: the ID of a token, or the subject of a login or of a certificate")
	f.StringVar(&l.q.Operation, "operation", "", "what was done: start-instance, revoke-token and so on")
	f.StringVar(&l.q.Tenant, "of-tenant", "", "what was done to that tenant's")
	l.Paging.AddTo(cmd)
	l.AddPlaceTo(cmd)
	return cmd
}

func (l *auditList) run(cmd *cobra.Command, _ []string) error {
	var err error
	now := base.System{}.Now()
	if l.q.From, err = console.ParseTime("from", l.from, now, time.Local); err != nil {
		return err
	}
	if l.q.To, err = console.ParseTime("to", l.to, now, time.Local); err != nil {
		return err
	}
	return useTokens(&l.Home, cmd, false, func(ctx context.Context, tokens connect.TokensAPI) error {
		found, next, err := console.ReadPages(l.Paging, func(limit int, cursor string) ([]api.AuditEntry, string, error) {
			l.q.Limit, l.q.Cursor = limit, cursor
			page, err := tokens.Audit(ctx, l.q)
			return page.Entries, page.NextPageToken, err
		})
		if err != nil {
			return err
		}
		list := api.AuditList{Entries: append([]api.AuditEntry{}, found...), NextPageToken: next}
		if err := l.Out.Print(cmd.OutOrStdout(), list, auditTable(found)); err != nil {
			return err
		}
		l.Paging.SayMore(cmd, &l.Out, "entries", len(found), next)
		return nil
	})
}

// auditTable returns what prints entries of the audit log as a table.
func auditTable(found []api.AuditEntry) func(io.Writer) error {
	return func(w io.Writer) error {
		if len(found) == 0 {
			return nil
		}
		t := console.NewTable(w, "WHEN", "WHO", "OPERATION", "TENANT", "TARGET", "STATUS", "FROM", "DETAIL", "ERROR")
		for _, e := range found {
			who, status := e.Name, console.Plain("")
			if who == "" {
				who = e.Subject
			}
			if e.Status != 0 {
				status.Text = strconv.Itoa(e.Status)
			}
			t.Add(console.Plain(console.LocalTime(e.At)), console.Plain(who), console.Plain(e.Operation), console.Plain(e.Tenant), console.Plain(e.Target), status,
				console.Plain(e.Remote), console.Plain(console.Shorten(e.Detail, 120)), console.Cell{Text: console.Shorten(e.Error, 80), Colour: console.Red})
		}
		return t.Write(w)
	}
}
