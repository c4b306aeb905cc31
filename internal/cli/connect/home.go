package connect

import (
	"context"
	"errors"
	"fmt"
	"os"

	"github.com/abidehq/abide/internal/cli/console"

	"github.com/spf13/cobra"

	"github.com/abidehq/abide"
	"github.com/abidehq/abide/internal/socket"
	"github.com/abidehq/abide/remote"
	"github.com/abidehq/abide/store"
)

// Home is where a command finds what it is about: at a server, or in a store. It says whose
// that is too, and how to print it.
type Home struct {
	Server serverFlags
	Path   string
	Tenant string
	Out    console.Output
}

// AddTo gives a command the flags.
func (h *Home) AddTo(cmd *cobra.Command) {
	cmd.Flags().StringVar(&h.Tenant, "tenant", abide.DefaultTenant, "whose it is")
	h.AddPlaceTo(cmd)
}

// AddPlaceTo gives a command the flags, for what belongs to no tenant.
func (h *Home) AddPlaceTo(cmd *cobra.Command) {
	f := cmd.Flags()
	h.Server.AddTo(cmd)
	f.StringVar(&h.Path, "db", "", "folder of the store, or its URL; $ABIDE_STORE if not given, or ./"+DefaultDB)
	h.Out.AddTo(cmd)
}

// Use calls f with what is at the server or in the store. A store that is not there is made
// only if f is to put something into it.
func (h *Home) Use(cmd *cobra.Command, makes bool, f func(ctx context.Context, b Backend) error) error {
	if err := h.Out.Check(cmd); err != nil {
		return err
	}
	return h.Reach(cmd, makes, f)
}

// Reach is use, for a command that has looked at its flags.
func (h *Home) Reach(cmd *cobra.Command, makes bool, f func(ctx context.Context, b Backend) error) (err error) {
	ctx := cmd.Context()
	address, err := h.Address()
	if err != nil {
		return err
	}
	if address != "" {
		return h.useServer(cmd, address, f)
	}
	p, err := FindStore(h.Path)
	if err != nil {
		return err
	}
	if !makes && !p.Exists() {
		return fmt.Errorf("there is no store in %s: %w", p.Shown, store.ErrNotFound)
	}
	reached := false
	st, err := p.Open(ctx, func() bool {
		reached = p.SocketAnswers(ctx)
		return reached
	})
	switch {
	case reached:
		return useSocket(ctx, p, f)
	case errors.Is(err, store.ErrInUse) && p.Dir != "":
		return fmt.Errorf("another process has the store in %s open, and does not answer at %s; if it mounts the server, set server.Config.Socket, or name its address, such as --server http://127.0.0.1:8080/abide: %w", p.Shown, socket.Beside(p.Dir), remote.ErrUnreachable)
	case err != nil:
		return err
	}
	b := NewStoreBackend(st)
	defer func() { err = errors.Join(err, b.Close()) }()
	return f(ctx, b)
}

// Address returns that of the server to talk to, or nothing if there is none. What the
// command line says comes before what the environment says, and there a server comes before
// a store.
func (h *Home) Address() (string, error) {
	switch {
	case h.Server.URL != "" && h.Path != "":
		return "", console.Usage("--server and --db exclude each other")
	case h.Server.URL != "":
		return h.Server.URL, nil
	case h.Path != "":
		return "", nil
	default:
		return os.Getenv(EnvServer), nil
	}
}

// using calls f with the client of a noun.
func using[C any](h *Home, cmd *cobra.Command, makes bool, client func(Backend) (C, error), f func(ctx context.Context, c C) error) error {
	return h.Use(cmd, makes, func(ctx context.Context, b Backend) error {
		c, err := client(b)
		if err != nil {
			return err
		}
		return f(ctx, c)
	})
}

// UseEngine calls f with the client of instances.
func (h *Home) UseEngine(cmd *cobra.Command, makes bool, f func(ctx context.Context, engine *abide.Client) error) error {
	return using(h, cmd, makes, Backend.Engine, f)
}

// UseActions calls f with the client of actions and schedules.
func (h *Home) UseActions(cmd *cobra.Command, makes bool, f func(ctx context.Context, actions ActionsAPI) error) error {
	return using(h, cmd, makes, Backend.Actions, f)
}

// UseTimers calls f with the client of timers.
func (h *Home) UseTimers(cmd *cobra.Command, makes bool, f func(ctx context.Context, timers TimersAPI) error) error {
	return using(h, cmd, makes, Backend.Timers, f)
}

// UseTokens calls f with the client of tokens, sessions and the audit log.
func (h *Home) UseTokens(cmd *cobra.Command, makes bool, f func(ctx context.Context, tokens TokensAPI) error) error {
	return using(h, cmd, makes, Backend.Tokens, f)
}

// Verb makes cmd a command with one argument, the name of something that a tenant has. It calls
// do with the client that the noun has, and show with what do returned. What describes the argument
// in error messages. The caller may add flags to cmd.
func Verb[C, T any](
	cmd *cobra.Command, what string, client func(Backend) (C, error),
	do func(ctx context.Context, c C, tenant, name string) (T, error),
	show func(cmd *cobra.Command, out *console.Output, v T) error,
) *cobra.Command {
	h := &Home{}
	cmd.Args = console.OneArg(what)
	cmd.RunE = func(cmd *cobra.Command, args []string) error {
		return using(h, cmd, false, client, func(ctx context.Context, c C) error {
			v, err := do(ctx, c, h.Tenant, args[0])
			if err != nil {
				return err
			}
			return show(cmd, &h.Out, v)
		})
	}
	h.AddTo(cmd)
	return cmd
}

// SocketAnswers reports whether the process that has the store open can be talked to.
func (p Place) SocketAnswers(ctx context.Context) bool {
	if p.Dir == "" {
		return false
	}
	path, err := socket.Find(p.Dir)
	return err == nil && socket.Answers(ctx, path)
}

// HomeHelp is what the help of each noun says about where things are.
const HomeHelp = `The commands talk to the server that --server or $ABIDE_SERVER names, with the token in
$ABIDE_TOKEN or in the file that $ABIDE_TOKEN_FILE names. Without one they open the store, or
talk to the process that has it open.`

// ListAll makes cmd a command that prints a list which has no pages and belongs to no tenant.
func ListAll[T, W any](cmd *cobra.Command, rows console.Rows[T, W], read func(ctx context.Context, b Backend) ([]T, error)) *cobra.Command {
	h := &Home{}
	cmd.Args = console.NoArgs
	cmd.RunE = func(cmd *cobra.Command, _ []string) error {
		return h.Use(cmd, false, func(ctx context.Context, b Backend) error {
			found, err := read(ctx, b)
			if err != nil {
				return err
			}
			return rows.PrintAll(cmd, &h.Out, found)
		})
	}
	h.AddPlaceTo(cmd)
	return cmd
}
