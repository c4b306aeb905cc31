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
token takes the role read, operate or admin: each includes the one before.

` + connect.HomeHelp + ` Who can
open the store, or reach its socket, may do everything: that is how the first token is made.`,
		},
		newTokensCreate(), newTokensList(), newTokensRevoke(),
	)
}

// useTokens calls f with the tokens.
func useTokens(h *connect.Home, cmd *cobra.Command, makes bool, f func(ctx context.Context, tokens connect.TokensAPI) error) error {
	return h.Use(cmd, makes, func(ctx context.Context, b connect.Backend) error {
		tokens, err := b.Tokens()
		if err != nil {
			return err
		}
		return f(ctx, tokens)
	})
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
  abide tokens create me --role admin -o json`,
		Args: console.OneArg("a name for the token"),
		RunE: c.run,
	}
	f := cmd.Flags()
	f.SortFlags = false
	f.StringVar(&c.n.Role, "role", "", "what may be done with it: "+console.ListOf(auth.Roles))
	f.StringSliceVar(&c.n.Tenants, "for-tenant", nil, "a tenant that it is for; can be given more than once; without it, all are")
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
	return useTokens(&c.Home, cmd, true, func(ctx context.Context, tokens connect.TokensAPI) error {
		made, err := tokens.Create(ctx, c.n)
		if err != nil {
			return err
		}
		return c.Out.Print(cmd.OutOrStdout(), made, func(w io.Writer) error {
			cmd.PrintErrf("token %s: role %s, for %s. It is shown this once:\n", made.ID, made.Role, tenantsOfToken(&made.Token))
			_, err := fmt.Fprintln(w, made.Secret)
			return err
		})
	})
}

// tenantsOfToken returns the tenants that a token allows, in words.
func tenantsOfToken(t *api.Token) string {
	if t.Tenants == nil {
		return "all tenants"
	}
	return strings.Join(t.Tenants, ", ")
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
			return useTokens(&h, cmd, false, func(ctx context.Context, tokens connect.TokensAPI) error {
				found, next, err := console.ReadPages(p, func(limit int, cursor string) ([]api.Token, string, error) {
					page, err := tokens.List(ctx, limit, cursor)
					return page.Tokens, page.NextPageToken, err
				})
				if err != nil {
					return err
				}
				list := api.TokenList{Tokens: append([]api.Token{}, found...), NextPageToken: next}
				if err := h.Out.Print(cmd.OutOrStdout(), list, tokensTable(found)); err != nil {
					return err
				}
				p.SayMore(cmd, &h.Out, "tokens", len(found), next)
				return nil
			})
		},
	}
	p.AddTo(cmd)
	h.AddPlaceTo(cmd)
	return cmd
}

// tokensTable returns what prints tokens as a table.
func tokensTable(found []api.Token) func(io.Writer) error {
	return func(w io.Writer) error {
		if len(found) == 0 {
			return nil
		}
		t := console.NewTable(w, "ID", "NAME", "ROLE", "TENANTS", "CREATED", "EXPIRES", "USED")
		now := base.System{}.Now()
		for i := range found {
			token := &found[i]
			expires := console.Plain(console.LocalTime(token.ExpiresAt))
			if !token.ExpiresAt.IsZero() && !token.ExpiresAt.After(now) {
				expires.Colour = console.Red
			}
			t.Add(console.Plain(token.ID), console.Plain(token.Name), console.Plain(token.Role), console.Plain(tenantsOfToken(token)),
				console.Plain(console.LocalTime(token.CreatedAt)), expires, console.Plain(console.LocalTime(token.UsedAt)))
		}
		return t.Write(w)
	}
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
			return useTokens(&h, cmd, false, func(ctx context.Context, tokens connect.TokensAPI) error {
				done, err := console.Each(args, func(id string) (console.Gone, error) {
					return console.Gone{ID: id, Deleted: true}, tokens.Revoke(ctx, id)
				})
				return errors.Join(h.Out.Print(cmd.OutOrStdout(), append([]console.Gone{}, done...), func(w io.Writer) error {
					_, err := fmt.Fprintf(w, "%s revoked\n", console.CountText(len(done), "token"))
					return err
				}), err)
			})
		},
	}
	sure.AddTo(cmd)
	h.AddPlaceTo(cmd)
	return cmd
}
