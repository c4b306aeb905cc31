package cli

import (
	"context"
	"fmt"
	"io"

	"github.com/spf13/cobra"

	"github.com/abidehq/abide/server/api"
)

func newSessions() *cobra.Command {
	return group(
		&cobra.Command{
			Use:     "sessions",
			Aliases: []string{"session"},
			Short:   "List and revoke sessions of the page",
			Long: `A person who logs in to the page, with a token or at a provider, has a session for up to 12 hours.

` + homeHelp,
		},
		newSessionsList(), newSessionsRevoke(),
	)
}

func newSessionsList() *cobra.Command {
	var h home
	var p paging
	var subject string
	cmd := &cobra.Command{
		Use:     "list",
		Short:   "List sessions that have not ended",
		Example: "  abide sessions list --subject 248289761001",
		Args:    noArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			return h.useTokens(cmd, false, func(ctx context.Context, tokens tokensAPI) error {
				found, next, err := readPages(p, func(limit int, cursor string) ([]api.Session, string, error) {
					page, err := tokens.Sessions(ctx, subject, limit, cursor)
					return page.Sessions, page.NextPageToken, err
				})
				if err != nil {
					return err
				}
				list := api.SessionList{Sessions: append([]api.Session{}, found...), NextPageToken: next}
				if err := h.out.print(cmd.OutOrStdout(), list, sessionsTable(found)); err != nil {
					return err
				}
				p.sayMore(cmd, &h.out, "sessions", len(found), next)
				return nil
			})
		},
	}
	cmd.Flags().StringVar(&subject, "subject", "", "those of that one: the subject of a login, or the ID of a token")
	p.addTo(cmd)
	h.addPlaceTo(cmd)
	return cmd
}

// sessionsTable returns what prints sessions as a table.
func sessionsTable(found []api.Session) func(io.Writer) error {
	return func(w io.Writer) error {
		if len(found) == 0 {
			return nil
		}
		t := newTable(w, "ID", "NAME", "SUBJECT", "ROLE", "TENANTS", "OPENED WITH", "CREATED", "EXPIRES")
		for i := range found {
			s := &found[i]
			with := "provider"
			if s.Kind == "token" {
				with = "token"
			}
			t.add(plain(s.ID), plain(s.Name), plain(s.Subject), plain(s.Role), plain(tenantsOfToken(&api.Token{Tenants: s.Tenants})), plain(with),
				plain(localTime(s.CreatedAt)), plain(localTime(s.ExpiresAt)))
		}
		return t.write(w)
	}
}

func newSessionsRevoke() *cobra.Command {
	var h home
	var sure consent
	var subject string
	cmd := &cobra.Command{
		Use:   "revoke [ID...]",
		Short: "Revoke sessions, or all sessions of a subject",
		Long: `End sessions, or all sessions of a subject: at once in the process that does it, and within
seconds in others. Streams that were opened with them end within half a minute.

` + consentHelp,
		Example: "  abide sessions revoke --subject 248289761001 --yes",
		RunE: func(cmd *cobra.Command, args []string) error {
			if (subject == "") == (len(args) == 0) {
				return usage("name the IDs of sessions, or whose sessions end with --subject")
			}
			what := countOf(args, "session")
			if subject != "" {
				what = "all sessions of " + subject
			}
			if err := sure.ask(cmd, "Revoke "+what+"?"); err != nil {
				return err
			}
			return h.useTokens(cmd, false, func(ctx context.Context, tokens tokensAPI) error {
				if subject != "" {
					n, err := tokens.RevokeSessions(ctx, subject)
					return joined(h.out.print(cmd.OutOrStdout(), api.RevokedSessions{Revoked: n}, func(w io.Writer) error {
						_, err := fmt.Fprintf(w, "%s revoked\n", countText(n, "session"))
						return err
					}), err)
				}
				done, err := each(args, func(id string) (gone, error) { return gone{ID: id, Deleted: true}, tokens.RevokeSession(ctx, id) })
				return joined(h.out.print(cmd.OutOrStdout(), append([]gone{}, done...), func(w io.Writer) error {
					_, err := fmt.Fprintf(w, "%s revoked\n", countText(len(done), "session"))
					return err
				}), err)
			})
		},
	}
	cmd.Flags().StringVar(&subject, "subject", "", "whose sessions end: the subject of a login, or the ID of a token")
	sure.addTo(cmd)
	h.addPlaceTo(cmd)
	return cmd
}
