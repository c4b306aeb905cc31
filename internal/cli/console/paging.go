package console

import (
	"context"

	"github.com/spf13/cobra"

	"github.com/abidehq/abide/action"
)

// Paging says which part of a list is wanted.
type Paging struct {
	limit int
	token string
}

// AddTo gives a command the flags.
func (p *Paging) AddTo(cmd *cobra.Command) {
	cmd.Flags().IntVar(&p.limit, "limit", 50, "how many at most")
	cmd.Flags().IntVar(&p.limit, "page-size", 50, "the same, as the API calls it")
	_ = cmd.Flags().MarkHidden("page-size") // the flag exists
	cmd.Flags().StringVar(&p.token, "page-token", "", "start after the page that returned this token")
}

// ReadPage reads a page of a list. Next is the cursor of the page after it, or empty.
type ReadPage[T any] func(ctx context.Context, limit int, cursor string) (page []T, next string, err error)

// ReadPages reads pages until there is as much as is wanted, or no more.
func ReadPages[T any](ctx context.Context, p Paging, read ReadPage[T]) (all []T, next string, err error) {
	if p.limit < 1 {
		return nil, "", Usage("--limit is %d; 1 or more is allowed", p.limit)
	}
	for next = p.token; ; {
		var page []T
		page, next, err = read(ctx, min(p.limit-len(all), action.MaxPage), next)
		all = append(all, page...)
		if err != nil || next == "" || len(all) >= p.limit {
			return all, next, err
		}
	}
}

// SayMore tells a person what a table does not show.
func (p *Paging) SayMore(cmd *cobra.Command, out *Output, what string, n int, next string) {
	switch {
	case out.IsJSON():
	case n == 0:
		cmd.PrintErrf("there are no such %s\n", what)
	case next != "":
		cmd.PrintErrf("there may be more: --limit or --page-token %s shows them\n", next)
	}
}
