package cli

import (
	"context"
	"io"
	"strconv"
	"time"

	"github.com/spf13/cobra"

	"github.com/abidehq/abide/internal/base"
	"github.com/abidehq/abide/remote"
	"github.com/abidehq/abide/server/api"
)

func newAudit() *cobra.Command {
	return group(
		&cobra.Command{
			Use:   "audit",
			Short: "Read the audit log: who has changed what",
			Long: `The audit log has each call that changes something: when, by whom, from where, what was done to
what, and how it ended.

` + homeHelp,
		},
		newAuditList(),
	)
}

// auditList is the verb: abide audit list.
type auditList struct {
	home
	paging
	q        remote.AuditQuery
	from, to string
}

func newAuditList() *cobra.Command {
	l := &auditList{}
	cmd := &cobra.Command{
		Use:   "list",
		Short: "List entries, the latest first",
		Long:  "List what was done, the latest first.\n\n" + timeHelp,
		Example: `  abide audit list --from -24h
  abide audit list --operation terminate-instance --of-tenant acme -o json`,
		Args: noArgs,
		RunE: l.run,
	}
	f := cmd.Flags()
	f.SortFlags = false
	f.StringVar(&l.from, "from", "", "what was done at that time or later")
	f.StringVar(&l.to, "to", "", "what was done before that time")
	f.StringVar(&l.q.Subject, "subject", "", "what that one did: the ID of a token, or the subject of a login or of a certificate")
	f.StringVar(&l.q.Operation, "operation", "", "what was done: start-instance, revoke-token and so on")
	f.StringVar(&l.q.Tenant, "of-tenant", "", "what was done to that tenant's")
	l.paging.addTo(cmd)
	l.addPlaceTo(cmd)
	return cmd
}

func (l *auditList) run(cmd *cobra.Command, _ []string) error {
	var err error
	now := base.System{}.Now()
	if l.q.From, err = parseTime("from", l.from, now, time.Local); err != nil {
		return err
	}
	if l.q.To, err = parseTime("to", l.to, now, time.Local); err != nil {
		return err
	}
	return l.useTokens(cmd, false, func(ctx context.Context, tokens tokensAPI) error {
		found, next, err := readPages(l.paging, func(limit int, cursor string) ([]api.AuditEntry, string, error) {
			l.q.Limit, l.q.Cursor = limit, cursor
			page, err := tokens.Audit(ctx, l.q)
			return page.Entries, page.NextPageToken, err
		})
		if err != nil {
			return err
		}
		list := api.AuditList{Entries: append([]api.AuditEntry{}, found...), NextPageToken: next}
		if err := l.out.print(cmd.OutOrStdout(), list, auditTable(found)); err != nil {
			return err
		}
		l.paging.sayMore(cmd, &l.out, "entries", len(found), next)
		return nil
	})
}

// auditTable returns what prints entries of the audit log as a table.
func auditTable(found []api.AuditEntry) func(io.Writer) error {
	return func(w io.Writer) error {
		if len(found) == 0 {
			return nil
		}
		t := newTable(w, "WHEN", "WHO", "OPERATION", "TENANT", "TARGET", "STATUS", "FROM", "DETAIL", "ERROR")
		for _, e := range found {
			who, status := e.Name, plain("")
			if who == "" {
				who = e.Subject
			}
			if e.Status != 0 {
				status.text = strconv.Itoa(e.Status)
			}
			t.add(plain(localTime(e.At)), plain(who), plain(e.Operation), plain(e.Tenant), plain(e.Target), status,
				plain(e.Remote), plain(shorten(e.Detail, 120)), cell{shorten(e.Error, 80), red})
		}
		return t.write(w)
	}
}
