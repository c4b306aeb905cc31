package cli

import (
	"encoding/json"
	"fmt"
	"io"
	"os"

	"github.com/charmbracelet/x/term"
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
	if !o.isJSON() {
		return table(w)
	}
	if err := json.NewEncoder(w).Encode(v); err != nil {
		return fmt.Errorf("print the result: %w", err)
	}
	return nil
}

// isJSON reports whether programs read the result.
func (o *output) isJSON() bool { return o.json || o.format == "json" }

// isTerminal reports whether a person is probably at the other end of a stream.
func isTerminal(stream any) bool {
	f, ok := stream.(*os.File)
	if !ok {
		return false
	}
	info, err := f.Stat()
	if err != nil || info.Mode()&os.ModeCharDevice == 0 {
		return false
	}
	null, err := os.Stat(os.DevNull)
	return err != nil || !os.SameFile(info, null)
}

// terminalWidth returns how many characters a line of the terminal has, and 0 if w is none.
func terminalWidth(w io.Writer) int {
	f, ok := w.(*os.File)
	if !ok || !isTerminal(f) {
		return 0
	}
	width, _, err := term.GetSize(f.Fd())
	if err != nil {
		return 0
	}
	return max(width, 40)
}
