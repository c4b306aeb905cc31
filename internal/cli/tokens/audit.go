package tokens

import (
	"cmp"
	"context"
	"strconv"

	"github.com/abidehq/abide/internal/cli/connect"
	"github.com/abidehq/abide/internal/cli/console"

	"github.com/spf13/cobra"

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
	q      remote.AuditQuery
	period console.Period
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
	l.period.AddTo(cmd, "what was done at that time or later", "what was done before that time")
	f.StringVar(&l.q.Subject, "subject", "", "what that one did: the ID of a token, or the subject of a login or of a certificate")
	f.StringVar(&l.q.Operation, "operation", "", "what was done: start-instance, revoke-token and so on")
	f.StringVar(&l.q.Tenant, "of-tenant", "", "what was done to that tenant's")
	l.Paging.AddTo(cmd)
	l.AddPlaceTo(cmd)
	return cmd
}

func (l *auditList) run(cmd *cobra.Command, _ []string) error {
	var err error
	if l.q.From, l.q.To, err = l.period.Parse(); err != nil {
		return err
	}
	return l.UseTokens(cmd, false, func(ctx context.Context, tokens connect.TokensAPI) error {
		return auditRows.PrintPages(ctx, cmd, &l.Out, l.Paging, false, func(ctx context.Context, limit int, cursor string) ([]api.AuditEntry, string, error) {
			l.q.Limit, l.q.Cursor = limit, cursor
			page, err := tokens.Audit(ctx, l.q)
			return page.Entries, page.NextPageToken, err
		})
	})
}

// auditRows prints entries of the audit log.
var auditRows = console.Rows[api.AuditEntry, api.AuditEntry]{
	Noun:   "entries",
	Titles: []string{"WHEN", "WHO", "OPERATION", "TENANT", "TARGET", "STATUS", "FROM", "DETAIL", "ERROR"},
	Row: func(e *api.AuditEntry) []console.Cell {
		status := ""
		if e.Status != 0 {
			status = strconv.Itoa(e.Status)
		}
		return console.Row(e.At, cmp.Or(e.Name, e.Subject), e.Operation, e.Tenant, e.Target, status, e.Remote, console.Shorten(e.Detail, 120),
			console.Cell{Text: console.Shorten(e.Error, 80), Colour: console.Red})
	},
	Wire: console.Same[api.AuditEntry],
	Page: func(all []api.AuditEntry, next string) any { return api.AuditList{Entries: all, NextPageToken: next} },
}
