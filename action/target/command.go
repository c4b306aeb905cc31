package target

import (
	"context"
	"errors"
	"fmt"
	"path/filepath"
	"runtime"
	"slices"
	"strings"
	"time"

	"github.com/abidehq/abide/action"
	"github.com/abidehq/abide/clock"
	"github.com/abidehq/abide/internal/base"
)

// DefaultInherit are the variables that a command gets from the environment of this
// process if its configuration does not say.
var DefaultInherit = []string{"HOME", "LANG", "PATH", "TMPDIR", "TZ", "USER"}

// Limits of a command.
const (
	DefaultGrace = 5 * time.Second
	MaxGrace     = 10 * time.Minute
)

// CommandConfig configures a [Command].
type CommandConfig struct {
	// Argv is the program and its arguments, such as "sdlc", "next", "--for", "{slug}". The
	// arguments are templates; the program is not. There is no shell: an argument arrives as
	// it is, whatever is in it.
	//
	// A program without a slash is looked for in the PATH of this process; one with a slash
	// that is not absolute is relative to Dir.
	Argv []string

	// Dir is the working directory. Empty means that of this process.
	Dir string

	// Inherit are the names of the variables that the command gets from the environment of
	// this process, if they are set there: [DefaultInherit], if it is nil. Env are others, as
	// NAME=VALUE, which come first. See [Command] for those that are always there.
	Inherit []string
	Env     []string

	// Grace is the time between SIGTERM and SIGKILL. Zero means [DefaultGrace].
	Grace time.Duration

	// Clock measures the grace. Nil means the system's.
	Clock clock.Clock
}

// Command runs a program. An exit code of 0 means that the action has completed.
//
// The input is on its standard input, and what it prints on its standard output and on its
// standard error, together, is the output. Its environment says what it runs for:
//
//	ABIDE_ACTION_ID, ABIDE_TENANT, ABIDE_SLUG, ABIDE_ATTEMPT   as in the action
//	ABIDE_TRIGGER    scheduled or webhook
//	ABIDE_SCHEDULE   the schedule that made the action, or empty
//	ABIDE_RUN_AT     the time of the schedule that it stands for, as RFC 3339, or empty
//	ABIDE_HEADERS    the headers of the webhook, as a JSON object
//
// When the action is cancelled or takes too long, or the service stops, the command and
// all that it has started get SIGTERM, and after the grace SIGKILL. What it leaves behind
// in its process group when it has ended is killed: at once if it does not hold the
// output open, and after the grace if it does. On Linux the command is killed as well when
// this process dies. Where there are no process groups, only the command itself is killed.
type Command struct {
	cfg  CommandConfig
	args []template // without the program
}

var _ action.Target = (*Command)(nil)

// NewCommand returns a command. Whether it can be run is not looked at: see
// [Command.Check]. An error matches [action.ErrInvalid].
func NewCommand(cfg CommandConfig) (*Command, error) {
	cfg.Argv, cfg.Env = slices.Clone(cfg.Argv), slices.Clone(cfg.Env)
	if cfg.Inherit == nil {
		cfg.Inherit = DefaultInherit
	}
	cfg.Inherit = slices.Clone(cfg.Inherit)
	if cfg.Grace == 0 {
		cfg.Grace = DefaultGrace
	}
	if cfg.Clock == nil {
		cfg.Clock = base.System{}
	}
	switch {
	case cfg.Grace < time.Millisecond || cfg.Grace > MaxGrace:
		return nil, invalid("CommandConfig.Grace", "is %v; 1ms to %v is allowed", cfg.Grace, MaxGrace)
	case strings.Contains(cfg.Dir, "\x00"):
		return nil, invalid("CommandConfig.Dir", "is %q, with a zero byte; a directory is allowed", cfg.Dir)
	}
	if err := cfg.checkEnvironment(); err != nil {
		return nil, err
	}
	c := &Command{cfg: cfg}
	if err := c.parse(); err != nil {
		return nil, err
	}
	return c, nil
}

// shells are programs that take a script as the argument after -c.
var shells = []string{"sh", "ash", "bash", "dash", "ksh", "zsh", "fish"}

// checkScript refuses placeholders in a script of a shell: IDs and tenants are chosen by
// callers, and the shell would run what is in them.
func checkScript(argv []string) error {
	if !slices.Contains(shells, filepath.Base(argv[0])) {
		return nil
	}
	for i := 1; i < len(argv); i++ {
		option := argv[i-1]
		if !strings.HasPrefix(option, "-") || strings.HasPrefix(option, "--") || !strings.HasSuffix(option, "c") {
			continue
		}
		for name, variable := range map[string]string{"{id}": "ABIDE_ACTION_ID", "{tenant}": "ABIDE_TENANT"} {
			if strings.Contains(argv[i], name) {
				return invalid("CommandConfig.Argv", "has %s in the script of a shell, which would run what a caller puts there; "+
					"write \"$%s\" instead, or give it as an argument after the script", name, variable)
			}
		}
	}
	return nil
}

// parse reads the templates of the arguments.
func (c *Command) parse() error {
	const field = "CommandConfig.Argv"
	if len(c.cfg.Argv) == 0 || c.cfg.Argv[0] == "" {
		return invalid(field, "has no program; it must be such as [sdlc next --for {slug}]")
	}
	if err := checkScript(c.cfg.Argv); err != nil {
		return err
	}
	for i, text := range c.cfg.Argv {
		t, err := parseTemplate(element(field, i), text)
		if err != nil {
			return err
		}
		if strings.Contains(text, "\x00") {
			return invalid(element(field, i), "is %q, with a zero byte; text is allowed", text)
		}
		if i > 0 {
			c.args = append(c.args, t)
			continue
		}
		program, ok := t.literal()
		if !ok {
			return invalid(element(field, i), "is %q; the program must not have placeholders", text)
		}
		c.cfg.Argv[0] = program
	}
	return nil
}

// Check returns an error if the command could not be run right now, because there is no
// such program or directory.
func (c *Command) Check() error {
	_, err := c.path()
	return c.failed(err)
}

// failed says of an error whose it is. It names the program alone: arguments may be secret.
func (c *Command) failed(err error) error {
	if err == nil {
		return nil
	}
	return fmt.Errorf("target: run %s: %w", c.cfg.Argv[0], err)
}

// Run runs the command.
func (c *Command) Run(ctx context.Context, r action.Run) (action.Outcome, error) {
	out, err := c.run(ctx, &r)
	return out, c.failed(err)
}

func (c *Command) run(ctx context.Context, r *action.Run) (out action.Outcome, err error) {
	if ctx.Err() != nil {
		return out, context.Cause(ctx)
	}
	path, err := c.path()
	if err != nil {
		return out, err
	}
	args, err := c.arguments(&r.Action)
	if err != nil {
		return out, err
	}
	env, err := c.environment(&r.Action)
	if err != nil {
		return out, err
	}
	// The death of the thread that starts a process can count as that of this process: see
	// newGroup.
	runtime.LockOSThread()
	defer runtime.UnlockOSThread()
	p, err := start(path, args, env, c.cfg.Dir, raw(r))
	if err != nil {
		return out, err
	}
	interrupted := p.wait(ctx, c.cfg.Clock, c.cfg.Grace)
	p.output.fill(&out)
	code, how := p.result()
	out.ExitCode = code
	switch {
	case interrupted:
		return out, fmt.Errorf("%w: %s", context.Cause(ctx), how)
	case code != 0:
		return out, errors.New(how)
	default:
		return out, nil
	}
}

// arguments returns the arguments for an action, with the program first. None of what
// comes with the action can be taken for an option.
func (c *Command) arguments(a *action.Action) ([]string, error) {
	if err := action.CheckSlug(a.Slug); err != nil {
		return nil, err
	}
	args := []string{c.cfg.Argv[0]}
	for i, t := range c.args {
		arg := t.expand(a, nil)
		if len(t) > 0 && t[0].value != nil && strings.HasPrefix(arg, "-") {
			return nil, fmt.Errorf("argument %d is %q, which looks like an option; what a placeholder at its beginning stands for must not begin with a dash: %w", i+1, arg, action.ErrInvalid)
		}
		args = append(args, arg)
	}
	return args, nil
}
