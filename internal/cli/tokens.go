package cli

import (
	"context"
	"fmt"
	"io"
	"slices"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"github.com/abidehq/abide/internal/base"
	"github.com/abidehq/abide/server/api"
	"github.com/abidehq/abide/server/auth"
)

func newTokens() *cobra.Command {
	return group(
		&cobra.Command{
			Use:     "tokens",
			Aliases: []string{"token"},
			Short:   "Create, list and revoke API tokens",
			Long: `API tokens say to a server who makes a request, what that one may do, and for which tenants. A
token takes the role read, operate or admin: each includes the one before.

` + homeHelp + ` Who can
open the store, or reach its socket, may do everything: that is how the first token is made.`,
		},
		newTokensCreate(), newTokensList(), newTokensRevoke(),
	)
}

// useTokens calls f with the tokens.
func (h *home) useTokens(cmd *cobra.Command, makes bool, f func(ctx context.Context, tokens tokensAPI) error) error {
	return h.use(cmd, makes, func(ctx context.Context, b backend) error {
		tokens, err := b.tokens()
		if err != nil {
			return err
		}
		return f(ctx, tokens)
	})
}

// tokensCreate is the verb: abide tokens create.
type tokensCreate struct {
	home
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

` + timeHelp,
		Example: `  abide tokens create "deploys of acme" --role operate --for-tenant acme --expires +2160h
  abide tokens create dashboard --role read > /run/secrets/abide-token
  abide tokens create me --role admin -o json`,
		Args: oneArg("a name for the token"),
		RunE: c.run,
	}
	f := cmd.Flags()
	f.SortFlags = false
	f.StringVar(&c.n.Role, "role", "", "what may be done with it: "+listOf(auth.Roles))
	f.StringSliceVar(&c.n.Tenants, "for-tenant", nil, "a tenant that it is for; can be given more than once; without it, all are")
	f.StringVar(&c.expires, "expires", "", "when it stops working; never if not given")
	f.Float64Var(&c.n.Rate, "rate", 0, "how many requests per second may be made with it; as the server is configured if not given")
	c.addPlaceTo(cmd)
	return cmd
}

func (c *tokensCreate) run(cmd *cobra.Command, args []string) error {
	var err error
	c.n.Name = args[0]
	if !slices.Contains(auth.Roles, auth.Role(c.n.Role)) {
		return usage("--role is %q; allowed are: %s", c.n.Role, listOf(auth.Roles))
	}
	if c.n.ExpiresAt, err = parseTime("expires", c.expires, base.System{}.Now(), time.Local); err != nil {
		return err
	}
	return c.useTokens(cmd, true, func(ctx context.Context, tokens tokensAPI) error {
		made, err := tokens.Create(ctx, c.n)
		if err != nil {
			return err
		}
		return c.out.print(cmd.OutOrStdout(), made, func(w io.Writer) error {
			cmd.PrintErrf("token %s: role %s, for %s. It is shown this once:\n", made.ID, made.Role, tenantsOfToken(&made.Token))
			_, err := fmt.Fprintln(w, made.Secret)
			return err
		})
	})
}

// tenantsOfToken says whom a token is for.
func tenantsOfToken(t *api.Token) string {
	if t.Tenants == nil {
		return "all tenants"
	}
	return strings.Join(t.Tenants, ", ")
}

func newTokensList() *cobra.Command {
	var h home
	var p paging
	cmd := &cobra.Command{
		Use:     "list",
		Short:   "List tokens, without their secrets",
		Example: "  abide tokens list",
		Args:    noArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			return h.useTokens(cmd, false, func(ctx context.Context, tokens tokensAPI) error {
				found, next, err := readPages(p, func(limit int, cursor string) ([]api.Token, string, error) {
					page, err := tokens.List(ctx, limit, cursor)
					return page.Tokens, page.NextPageToken, err
				})
				if err != nil {
					return err
				}
				list := api.TokenList{Tokens: append([]api.Token{}, found...), NextPageToken: next}
				if err := h.out.print(cmd.OutOrStdout(), list, tokensTable(found)); err != nil {
					return err
				}
				p.sayMore(cmd, &h.out, "tokens", len(found), next)
				return nil
			})
		},
	}
	p.addTo(cmd)
	h.addPlaceTo(cmd)
	return cmd
}

// tokensTable returns what prints tokens as a table.
func tokensTable(found []api.Token) func(io.Writer) error {
	return func(w io.Writer) error {
		if len(found) == 0 {
			return nil
		}
		t := newTable(w, "ID", "NAME", "ROLE", "TENANTS", "CREATED", "EXPIRES", "USED")
		now := base.System{}.Now()
		for i := range found {
			token := &found[i]
			expires := plain(localTime(token.ExpiresAt))
			if !token.ExpiresAt.IsZero() && !token.ExpiresAt.After(now) {
				expires.colour = red
			}
			t.add(plain(token.ID), plain(token.Name), plain(token.Role), plain(tenantsOfToken(token)),
				plain(localTime(token.CreatedAt)), expires, plain(localTime(token.UsedAt)))
		}
		return t.write(w)
	}
}

func newTokensRevoke() *cobra.Command {
	var h home
	var sure consent
	cmd := &cobra.Command{
		Use:   "revoke ID...",
		Short: "Revoke tokens, and the sessions that were opened with them",
		Long: `End tokens, and the sessions that were opened with them: at once in the process that does it, and
within seconds in others.

` + consentHelp,
		Example: "  abide tokens revoke tk01abc --yes",
		Args:    someArgs("the IDs of tokens"),
		RunE: func(cmd *cobra.Command, args []string) error {
			if err := sure.ask(cmd, "Revoke "+countOf(args, "token")+"?"); err != nil {
				return err
			}
			return h.useTokens(cmd, false, func(ctx context.Context, tokens tokensAPI) error {
				done, err := each(args, func(id string) (gone, error) { return gone{ID: id, Deleted: true}, tokens.Revoke(ctx, id) })
				return joined(h.out.print(cmd.OutOrStdout(), append([]gone{}, done...), func(w io.Writer) error {
					_, err := fmt.Fprintf(w, "%s revoked\n", countText(len(done), "token"))
					return err
				}), err)
			})
		},
	}
	sure.addTo(cmd)
	h.addPlaceTo(cmd)
	return cmd
}
