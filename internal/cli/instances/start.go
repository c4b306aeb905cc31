package instances

import (
	"context"
	"encoding/json"
	"time"

	"github.com/abidehq/abide/internal/cli/connect"
	"github.com/abidehq/abide/internal/cli/console"

	"github.com/spf13/cobra"

	"github.com/abidehq/abide"
	"github.com/abidehq/abide/internal/base"
)

// instancesStart is the verb: abide instances start.
type instancesStart struct {
	connect.Home
	id, version, input, at, onExists string
	in, timeout                      time.Duration
	tags                             []string
	wait, unchecked                  bool
}

func newInstancesStart() *cobra.Command {
	s := &instancesStart{}
	cmd := &cobra.Command{
		Use:   "start ORCHESTRATION",
		Short: "Start an instance of an orchestration",
		Long: `Start an instance of an orchestration. It begins as soon as a process serves the
orchestration, or later with --at or --in. With --id a start can be repeated: if there is such
an instance already, it is the one, unless --on-exists says otherwise.

An orchestration that no worker has ever registered is refused, and so is an input that does not
fit its type; 'abide workers signatures' lists both.

With --wait it waits until the instance has ended, and prints its result, as 'abide instances
result' does.

` + console.TimeHelp,
		Example: `  abide instances start order --id order-1 --input '{"item":"book","amount":2}'
  abide instances start order --input @order.json --tag customer=7 --wait
  abide instances start report --in 12h --tenant acme
  abide instances start order --id order-1 --on-exists reject`,
		Args: console.OneArg("the name of an orchestration"),
		RunE: s.run,
	}
	f := cmd.Flags()
	f.SortFlags = false
	f.StringVar(&s.id, "id", "", "a name of your own: starting the same one twice starts one instance; without it there is a random one")
	f.StringVar(&s.version, "version", "", "version of the orchestration")
	f.StringVar(&s.input, "input", "", "JSON for the orchestration; @FILE for that of a file, @- for standard input")
	f.StringArrayVar(&s.tags, "tag", nil, "a tag by which it can be found, as NAME=VALUE; can be given more than once")
	f.StringVar(&s.at, "at", "", "when it begins")
	console.DurationVar(f, &s.in, "in", 0, "how long from now it begins: 90s, 10m, 2h30m, or a number of seconds")
	f.StringVar(&s.onExists, "on-exists", "existing", "if there is an instance with that ID: existing (it is the one), reject, or replace (if it has ended)")
	f.BoolVar(&s.unchecked, "unchecked", false, "start it although no worker has ever registered the orchestration, and with any input")
	f.BoolVar(&s.wait, "wait", false, "wait until it has ended, and print its result")
	console.DurationVar(f, &s.timeout, "timeout", 0, "how long to wait at most")
	s.Home.AddTo(cmd)
	return cmd
}

func (s *instancesStart) run(cmd *cobra.Command, args []string) error {
	input, err := console.ReadJSON(cmd, "input", s.input)
	if err != nil {
		return err
	}
	opts, err := s.options()
	if err != nil {
		return err
	}
	return s.UseEngine(cmd, true, func(ctx context.Context, engine *abide.Client) error {
		started, err := StartInstance(ctx, engine, args[0], s.version, input, opts)
		if err != nil {
			return err
		}
		ref := started.Ref
		if started.Existed {
			cmd.PrintErrf("instance %s is there already, and stays as it is\n", ref.ID)
		}
		if started.Unserved {
			cmd.PrintErrf("no live worker serves %s: the instance waits for one\n", args[0])
		}
		if s.wait {
			return printResult(ctx, &s.Home, cmd, engine, ref, true, s.timeout)
		}
		return printCurrent(ctx, &s.Home, cmd, engine, ref)
	})
}

// options returns what the flags say.
func (s *instancesStart) options() ([]abide.StartOption, error) {
	opts := []abide.StartOption{abide.Tenant(s.Tenant)}
	if s.id != "" {
		opts = append(opts, abide.ID(s.id))
	}
	tags, err := parseTags(s.tags)
	if err != nil {
		return nil, err
	}
	for name, value := range tags {
		opts = append(opts, abide.Tag(name, value))
	}
	at, err := console.ParseTime("at", s.at, base.System{}.Now(), time.Local)
	switch {
	case err != nil:
		return nil, err
	case s.in < 0:
		return nil, console.Usage("--in is %v, which is negative", s.in)
	case s.in > 0 && s.at != "":
		return nil, console.Usage("--at and --in exclude each other")
	case s.in > 0:
		opts = append(opts, abide.StartAfter(s.in))
	case s.at != "":
		opts = append(opts, abide.StartAt(at))
	}
	if s.unchecked {
		opts = append(opts, abide.Unchecked())
	}
	switch s.onExists {
	case "existing":
	case "reject":
		opts = append(opts, abide.RejectExisting())
	case "replace":
		opts = append(opts, abide.ReplaceEnded())
	default:
		return nil, console.Usage("--on-exists is %q; allowed are: existing, reject, replace", s.onExists)
	}
	return opts, nil
}

// StartInstance starts an instance of an orchestration that is known by its name alone.
func StartInstance(
	ctx context.Context, engine *abide.Client, name, version string, input json.RawMessage, opts []abide.StartOption,
) (abide.Started, error) {
	if len(input) == 0 {
		return startWith(ctx, engine, name, version, abide.None{}, opts)
	}
	return startWith(ctx, engine, name, version, input, opts)
}

func startWith[In any](
	ctx context.Context, engine *abide.Client, name, version string, in In, opts []abide.StartOption,
) (abide.Started, error) {
	var register []abide.RegisterOption
	if version != "" {
		register = append(register, abide.Version(version))
	}
	req, err := abide.OrchestrationNamed[In, json.RawMessage](name, register...).Prepare(engine, in, opts...)
	if err != nil {
		return abide.Started{}, err
	}
	started, err := engine.Start(ctx, req)
	if err != nil {
		return abide.Started{}, err
	}
	return started[0], nil
}
