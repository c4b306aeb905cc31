package serve

import (
	"errors"
	"fmt"
	"io"
	"log/slog"
	"os"
	"os/signal"
	"path/filepath"
	"strings"
	"syscall"

	"github.com/abidehq/abide/internal/cli/connect"
	"github.com/abidehq/abide/internal/cli/console"

	"github.com/spf13/cobra"

	"github.com/abidehq/abide/internal/config"
	"github.com/abidehq/abide/internal/daemon"
	"github.com/abidehq/abide/internal/socket"
	"github.com/abidehq/abide/store"
)

// New returns the command abide serve.
func New() *cobra.Command {
	c := &configured{}
	cmd := &cobra.Command{
		Use:   "serve",
		Short: "Serve the page, the API, webhooks, timers and actions",
		Long: `Serve Abide in the foreground: the web page at /, the API at /api/v1, webhooks at
/hooks/{slug}, and /metrics, /healthz, /readyz, /openapi.json and /docs.

It is told what to do by flags, by the environment (ABIDE_STORE, ABIDE_ADDR, …) and by a
file, in this order: 'abide config example' shows all keys, 'abide config check' finds
mistakes, and 'abide config print' shows what holds, and why.

On loopback, users of this machine need no authentication. To listen on any other address
takes an admin token, a login or certificates, or --insecure.

On SIGTERM or SIGINT /readyz fails, nothing new begins, and what is under way has --drain
to end. A second signal ends the server at once. Unfinished work resumes when the
store is served again. On SIGHUP certificates are read again.

systemd is told when the server is ready, with Type=notify, and can hand over the port.`,
		Example: `  abide serve --demo
  abide serve --store /var/lib/abide --config /etc/abide/abide.yaml
  ABIDE_AUTH_ADMIN_TOKEN_FILE=/run/secrets/token abide serve --addr :7171`,
		Args: console.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error { return runServe(cmd, c) },
	}
	c.AddTo(cmd)
	return cmd
}

func runServe(cmd *cobra.Command, c *configured) (err error) {
	loaded, err := c.load()
	if err != nil {
		return err
	}
	log, err := (&console.Logs{Format: loaded.Log.Format, Level: loaded.Log.Level}).Open(cmd.ErrOrStderr())
	if err != nil {
		return err
	}
	slog.SetDefault(log) // what the store has to say
	p, err := connect.FindStore(loaded.Store.Reveal())
	if err != nil {
		return err
	}
	ctx := cmd.Context()
	st, err := p.Open(ctx, func() bool { return p.SocketAnswers(ctx) })
	if errors.Is(err, store.ErrInUse) {
		return fmt.Errorf("another process has the store in %s open: stop it, or serve another store: %w", p.Shown, err)
	}
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, st.Close()) }()
	reload, stop := hangups()
	defer stop()
	options := daemon.Options{
		Config: &loaded.Config, Store: st, Version: console.ReadVersion().Version, Logger: log, Notify: notify, Reload: reload,
		Ready: func(s daemon.Serving) { announce(cmd.OutOrStdout(), log, loaded, p, &s) },
	}
	if p.Dir != "" && loaded.Socket {
		sock, err := socket.Listen(ctx, p.Dir)
		if err != nil {
			return err
		}
		defer func() {
			if closing := sock.Close(); closing != nil {
				log.Warn("socket not removed", "error", closing)
			}
		}()
		options.Socket = sock
	}
	return daemon.Run(ctx, options)
}

// hangups returns a channel on which something comes with each SIGHUP.
func hangups() (<-chan struct{}, func()) {
	signals, reload, done := make(chan os.Signal, 1), make(chan struct{}), make(chan struct{})
	signal.Notify(signals, syscall.SIGHUP)
	go func() {
		for {
			select {
			case <-signals:
			case <-done:
				return
			}
			select {
			case reload <- struct{}{}:
			case <-done:
				return
			}
		}
	}()
	return reload, func() {
		signal.Stop(signals)
		close(done)
	}
}

// announce says where everything is.
func announce(w io.Writer, log *slog.Logger, loaded *config.Loaded, p connect.Place, s *daemon.Serving) {
	attrs := []any{"page", s.URL, "store", p.Shown}
	if loaded.File != "" {
		attrs = append(attrs, "config", loaded.File)
	}
	if s.Workers != "" {
		attrs = append(attrs, "workers", s.Workers)
	}
	if s.TaskHubs != "" {
		attrs = append(attrs, "durabletask", s.TaskHubs)
	}
	if s.Admin != "" {
		attrs = append(attrs, "admin", s.Admin)
	}
	log.Info("server started", attrs...)
	warn(log, loaded, s)
	if console.IsTerminal(w) {
		greet(w, loaded, p, s)
	}
}

// warn says loudly what may be a mistake.
func warn(log *slog.Logger, loaded *config.Loaded, s *daemon.Serving) {
	switch {
	case s.Exposed && !s.Guarded:
		log.Warn("INSECURE: authentication is off, every client has full access; set auth.admin_token, auth.oidc or auth.certificates, or listen on loopback")
	case s.Exposed && !s.TLS && loaded.URL == "":
		log.Warn("TLS is off, tokens and data are sent in plain text; set tls.cert and tls.key, or set url to that of a proxy with TLS")
	}
	if loaded.Unnamed {
		file, err := filepath.Abs(loaded.File)
		if err != nil {
			file = loaded.File
		}
		log.Warn("configuration read from the working directory; name it with --config or ABIDE_CONFIG", "file", file)
	}
	if strings.HasPrefix(loaded.Store.Reveal(), "memory:") {
		log.Warn("store is in memory, everything is lost when the server stops")
	}
}

// greet tells a person what to do next.
func greet(w io.Writer, loaded *config.Loaded, p connect.Place, s *daemon.Serving) {
	bold, plain := "", ""
	if console.Colours(w) {
		bold, plain = "\x1b[1m", "\x1b[0m"
	}
	line := func(name, text string) { fmt.Fprintf(w, "  %s%-8s%s %s\n", bold, name, plain, text) }
	fmt.Fprintln(w)
	line("page", s.URL)
	line("API", s.URL+"docs")
	line("store", p.Shown)
	if s.Workers != "" {
		line("workers", s.Workers)
	}
	if s.TaskHubs != "" {
		line("task hubs", s.TaskHubs)
	}
	if s.Admin != "" {
		line("admin", s.Admin+"/debug/pprof/ and /metrics")
	}
	if s.Exposed && !s.Guarded {
		line("WARNING", "authentication is off: every client of this server is an administrator")
	}
	fmt.Fprintln(w)
	if loaded.Demo {
		line("try", "curl -d '{\"item\":\"a kettle\"}' "+s.URL+"hooks/demo")
		line("", "abide instances list --server "+strings.TrimSuffix(s.URL, "/"))
	} else {
		line("try", "abide serve --demo, in another folder, to see some life")
		line("", "abide instances list --server "+strings.TrimSuffix(s.URL, "/"))
	}
	line("stop", "Ctrl-C; running work resumes when it is started again")
	fmt.Fprintln(w)
}
