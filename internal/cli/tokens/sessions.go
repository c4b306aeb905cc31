package tokens

import (
	"context"
	"errors"
	"fmt"
	"io"

	"github.com/abidehq/abide/internal/cli/connect"
	"github.com/abidehq/abide/internal/cli/console"

	"github.com/spf13/cobra"

	"github.com/abidehq/abide/remote"
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
			return h.UseTokens(cmd, false, func(ctx context.Context, tokens connect.TokensAPI) error {
				return sessionRows.PrintPages(ctx, cmd, &h.Out, p, false, func(ctx context.Context, limit int, cursor string) ([]api.Session, string, error) {
					page, err := tokens.Sessions(ctx, remote.SessionFilter{Subject: subject, Limit: limit, Cursor: cursor})
					return page.Sessions, page.NextPageToken, err
				})
			})
		},
	}
	cmd.Flags().StringVar(&subject, "subject", "", "those of that one: the subject of a login, or the ID of a token")
	p.AddTo(cmd)
	h.AddPlaceTo(cmd)
	return cmd
}

// sessionRows prints sessions.
var sessionRows = console.Rows[api.Session, api.Session]{
	Noun:   "sessions",
	Titles: []string{"ID", "NAME", "SUBJECT", "ROLE", "TENANTS", "OPENED WITH", "CREATED", "EXPIRES"},
	Row: func(s *api.Session) []console.Cell {
		with := "provider"
		if s.Kind == "token" {
			with = "token"
		}
		return console.Row(s.ID, s.Name, s.Subject, s.Role, tenantsText(s.Tenants), with, s.CreatedAt, s.ExpiresAt)
	},
	Wire: console.Same[api.Session],
	Page: func(all []api.Session, next string) any { return api.SessionList{Sessions: all, NextPageToken: next} },
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
			return h.UseTokens(cmd, false, func(ctx context.Context, tokens connect.TokensAPI) error {
				if subject != "" {
					n, err := tokens.RevokeSessions(ctx, subject)
					return errors.Join(h.Out.Print(cmd.OutOrStdout(), api.RevokedSessions{Revoked: n}, func(w io.Writer) error {
						_, err := fmt.Fprintf(w, "%s revoked\n", console.CountText(n, "session"))
						return err
					}), err)
				}
				return revokeEach(ctx, cmd, &h.Out, args, "session", tokens.RevokeSession)
			})
		},
	}
	cmd.Flags().StringVar(&subject, "subject", "", "whose sessions end: the subject of a login, or the ID of a token")
	sure.AddTo(cmd)
	h.AddPlaceTo(cmd)
	return cmd
}
