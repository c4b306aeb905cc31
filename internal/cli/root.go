package cli

import (
	"context"
	"fmt"
	"io"
	"os"
	"os/signal"
	"syscall"
	_ "time/tzdata" // schedules have zones, on a bare machine too

	"github.com/abidehq/abide/internal/cli/actions"
	"github.com/abidehq/abide/internal/cli/bench"
	"github.com/abidehq/abide/internal/cli/builds"
	"github.com/abidehq/abide/internal/cli/console"
	"github.com/abidehq/abide/internal/cli/entities"
	"github.com/abidehq/abide/internal/cli/instances"
	"github.com/abidehq/abide/internal/cli/limits"
	"github.com/abidehq/abide/internal/cli/quarantine"
	"github.com/abidehq/abide/internal/cli/serve"
	"github.com/abidehq/abide/internal/cli/shards"
	"github.com/abidehq/abide/internal/cli/sinks"
	"github.com/abidehq/abide/internal/cli/stats"
	"github.com/abidehq/abide/internal/cli/store"
	"github.com/abidehq/abide/internal/cli/timers"
	"github.com/abidehq/abide/internal/cli/tokens"
	"github.com/abidehq/abide/internal/cli/top"
	"github.com/abidehq/abide/internal/cli/workers"

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
	root := console.Group(&cobra.Command{
		Use:   "abide",
		Short: "Durable execution for Go",
		Long: `Abide makes ordinary Go functions wait for days, survive crashes and deploys,
and keep every appointment.

Exit codes: 0 ok, 1 failure, 2 usage, 3 not found, 4 conflict, 5 unreachable.`,
		SilenceUsage:  true, // a wrong flag is one line, not a page
		SilenceErrors: true, // run prints them, once
	},
		actions.New(), tokens.NewAudit(), bench.New(), builds.New(), serve.NewConfig(), sinks.NewDeliveries(), entities.New(), serve.NewHealth(), instances.New(), limits.New(), newMan(), store.NewMigrate(), instances.NewOperations(), serve.NewOrchestrate(), workers.NewOrchestrations(),
		quarantine.New(), actions.NewSchedules(), serve.New(), tokens.NewSessions(), shards.New(), sinks.New(), stats.New(), store.New(), timers.New(), tokens.New(), top.New(), newVersion(), newVet(), workers.New(),
	)
	addCompletions(root)
	root.SetFlagErrorFunc(func(_ *cobra.Command, err error) error { return console.AsUsage(err) })
	return root
}
