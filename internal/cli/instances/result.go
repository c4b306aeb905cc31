package instances

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"time"

	"github.com/abidehq/abide/internal/cli/connect"
	"github.com/abidehq/abide/internal/cli/console"

	"github.com/spf13/cobra"

	"github.com/abidehq/abide"
	"github.com/abidehq/abide/internal/base"
	"github.com/abidehq/abide/server/api"
)

func newInstancesResult() *cobra.Command {
	var h connect.Home
	var wait bool
	var timeout time.Duration
	cmd := &cobra.Command{
		Use:   "result ID",
		Short: "Print the result of an instance",
		Long: `Print what an instance has returned. If it ended otherwise, the exit code is 1, and the error
says how; if it has not ended, the exit code is 4; --wait waits for the end.`,
		Example: `  abide instances result order-1
  abide instances result order-1 --wait --timeout 5m`,
		Args: console.OneArg(instanceID),
		RunE: func(cmd *cobra.Command, args []string) error {
			return h.UseEngine(cmd, false, func(ctx context.Context, engine *abide.Client) error {
				return printResult(ctx, &h, cmd, engine, refOf(&h, args[0]), wait, timeout)
			})
		},
	}
	cmd.Flags().BoolVar(&wait, "wait", false, "wait until it has ended")
	console.DurationVar(cmd.Flags(), &timeout, "timeout", 0, "how long to wait at most")
	h.AddTo(cmd)
	return cmd
}

func newInstancesWait() *cobra.Command {
	var h connect.Home
	var timeout time.Duration
	cmd := &cobra.Command{
		Use:   "wait ID...",
		Short: "Wait until instances have ended",
		Long: `Wait until instances have ended, and print how. The exit code is 0 if all of them completed,
and 1 if one ended otherwise, has stalled, or has not ended after --timeout.`,
		Example: `  abide instances wait order-1 order-2 --timeout 10m`,
		Args:    console.SomeArgs("the IDs of instances"),
		RunE: func(cmd *cobra.Command, args []string) error {
			return h.UseEngine(cmd, false, func(ctx context.Context, engine *abide.Client) error {
				ctx, stop := withTimeout(ctx, timeout)
				defer stop()
				var found []abide.Info
				var errs []error
				for _, id := range args {
					info, err := waitFor(ctx, engine, refOf(&h, id))
					if err != nil {
						errs = append(errs, err)
						continue
					}
					found = append(found, info)
					errs = append(errs, outcome(info))
				}
				return errors.Join(Rows.PrintEach(cmd, &h.Out, found), errors.Join(errs...))
			})
		},
	}
	console.DurationVar(cmd.Flags(), &timeout, "timeout", 0, "how long to wait at most, for all of them")
	h.AddTo(cmd)
	return cmd
}

// errTimeout means that something has not happened in the time that --timeout gives.
var errTimeout = errors.New("it has not ended within --timeout")

// withTimeout returns a context that ends after a while, unless that is zero.
func withTimeout(ctx context.Context, d time.Duration) (context.Context, func()) {
	if d <= 0 {
		return ctx, func() {}
	}
	ctx, cancel := context.WithCancelCause(ctx)
	stop := base.System{}.AfterFunc(d, func() { cancel(errTimeout) })
	return ctx, func() { stop(); cancel(nil) }
}

// waitFor returns an instance when it has ended or stalled: a person has to look at that one.
func waitFor(ctx context.Context, engine *abide.Client, ref abide.Ref) (abide.Info, error) {
	info, err := engine.Get(ctx, ref) // one that is not there is not waited for
	for ; ; info, err = engine.WaitChange(ctx, ref, info.Revision) {
		switch {
		case err != nil && errors.Is(context.Cause(ctx), errTimeout):
			return info, fmt.Errorf("instance %v: %w", ref, errTimeout)
		case err != nil:
			return info, err
		case info.Status.Ended(), info.Status == abide.Stalled:
			return info, nil
		}
	}
}

// outcome returns how an instance ended, or why not: nothing if it completed, whatever its
// result is.
func outcome(info abide.Info) error {
	if info.Status == abide.Completed {
		return nil
	}
	_, err := abide.ResultOf[abide.None](info)
	return err
}

// printResult prints the result of an instance.
func printResult(ctx context.Context, h *connect.Home, cmd *cobra.Command, engine *abide.Client, ref abide.Ref, wait bool, timeout time.Duration) error {
	read := engine.Get
	if wait {
		var stop func()
		ctx, stop = withTimeout(ctx, timeout)
		defer stop()
		read = func(ctx context.Context, ref abide.Ref) (abide.Info, error) { return waitFor(ctx, engine, ref) }
	}
	info, err := read(ctx, ref)
	if err != nil {
		return err
	}
	if info.Status == abide.Completed {
		return h.Out.Print(cmd.OutOrStdout(), api.FromInfo(&info), func(w io.Writer) error { return writeJSON(w, info.Result) })
	}
	err = outcome(info)
	if h.Out.IsJSON() && info.Status.Ended() {
		err = errors.Join(h.Out.Print(cmd.OutOrStdout(), api.FromInfo(&info), nil), err)
	}
	return err
}

// writeJSON prints a payload for people: in lines, if it is JSON that is worth it.
func writeJSON(w io.Writer, data []byte) error {
	if len(data) == 0 {
		return nil
	}
	var lines bytes.Buffer
	if json.Indent(&lines, data, "", "  ") != nil {
		_, err := fmt.Fprintln(w, console.Printable(string(data)))
		return err
	}
	_, err := fmt.Fprintln(w, console.Printable(lines.String()))
	return err
}
