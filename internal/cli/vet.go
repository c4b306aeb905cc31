package cli

import (
	"fmt"
	"io"
	"os"
	"path/filepath"
	"strings"

	"github.com/abidehq/abide/internal/cli/console"

	"github.com/spf13/cobra"

	"github.com/abidehq/abide/vet"
)

// vetFinding is a finding as programs read it.
type vetFinding struct {
	File     string `json:"file"`
	Line     int    `json:"line"`
	Column   int    `json:"column"`
	Category string `json:"category"`
	Message  string `json:"message"`
}

func newVet() *cobra.Command {
	var out console.Output
	cmd := &cobra.Command{
		Use:   "vet [PACKAGES]",
		Short: "Report non-deterministic code in orchestrations",
		Long: `Vet follows the calls of every orchestration in the packages (./... if none are
named), and reports what would not be the same when it is replayed: the wall clock,
random numbers, the order of maps, goroutines, channels, locks, I/O, the environment,
variables that change.

A finding that is fine is allowed by a comment with a reason, on its line or the one
above:

    //abide:allow clock only for a log line

Exit code 1 means that something was found.`,
		Example: "  abide vet ./...",
		RunE: func(cmd *cobra.Command, args []string) error {
			if err := out.Check(cmd); err != nil {
				return err
			}
			if len(args) == 0 {
				args = []string{"./..."}
			}
			found, err := vet.Check(cmd.Context(), ".", args...)
			if err != nil {
				return err
			}
			findings := make([]vetFinding, len(found))
			for i, f := range found {
				findings[i] = vetFinding{
					File: relative(f.Position.Filename), Line: f.Position.Line, Column: f.Position.Column,
					Category: string(f.Category), Message: f.Message,
				}
			}
			if err := out.Print(cmd.OutOrStdout(), findings, func(w io.Writer) error { return writeFindings(w, findings) }); err != nil {
				return err
			}
			if len(findings) > 0 {
				return fmt.Errorf("orchestrations are not deterministic: %d found", len(findings))
			}
			return nil
		},
	}
	out.AddTo(cmd)
	return cmd
}

func writeFindings(w io.Writer, findings []vetFinding) error {
	for _, f := range findings {
		if _, err := fmt.Fprintf(w, "%s:%d:%d: %s [%s]\n", f.File, f.Line, f.Column, f.Message, f.Category); err != nil {
			return err
		}
	}
	return nil
}

// relative returns a path as seen from here, if it is below.
func relative(path string) string {
	wd, err := os.Getwd()
	if err != nil {
		return path
	}
	rel, err := filepath.Rel(wd, path)
	if err != nil || strings.HasPrefix(rel, "..") {
		return path
	}
	return rel
}
