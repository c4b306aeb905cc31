package workers

import (
	"bytes"
	"context"
	"encoding/json"
	"maps"
	"slices"
	"strings"

	"github.com/abidehq/abide/internal/cli/connect"
	"github.com/abidehq/abide/internal/cli/console"

	"github.com/spf13/cobra"

	"github.com/abidehq/abide"
	"github.com/abidehq/abide/server/api"
)

func newWorkersSignatures() *cobra.Command {
	var h connect.Home
	cmd := &cobra.Command{
		Use:   "signatures",
		Short: "List what workers have registered, with the types of inputs, results and events",
		Long: `List the orchestrations and activities that workers have registered on this store, with an
example of the JSON of their inputs and results, and of the events that orchestrations have
waited for. Starts and events are checked against these types. With -o json the types are JSON
Schemas.

A name stays in the list when no worker serves it any more; 'abide workers list' has those that do.`,
		Example: `  abide workers signatures
  abide workers signatures -o json`,
		Args: console.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			return h.UseEngine(cmd, false, func(ctx context.Context, engine *abide.Client) error {
				all, err := engine.Signatures(ctx)
				if err != nil {
					return err
				}
				if !h.Out.IsJSON() { // one line for each name, of its latest build
					all = slices.CompactFunc(all, func(a, b abide.Signature) bool {
						return a.Name == b.Name && a.Version == b.Version && a.Activity == b.Activity
					})
				}
				return signatureRows.PrintAll(cmd, &h.Out, all)
			})
		},
	}
	h.AddPlaceTo(cmd)
	return cmd
}

// signatureRows prints signatures.
var signatureRows = console.Rows[abide.Signature, api.Signature]{
	Noun:   "signatures",
	Titles: []string{"KIND", "NAME", "VERSION", "INPUT", "RESULT", "EVENTS"},
	Row: func(s *abide.Signature) []console.Cell {
		kind := "orchestration"
		if s.Activity {
			kind = "activity"
		}
		var events []string
		for _, name := range slices.Sorted(maps.Keys(s.Events)) {
			events = append(events, strings.TrimSpace(name+" "+example(s.Events[name])))
		}
		return console.Row(kind, s.Name, s.Version, example(s.Input), example(s.Result), strings.Join(events, ", "))
	},
	Wire: func(s *abide.Signature) api.Signature { return api.Signature(*s) },
	Key:  func(s *abide.Signature) [2]string { return [2]string{s.Name, s.Version} },
	Page: func(all []api.Signature, _ string) any { return api.SignatureList{Signatures: all} },
}

// example returns an example of a type on one line.
func example(schema json.RawMessage) string {
	if len(schema) == 0 {
		return ""
	}
	var b bytes.Buffer
	if json.Compact(&b, abide.ExampleOf(schema)) != nil {
		return ""
	}
	return b.String()
}
