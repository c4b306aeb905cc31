package serve

import (
	"context"
	"errors"
	"log/slog"
	"net/http"
	"os"
	"strings"
	"sync"
	"time"

	"github.com/abidehq/abide/internal/cli/actions"
	"github.com/abidehq/abide/internal/cli/connect"
	"github.com/abidehq/abide/internal/cli/console"

	"github.com/spf13/cobra"

	"github.com/abidehq/abide/action"
	"github.com/abidehq/abide/action/target"
	"github.com/abidehq/abide/internal/socket"
	"github.com/abidehq/abide/server"
	"github.com/abidehq/abide/store"
)

// orchestrate is the verb: abide orchestrate.
type orchestrate struct {
	db         string
	rate       time.Duration
	slots      int
	timeout    time.Duration
	attempts   int
	idempotent bool
	tenants    []string
	env        []string
	retention  time.Duration
	drain      time.Duration
	logs       console.Logs
}

// NewOrchestrate returns the command abide orchestrate.
func NewOrchestrate() *cobra.Command {
	o := &orchestrate{}
	cmd := &cobra.Command{
		Use:   "orchestrate [flags] -- COMMAND [ARGS...]",
		Short: "Run the tick loop: a command for each action that is due",
		Long: `Run the tick loop in the foreground.

At each tick, the actions that are due are marked running, and the command is run for
each of them, without a shell. In its arguments, {slug}, {id}, {tenant} and {attempt}
stand for those of the action; {{ and }} stand for braces. The payload of the action is
on its standard input. An action has completed if the exit code is 0, and has failed
otherwise.

The command gets few variables of the environment: PATH, HOME, USER, LANG, TZ, TMPDIR,
those that --env names, and ABIDE_SLUG, ABIDE_ACTION_ID and others that say what it
runs for.

Actions are added with 'abide actions' and 'abide schedules', while the loop runs or
before. The store is in the folder that --db names. While the loop runs, it has the
store, and the other commands talk to it through a socket beside that folder.

On SIGTERM or SIGINT no more actions begin, and those that run have --drain to end. What
runs still is then told to stop: it is run again later if it is idempotent, and has
failed otherwise. A second signal ends the loop at once. If the loop dies, the actions
that ran are "failed: recovered from restart" when it is started again, or run again if
they are idempotent.

systemd is told when the loop is ready, with Type=notify.`,
		Example: `  abide orchestrate -- sdlc next --for {slug}
  abide orchestrate --tick-rate 30 --db /var/lib/abide -- ./deploy.sh {slug}
  abide orchestrate --idempotent --attempts 3 --timeout 10m --env API_TOKEN -- ./sync {slug}`,
		Args: func(_ *cobra.Command, args []string) error {
			if len(args) == 0 {
				return console.Usage("no command: say what to run for an action, such as: abide orchestrate -- ./deploy.sh {slug}")
			}
			return nil
		},
		RunE: o.run,
	}
	o.addFlags(cmd)
	return cmd
}

func (o *orchestrate) addFlags(cmd *cobra.Command) {
	f := cmd.Flags()
	f.SortFlags = false
	f.SetInterspersed(false) // what follows the command is the command's
	console.DurationVar(f, &o.rate, "tick-rate", time.Minute, "how often there is a tick; a plain number means seconds")
	f.StringVar(&o.db, "db", "", "folder of the store, or its URL; $ABIDE_STORE if not given, or ./"+connect.DefaultDB)
	f.IntVar(&o.slots, "slots", 16, "how many actions run at a time")
	console.DurationVar(f, &o.timeout, "timeout", time.Hour, "how long a run may take")
	f.IntVar(&o.attempts, "attempts", 1, "how often an action is run that fails")
	f.BoolVar(&o.idempotent, "idempotent", false, "all actions may be run again if their outcome is unknown")
	f.StringSliceVar(&o.tenants, "tenants", nil, "tenants whose actions are run, with commas between; all if not given")
	f.StringArrayVar(&o.env, "env", nil, "name of a variable that the command gets too; can be given more than once")
	console.DurationVar(f, &o.retention, "retention", action.DefaultRetention, "how long actions are kept that have ended; negative means for ever")
	console.DurationVar(f, &o.drain, "drain", 10*time.Second, "how long actions that run may take to end when the loop is stopped")
	o.logs.AddTo(cmd)
}

func (o *orchestrate) run(cmd *cobra.Command, argv []string) (err error) {
	log, err := o.logs.Open(cmd.ErrOrStderr())
	if err != nil {
		return err
	}
	if err := o.Check(); err != nil {
		return err
	}
	slog.SetDefault(log) // what the store has to say
	command, err := o.command(argv)
	if err != nil {
		return err
	}
	p, err := connect.FindStore(o.db)
	if err != nil {
		return err
	}
	if strings.HasPrefix(p.URL, "memory:") {
		return console.Usage("a store in memory is of no use here: no other process can add actions to it")
	}
	ctx := cmd.Context()
	st, err := p.Open(ctx, func() bool { return p.SocketAnswers(ctx) })
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, st.Close()) }()
	return o.loop(ctx, log, st, p, command, argv)
}

// Check finds zeros, which would mean the default further down.
func (o *orchestrate) Check() error {
	switch {
	case o.rate <= 0:
		return console.Usage("--tick-rate is %v; more than 0 is allowed", o.rate)
	case o.slots <= 0:
		return console.Usage("--slots is %d; 1 or more is allowed", o.slots)
	case o.timeout <= 0:
		return console.Usage("--timeout is %v; more than 0 is allowed", o.timeout)
	case o.attempts <= 0:
		return console.Usage("--attempts is %d; 1 or more is allowed", o.attempts)
	case o.drain < 0:
		return console.Usage("--drain is %v, which is negative", o.drain)
	}
	o.drain = max(o.drain, 1)
	if o.retention == 0 {
		o.retention = 1
	}
	return nil
}

// command returns the target, or an error if it could not be run right now.
func (o *orchestrate) command(argv []string) (*target.Command, error) {
	inherit := append(append([]string{}, target.DefaultInherit...), o.env...)
	command, err := target.NewCommand(target.CommandConfig{Argv: argv, Inherit: inherit})
	if err != nil {
		return nil, err
	}
	if err := command.Check(); err != nil {
		return nil, err
	}
	return command, nil
}

// loop ticks until ctx ends.
func (o *orchestrate) loop(ctx context.Context, log *slog.Logger, st store.Store, p connect.Place, command *target.Command, argv []string) (err error) {
	actions, err := action.New(action.Config{
		Store: st, Rate: o.rate, Slots: o.slots, DrainTimeout: o.drain, Retention: o.retention, WorkerName: hostName(), Logger: log,
		Targets: map[string]action.Definition{
			actions.CommandTarget: {Target: command, Tenants: o.tenants, Timeout: o.timeout, Attempts: o.attempts, Idempotent: o.idempotent},
		},
	})
	if err != nil {
		return err
	}
	attrs := []any{"command", argv[0], "arguments", len(argv) - 1, "store", p.Shown, "tick_rate", o.rate.String(), "slots", o.slots}
	if p.Dir != "" {
		s, err := serve(ctx, log, p.Dir, st, actions)
		if err != nil {
			return err
		}
		defer s.stop()
		attrs = append(attrs, "socket", s.socket.Path)
	}
	log.Info("tick loop started", attrs...)
	o.tell(ctx, log, "READY=1")
	defer context.AfterFunc(ctx, func() {
		log.Info("tick loop stopping, waiting for running actions", "drain", o.drain.String())
		o.tell(context.WithoutCancel(ctx), log, "STOPPING=1")
	})()
	if err := actions.Run(ctx); err != nil {
		return err
	}
	log.Info("tick loop stopped")
	return nil
}

// hostName is the name under which the loop shows among workers.
func hostName() string {
	if name, err := os.Hostname(); err == nil && name != "" {
		return name
	}
	return "abide"
}

func (o *orchestrate) tell(ctx context.Context, log *slog.Logger, state string) {
	if err := notify(ctx, state); err != nil {
		log.Warn("sd_notify failed", "state", state, "error", err)
	}
}

// serving is a server on the socket of a store.
type serving struct {
	socket *socket.Socket
	http   *http.Server
	log    *slog.Logger
	cancel context.CancelFunc
	ended  sync.WaitGroup
}

// serve serves all that is in a store on the socket in its folder: who has the store open
// answers for it, whatever others want of it.
func serve(ctx context.Context, log *slog.Logger, dir string, st store.Store, actions *action.Service) (*serving, error) {
	b := connect.NewStoreBackend(st)
	timers, err := b.TimerService()
	if err != nil {
		return nil, err
	}
	operations, err := b.OperationService()
	if err != nil {
		return nil, err
	}
	handler, err := server.New(server.Config{
		Store: st, Engine: b.Client(), Timers: timers, Actions: actions, Operations: operations, Version: console.ReadVersion().Version, Logger: log,
	})
	if err != nil {
		return nil, err
	}
	sock, err := socket.Listen(ctx, dir)
	if err != nil {
		return nil, err
	}
	s := &serving{socket: sock, log: log, http: &http.Server{
		Handler:           handler,
		ReadHeaderTimeout: 10 * time.Second,
		ErrorLog:          slog.NewLogLogger(log.Handler(), slog.LevelWarn),
	}}
	s.http.RegisterOnShutdown(handler.Drain)
	ctx, s.cancel = context.WithCancel(ctx)
	s.ended.Go(func() {
		if err := s.http.Serve(sock); !errors.Is(err, http.ErrServerClosed) {
			log.Error("socket server stopped", "socket", sock.Path, "error", err)
		}
	})
	s.ended.Go(func() {
		if err := handler.Run(ctx); err != nil && ctx.Err() == nil {
			log.Error("operations stopped", "error", err)
		}
	})
	return s, nil
}

// stop lets requests that are under way end, and removes the socket.
func (s *serving) stop() {
	ctx, cancel := context.WithTimeout(context.Background(), 2*time.Second)
	defer cancel()
	if err := s.http.Shutdown(ctx); err != nil {
		_ = s.http.Close()
	}
	s.cancel()
	s.ended.Wait()
	if err := s.socket.Close(); err != nil {
		s.log.Warn("socket not removed", "error", err)
	}
}
