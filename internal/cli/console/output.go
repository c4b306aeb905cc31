package console

import (
	"encoding/json"
	"fmt"
	"io"
	"os"

	"github.com/charmbracelet/x/term"
	"github.com/spf13/cobra"
)

// Output is how a command prints what it found.
type Output struct {
	Format string
	json   bool
}

// AddTo gives a command the flags of its output.
func (o *Output) AddTo(cmd *cobra.Command) {
	cmd.Flags().StringVarP(&o.Format, "output", "o", "table", "how to print the result: table or json")
	cmd.Flags().BoolVar(&o.json, "json", false, "short for -o json")
}

// Check reports whether the flags make sense.
func (o *Output) Check(cmd *cobra.Command) error {
	if o.Format != "table" && o.Format != "json" {
		return Usage("unknown output %q; known are: table, json", o.Format)
	}
	if o.json && o.Format == "table" && cmd.Flags().Changed("output") {
		return Usage("--json and -o table contradict each other")
	}
	return nil
}

// Print writes v as one JSON object in a line, or lets table write it for people.
func (o *Output) Print(w io.Writer, v any, table func(io.Writer) error) error {
	if !o.IsJSON() {
		return table(w)
	}
	if err := json.NewEncoder(w).Encode(v); err != nil {
		return fmt.Errorf("print the result: %w", err)
	}
	return nil
}

// IsJSON reports whether programs read the result.
func (o *Output) IsJSON() bool { return o.json || o.Format == "json" }

// IsTerminal reports whether a person is probably at the other end of a stream.
func IsTerminal(stream any) bool {
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

// TerminalWidth returns how many characters a line of the terminal has, and 0 if w is none.
func TerminalWidth(w io.Writer) int {
	f, ok := w.(*os.File)
	if !ok || !IsTerminal(f) {
		return 0
	}
	width, _, err := term.GetSize(f.Fd())
	if err != nil {
		return 0
	}
	return max(width, 40)
}
