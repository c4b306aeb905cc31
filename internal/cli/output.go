package cli

import (
	"encoding/json"
	"fmt"
	"io"
	"os"

	"github.com/spf13/cobra"
)

// output is how a command prints what it found.
type output struct {
	format string
	json   bool
}

// addTo gives a command the flags of its output.
func (o *output) addTo(cmd *cobra.Command) {
	cmd.Flags().StringVarP(&o.format, "output", "o", "table", "how to print the result: table or json")
	cmd.Flags().BoolVar(&o.json, "json", false, "short for -o json")
}

// check reports whether the flags make sense.
func (o *output) check(cmd *cobra.Command) error {
	if o.format != "table" && o.format != "json" {
		return usage("unknown output %q; known are: table, json", o.format)
	}
	if o.json && o.format == "table" && cmd.Flags().Changed("output") {
		return usage("--json and -o table contradict each other")
	}
	return nil
}

// print writes v as one JSON object in a line, or lets table write it for people.
func (o *output) print(w io.Writer, v any, table func(io.Writer) error) error {
	if !o.json && o.format == "table" {
		return table(w)
	}
	if err := json.NewEncoder(w).Encode(v); err != nil {
		return fmt.Errorf("print the result: %w", err)
	}
	return nil
}

// isTerminal reports whether a person probably watches w.
func isTerminal(w io.Writer) bool {
	f, ok := w.(*os.File)
	if !ok {
		return false
	}
	info, err := f.Stat()
	return err == nil && info.Mode()&os.ModeCharDevice != 0
}
