package cli

import (
	"context"
	"errors"
	"fmt"
	"os"

	"github.com/spf13/cobra"

	"github.com/abidehq/abide"
	"github.com/abidehq/abide/remote"
	"github.com/abidehq/abide/store"
)

// home is where a command finds what it is about: at a server, or in a store. It says whose
// that is too, and how to print it.
type home struct {
	server serverFlags
	path   string
	tenant string
	out    output
}

// addTo gives a command the flags.
func (h *home) addTo(cmd *cobra.Command) {
	cmd.Flags().StringVar(&h.tenant, "tenant", abide.DefaultTenant, "whose it is")
	h.addPlaceTo(cmd)
}

// addPlaceTo gives a command the flags, for what belongs to no tenant.
func (h *home) addPlaceTo(cmd *cobra.Command) {
	f := cmd.Flags()
	h.server.addTo(cmd)
	f.StringVar(&h.path, "db", "", "folder of the store, or its URL; $ABIDE_STORE if not given, or ./"+defaultDB)
	h.out.addTo(cmd)
}

// use calls f with what is at the server or in the store. A store that is not there is made
// only if f is to put something into it.
func (h *home) use(cmd *cobra.Command, makes bool, f func(ctx context.Context, b backend) error) error {
	if err := h.out.check(cmd); err != nil {
		return err
	}
	return h.reach(cmd, makes, f)
}

// reach is use, for a command that has looked at its flags.
func (h *home) reach(cmd *cobra.Command, makes bool, f func(ctx context.Context, b backend) error) (err error) {
	ctx := cmd.Context()
	address, err := h.address()
	if err != nil {
		return err
	}
	if address != "" {
		return h.useServer(cmd, address, f)
	}
	p, err := findStore(h.path)
	if err != nil {
		return err
	}
	if !makes && !p.exists() {
		return fmt.Errorf("there is no store in %s: %w", p.shown, store.ErrNotFound)
	}
	reached := false
	st, err := p.open(ctx, func() bool {
		reached = p.socketAnswers(ctx)
		return reached
	})
	switch {
	case reached:
		return useSocket(ctx, p, f)
	case errors.Is(err, store.ErrInUse) && p.dir != "":
		return fmt.Errorf("another process has the store in %s open, and does not answer at %s: %w", p.shown, socketBeside(p.dir), remote.ErrUnreachable)
	case err != nil:
		return err
	}
	b := newStoreBackend(st)
	defer func() { err = errors.Join(err, b.close()) }()
	return f(ctx, b)
}

// address returns that of the server to talk to, or nothing if there is none. What the
// command line says comes before what the environment says, and there a server comes before
// a store.
func (h *home) address() (string, error) {
	switch {
	case h.server.url != "" && h.path != "":
		return "", usage("--server and --db exclude each other")
	case h.server.url != "":
		return h.server.url, nil
	case h.path != "":
		return "", nil
	default:
		return os.Getenv(envServer), nil
	}
}

// useEngine calls f with the instances.
func (h *home) useEngine(cmd *cobra.Command, makes bool, f func(ctx context.Context, engine *abide.Client) error) error {
	return h.use(cmd, makes, func(ctx context.Context, b backend) error {
		engine, err := b.engine()
		if err != nil {
			return err
		}
		return f(ctx, engine)
	})
}

// useActions calls f with the actions and schedules.
func (h *home) useActions(cmd *cobra.Command, makes bool, f func(ctx context.Context, actions actionsAPI) error) error {
	return h.use(cmd, makes, func(ctx context.Context, b backend) error {
		actions, err := b.actions()
		if err != nil {
			return err
		}
		return f(ctx, actions)
	})
}

// useTimers calls f with the timers.
func (h *home) useTimers(cmd *cobra.Command, makes bool, f func(ctx context.Context, timers timersAPI) error) error {
	return h.use(cmd, makes, func(ctx context.Context, b backend) error {
		timers, err := b.timers()
		if err != nil {
			return err
		}
		return f(ctx, timers)
	})
}

// socketAnswers reports whether the process that has the store open can be talked to.
func (p place) socketAnswers(ctx context.Context) bool {
	if p.dir == "" {
		return false
	}
	path, err := findSocket(p.dir)
	return err == nil && answers(ctx, path)
}
