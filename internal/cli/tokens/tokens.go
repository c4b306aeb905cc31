package tokens

import (
	"context"
	"errors"
	"fmt"
	"io"
	"slices"
	"strings"
	"time"

	"github.com/abidehq/abide/internal/cli/connect"
	"github.com/abidehq/abide/internal/cli/console"

	"github.com/spf13/cobra"

	"github.com/abidehq/abide/internal/base"
	"github.com/abidehq/abide/remote"
	"github.com/abidehq/abide/server/api"
	"github.com/abidehq/abide/server/auth"
)

// New returns the command abide tokens.
func New() *cobra.Command {
	return console.Group(
		&cobra.Command{
			Use:     "tokens",
			Aliases: []string{"token"},
			Short:   "Create, list and revoke API tokens",
			Long: `API tokens say to a server who makes a request, what that one may do, and for which tenants. A
token takes the role read, operate, worker or admin: each includes the one before.

` + connect.HomeHelp + ` Who can
open the store, or reach its socket, may do everything: that is how the first token is made.`,
		},
		newTokensCreate(), newTokensList(), newTokensRevoke(),
	)
}

// tokensCreate is the verb: abide tokens create.
type tokensCreate struct {
	connect.Home
	n       api.NewToken
	expires string
}

func newTokensCreate() *cobra.Command {
	c := &tokensCreate{}
	cmd := &cobra.Command{
		Use:   "create NAME",
		Short: "Create a token",
		Long: `Make a token, and print it. It is kept nowhere, so this is the only time that it is shown. NAME is
for people: what the token is for, or whose it is.

The token is all that is printed to standard output, so that it can go into a file; the rest
goes to standard error.

` + console.TimeHelp,
		Example: `  abide tokens create "deploys of acme" --role operate --for-tenant acme --expires +2160h
  abide tokens create dashboard --role read > /run/secrets/abide-token
  abide tokens create shipping --role worker --serve ship --serve 'label-*'
  abide tokens create me --role admin -o json`,
		Args: console.OneArg("a name for the token"),
		RunE: c.run,
	}
	f := cmd.Flags()
	f.SortFlags = false
	f.StringVar(&c.n.Role, "role", "", "what may be done with it: "+console.ListOf(auth.Roles))
	f.StringSliceVar(&c.n.Tenants, "for-tenant", nil, "a tenant that it is for; can be given more than once; without it, all are")
	f.StringSliceVar(&c.n.Serve, "serve", nil, "an orchestration or activity that a worker may serve with it, or a beginning of names and *; can be given more than once; without it, all are")
	f.StringVar(&c.expires, "expires", "", "when it stops working; never if not given")
	f.Float64Var(&c.n.Rate, "rate", 0, "how many requests per second may be made with it; as the server is configured if not given")
	c.AddPlaceTo(cmd)
	return cmd
}

func (c *tokensCreate) run(cmd *cobra.Command, args []string) error {
	var err error
	c.n.Name = args[0]
	if !slices.Contains(auth.Roles, auth.Role(c.n.Role)) {
		return console.Usage("--role is %q; allowed are: %s", c.n.Role, console.ListOf(auth.Roles))
	}
	if c.n.ExpiresAt, err = console.ParseTime("expires", c.expires, base.System{}.Now(), time.Local); err != nil {
		return err
	}
	return c.UseTokens(cmd, true, func(ctx context.Context, tokens connect.TokensAPI) error {
		made, err := tokens.Create(ctx, c.n)
		if err != nil {
			return err
		}
		return c.Out.Print(cmd.OutOrStdout(), made, func(w io.Writer) error {
			cmd.PrintErrf("token %s: role %s, for %s. It is shown this once:\n", made.ID, made.Role, tenantsText(made.Tenants))
			_, err := fmt.Fprintln(w, made.Secret)
			return err
		})
	})
}

// tenantsText returns the tenants that a token or a session allows, in words.
func tenantsText(tenants []string) string {
	if tenants == nil {
		return "all tenants"
	}
	return strings.Join(tenants, ", ")
}

func newTokensList() *cobra.Command {
	var h connect.Home
	var p console.Paging
	cmd := &cobra.Command{
		Use:     "list",
		Short:   "List tokens, without their secrets",
		Example: "  abide tokens list",
		Args:    console.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			return h.UseTokens(cmd, false, func(ctx context.Context, tokens connect.TokensAPI) error {
				return tokenRows.PrintPages(ctx, cmd, &h.Out, p, false, func(ctx context.Context, limit int, cursor string) ([]api.Token, string, error) {
					page, err := tokens.List(ctx, remote.TokenFilter{Limit: limit, Cursor: cursor})
					return page.Tokens, page.NextPageToken, err
				})
			})
		},
	}
	p.AddTo(cmd)
	h.AddPlaceTo(cmd)
	return cmd
}

// tokenRows prints tokens.
var tokenRows = console.Rows[api.Token, api.Token]{
	Noun:   "tokens",
	Titles: []string{"ID", "NAME", "ROLE", "TENANTS", "SERVES", "CREATED", "EXPIRES", "USED"},
	Row: func(t *api.Token) []console.Cell {
		expires := console.Plain(console.LocalTime(t.ExpiresAt))
		if !t.ExpiresAt.IsZero() && !t.ExpiresAt.After(base.System{}.Now()) {
			expires.Colour = console.Red
		}
		return console.Row(t.ID, t.Name, t.Role, tenantsText(t.Tenants), strings.Join(t.Serve, ", "), t.CreatedAt, expires, t.UsedAt)
	},
	Wire: console.Same[api.Token],
	Page: func(all []api.Token, next string) any { return api.TokenList{Tokens: all, NextPageToken: next} },
}

func newTokensRevoke() *cobra.Command {
	var h connect.Home
	var sure console.Consent
	cmd := &cobra.Command{
		Use:   "revoke ID...",
		Short: "Revoke tokens, and the sessions that were opened with them",
		Long: `End tokens, and the sessions that were opened with them: at once in the process that does it, and
within seconds in others.

` + console.ConsentHelp,
		Example: "  abide tokens revoke tk01abc --yes",
		Args:    console.SomeArgs("the IDs of tokens"),
		RunE: func(cmd *cobra.Command, args []string) error {
			if err := sure.Ask(cmd, "Revoke "+console.CountOf(args, "token")+"?"); err != nil {
				return err
			}
			return h.UseTokens(cmd, false, func(ctx context.Context, tokens connect.TokensAPI) error {
				return revokeEach(ctx, cmd, &h.Out, args, "token", tokens.Revoke)
			})
		},
	}
	sure.AddTo(cmd)
	h.AddPlaceTo(cmd)
	return cmd
}

// revokeEach revokes tokens or sessions, and prints how many. It continues after an error.
func revokeEach(ctx context.Context, cmd *cobra.Command, out *console.Output, ids []string, noun string, revoke func(ctx context.Context, id string) error) error {
	done, err := console.Each(ids, func(id string) (console.Gone, error) {
		return console.Gone{ID: id, Deleted: true}, revoke(ctx, id)
	})
	return errors.Join(out.Print(cmd.OutOrStdout(), append([]console.Gone{}, done...), func(w io.Writer) error {
		_, err := fmt.Fprintf(w, "%s revoked\n", console.CountText(len(done), noun))
		return err
	}), err)
}
