package cli

import (
	"fmt"
	"os"
	"runtime/debug"
	"time"

	"github.com/abidehq/abide/internal/cli/console"

	"github.com/spf13/cobra"
	"github.com/spf13/cobra/doc"
)

func newMan() *cobra.Command {
	return &cobra.Command{
		Use:   "man DIR",
		Short: "Write the manual pages into a folder",
		Long: `Write a manual page for each command into a folder, which is made if it is not there. Their
date is that of the version, or of $SOURCE_DATE_EPOCH.`,
		Example: `  abide man /usr/local/share/man/man1
  abide man . && man ./abide-instances.1`,
		Args: console.OneArg("a folder"),
		RunE: func(cmd *cobra.Command, args []string) error {
			if err := os.MkdirAll(args[0], 0o755); err != nil {
				return fmt.Errorf("write manual pages: %w", err)
			}
			root := cmd.Root()
			root.DisableAutoGenTag = true // the same version writes the same pages
			header := &doc.GenManHeader{Section: "1", Source: "Abide " + console.ReadVersion().Version, Manual: "Abide", Date: versionDate()}
			if err := doc.GenManTree(root, header, args[0]); err != nil {
				return fmt.Errorf("write manual pages: %w", err)
			}
			return nil
		},
	}
}

// versionDate returns when the version was made that the binary was built from, or nil if it
// does not say.
func versionDate() *time.Time {
	info, ok := debug.ReadBuildInfo()
	if !ok || os.Getenv("SOURCE_DATE_EPOCH") != "" {
		return nil
	}
	for _, s := range info.Settings {
		if at, err := time.Parse(time.RFC3339, s.Value); s.Key == "vcs.time" && err == nil {
			return &at
		}
	}
	return nil
}
