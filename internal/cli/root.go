package cli

import (
	"context"
	"fmt"
	"io"
	"os"
	"os/signal"
	"strings"
	"syscall"
	_ "time/tzdata" // schedules have zones, on a bare machine too

	"github.com/spf13/cobra"

	// Each backend makes its URL scheme known.
	_ "github.com/abidehq/abide/store/memstore"
	_ "github.com/abidehq/abide/store/pebblestore"
	_ "github.com/abidehq/abide/store/pgstore"
	_ "github.com/abidehq/abide/store/redisstore"
	_ "github.com/abidehq/abide/store/sqlitestore"
)

// Main runs the program with the arguments that follow its name, and returns its exit
// code. The first interrupt ends a command in good order, the second at once.
func Main(args []string, stdin io.Reader, stdout, stderr io.Writer) int {
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	defer stop()
	context.AfterFunc(ctx, stop)
	return run(ctx, args, stdin, stdout, stderr)
}

func run(ctx context.Context, args []string, stdin io.Reader, stdout, stderr io.Writer) int {
	root := newRoot()
	root.SetArgs(args)
	root.SetIn(stdin)
	root.SetOut(stdout)
	root.SetErr(stderr)
	cmd, err := root.ExecuteContextC(ctx)
	code := exitCode(err)
	if err != nil {
		fmt.Fprintf(stderr, "abide: %s\n", explain(err))
	}
	if code == ExitUsage {
		fmt.Fprintf(stderr, "See '%s --help'.\n", cmd.CommandPath())
	}
	return code
}

func newRoot() *cobra.Command {
	root := group(&cobra.Command{
		Use:   "abide",
		Short: "Durable execution for Go",
		Long: `Abide makes ordinary Go functions wait for days, survive crashes and deploys,
and keep every appointment.

Exit codes: 0 ok, 1 failure, 2 usage, 3 not found, 4 conflict, 5 unreachable.`,
		SilenceUsage:  true, // a wrong flag is one line, not a page
		SilenceErrors: true, // run prints them, once
	},
		newActions(), newAudit(), newBench(), newConfig(), newDeliveries(), newHealth(), newInstances(), newMan(), newMigrate(), newOperations(), newOrchestrate(), newOrchestrations(),
		newQuarantine(), newSchedules(), newServe(), newSessions(), newSinks(), newStats(), newStore(), newTimers(), newTokens(), newTop(), newVersion(), newVet(), newWorkers(),
	)
	addCompletions(root)
	root.SetFlagErrorFunc(func(_ *cobra.Command, err error) error { return &usageError{err} })
	return root
}

// group makes cmd a command that only holds others: alone it shows its help.
func group(cmd *cobra.Command, verbs ...*cobra.Command) *cobra.Command {
	cmd.AddCommand(verbs...)
	cmd.Args = cobra.ArbitraryArgs
	cmd.RunE = func(cmd *cobra.Command, args []string) error {
		if len(args) == 0 {
			return cmd.Help()
		}
		var names []string
		for _, verb := range cmd.Commands() {
			if verb.IsAvailableCommand() {
				names = append(names, verb.Name())
			}
		}
		return usage("unknown command %q for %q; known are: %s", args[0], cmd.CommandPath(), strings.Join(names, ", "))
	}
	return cmd
}

// noArgs is for commands that take flags alone.
func noArgs(cmd *cobra.Command, args []string) error {
	if len(args) > 0 {
		return usage("%q takes no arguments, only flags; got %q", cmd.CommandPath(), args[0])
	}
	return nil
}
