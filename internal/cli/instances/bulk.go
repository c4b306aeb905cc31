package instances

import (
	"context"
	"errors"
	"fmt"

	"github.com/abidehq/abide/internal/cli/connect"
	"github.com/abidehq/abide/internal/cli/console"

	"github.com/spf13/cobra"

	"github.com/abidehq/abide/server/api"
	"github.com/abidehq/abide/server/operation"
)

// runAll does it to all instances that match, as an operation.
func (v *instanceVerb) runAll(cmd *cobra.Command) error {
	filter, err := v.flags.filter(cmd, v.Tenant)
	if err != nil {
		return err
	}
	whose := "tenant " + v.Tenant
	if v.flags.tenants {
		whose = "all tenants"
	}
	if err := v.sure.Ask(cmd, fmt.Sprintf("%s all instances of %s that match?", console.Title(v.kind), whose)); err != nil {
		return err
	}
	request := api.NewOperation{Kind: v.kind, Filter: api.FromFilter(&filter), All: v.flags.tenants, Reason: v.reason}
	return v.Use(cmd, false, func(ctx context.Context, b connect.Backend) error {
		operations, err := b.Operations()
		if err != nil {
			return err
		}
		o, err := operations.Start(ctx, request)
		if err != nil {
			return err
		}
		if v.noWait {
			return operationRows.PrintOne(cmd, &v.Out, o)
		}
		return follow(ctx, &v.Home, cmd, b, operations, o)
	})
}

// follow shows how an operation gets on, until it has ended, and prints it.
func follow(ctx context.Context, h *connect.Home, cmd *cobra.Command, b connect.Backend, operations connect.OperationsAPI, o api.Operation) (err error) {
	stop, err := b.Work(ctx)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, stop()) }()
	if o, err = waitForOperation(ctx, cmd, operations, o); err != nil {
		if ctx.Err() != nil {
			scope := "--all-tenants"
			if !o.All {
				scope = "--tenant " + o.Filter.Tenant
			}
			cmd.PrintErrf("operation %s goes on where it is done: 'abide operations watch %s %s' shows how far it is\n", o.ID, o.ID, scope)
		}
		return err
	}
	return errors.Join(operationRows.PrintOne(cmd, &h.Out, o), operationOutcome(&o))
}

// operationOutcome returns what is wrong with an operation that has ended.
func operationOutcome(o *api.Operation) error {
	switch {
	case o.Status == string(operation.Failed):
		return fmt.Errorf("operation %s has failed: %s", o.ID, o.Error)
	case o.Failed > 0:
		return fmt.Errorf("operation %s did not work with %d instances", o.ID, o.Failed)
	case o.Status == string(operation.Cancelled):
		return fmt.Errorf("operation %s was cancelled", o.ID)
	default:
		return nil
	}
}
