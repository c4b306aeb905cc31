package tokens

import (
	"context"
	"errors"
	"fmt"
	"io"

	"github.com/abidehq/abide/internal/cli/connect"
	"github.com/abidehq/abide/internal/cli/console"

	"github.com/spf13/cobra"

	"github.com/abidehq/abide/server/api"
)

// NewSessions returns the command abide sessions.
func NewSessions() *cobra.Command {
	return console.Group(
		&cobra.Command{
			Use:     "sessions",
			Aliases: []string{"session"},
			Short:   "List and revoke sessions of the page",
			Long: `A person who logs in to the page, with a token or at a provider, has a session for up to 12 hours.

` + connect.HomeHelp,
		},
		newSessionsList(), newSessionsRevoke(),
	)
}

func newSessionsList() *cobra.Command {
	var h connect.Home
	var p console.Paging
	var subject string
	cmd := &cobra.Command{
		Use:     "list",
		Short:   "List sessions that have not ended",
		Example: "  abide sessions list --subject 248289761001",
		Args:    console.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			return useTokens(&h, cmd, false, func(ctx context.Context, tokens connect.TokensAPI) error {
				found, next, err := console.ReadPages(p, func(limit int, cursor string) ([]api.Session, string, error) {
					page, err := tokens.Sessions(ctx, subject, limit, cursor)
					return page.Sessions, page.NextPageToken, err
				})
				if err != nil {
					return err
				}
				list := api.SessionList{Sessions: append([]api.Session{}, found...), NextPageToken: next}
				if err := h.Out.Print(cmd.OutOrStdout(), list, sessionsTable(found)); err != nil {
					return err
				}
				p.SayMore(cmd, &h.Out, "sessions", len(found), next)
				return nil
			})
		},
	}
	cmd.Flags().StringVar(&subject, "subject", "", "those of that one: the subject of a login, or the ID of a token")
	p.AddTo(cmd)
	h.AddPlaceTo(cmd)
	return cmd
}

// sessionsTable returns what prints sessions as a table.
func sessionsTable(found []api.Session) func(io.Writer) error {
	return func(w io.Writer) error {
		if len(found) == 0 {
			return nil
		}
		t := console.NewTable(w, "ID", "NAME", "SUBJECT", "ROLE", "TENANTS", "OPENED WITH", "CREATED", "EXPIRES")
		for i := range found {
			s := &found[i]
			with := "provider"
			if s.Kind == "token" {
				with = "token"
			}
			t.Add(console.Plain(s.ID), console.Plain(s.Name), console.Plain(s.Subject), console.Plain(s.Role), console.Plain(tenantsOfToken(&api.Token{Tenants: s.Tenants})), console.Plain(with),
				console.Plain(console.LocalTime(s.CreatedAt)), console.Plain(console.LocalTime(s.ExpiresAt)))
		}
		return t.Write(w)
	}
}

func newSessionsRevoke() *cobra.Command {
	var h connect.Home
	var sure console.Consent
	var subject string
	cmd := &cobra.Command{
		Use:   "revoke [ID...]",
		Short: "Revoke sessions, or all sessions of a subject",
		Long: `End sessions, or all sessions of a subject: at once in the process that does it, and within
seconds in others. Streams that were opened with them end within half a minute.

` + console.ConsentHelp,
		Example: "  abide sessions revoke --subject 248289761001 --yes",
		RunE: func(cmd *cobra.Command, args []string) error {
			if (subject == "") == (len(args) == 0) {
				return console.Usage("name the IDs of sessions, or whose sessions end with --subject")
			}
			what := console.CountOf(args, "session")
			if subject != "" {
				what = "all sessions of " + subject
			}
			if err := sure.Ask(cmd, "Revoke "+what+"?"); err != nil {
				return err
			}
			return useTokens(&h, cmd, false, func(ctx context.Context, tokens connect.TokensAPI) error {
				if subject != "" {
					n, err := tokens.RevokeSessions(ctx, subject)
					return errors.Join(h.Out.Print(cmd.OutOrStdout(), api.RevokedSessions{Revoked: n}, func(w io.Writer) error {
						_, err := fmt.Fprintf(w, "%s revoked\n", console.CountText(n, "session"))
						return err
					}), err)
				}
				done, err := console.Each(args, func(id string) (console.Gone, error) {
					return console.Gone{ID: id, Deleted: true}, tokens.RevokeSession(ctx, id)
				})
				return errors.Join(h.Out.Print(cmd.OutOrStdout(), append([]console.Gone{}, done...), func(w io.Writer) error {
					_, err := fmt.Fprintf(w, "%s revoked\n", console.CountText(len(done), "session"))
					return err
				}), err)
			})
		},
	}
	cmd.Flags().StringVar(&subject, "subject", "", "whose sessions end: the subject of a login, or the ID of a token")
	sure.AddTo(cmd)
	h.AddPlaceTo(cmd)
	return cmd
}
