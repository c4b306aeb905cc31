package store

import (
	"fmt"
	"io"
	"maps"
	"slices"
	"strconv"
	"strings"

	"github.com/abidehq/abide/internal/cli/console"

	"github.com/spf13/cobra"

	"github.com/abidehq/abide/internal/sqlitetools"
	"github.com/abidehq/abide/store/sqlitestore"
)

func newStoreConvert() *cobra.Command {
	var out console.Output
	var dryRun bool
	cmd := &cobra.Command{
		Use:   "convert sqlite://FILE",
		Short: "Convert an SQLite database of an older schema to a store",
		Long: `Convert an SQLite database of an older design, with timers in timer_queue, orchestrator_queue or
execution_log, to a store. Pending timers become events for the instances that waited for them;
docs/sqlite.md says what becomes of what. The older tables are kept, with the prefix legacy_.

Stop the program that wrote the database first. It is converted in one transaction: as a whole, or
not at all. With --dry-run nothing is changed.`,
		Example: `  abide store convert sqlite://orders.db --dry-run
  abide store convert sqlite:///var/lib/orders.db`,
		Args: console.OneArg("a database"),
		RunE: func(cmd *cobra.Command, args []string) error {
			if err := out.Check(cmd); err != nil {
				return err
			}
			path, ok := strings.CutPrefix(args[0], "sqlite://")
			if !ok || path == "" || strings.Contains(path, "?") {
				return console.Usage("name the file as sqlite:///absolute/file.db or sqlite://relative/file.db; only SQLite databases are converted")
			}
			c, err := sqlitetools.Convert(cmd.Context(), path, sqlitestore.Options{}, dryRun)
			if err != nil {
				return err
			}
			view := conversionView{DryRun: dryRun, Converted: c.Converted, Left: c.Left, Tables: c.Tables}
			return out.Print(cmd.OutOrStdout(), view, view.Write)
		},
	}
	cmd.Flags().BoolVar(&dryRun, "dry-run", false, "say what would be converted, and change nothing")
	out.AddTo(cmd)
	return cmd
}

// conversionView is what programs read of a conversion.
type conversionView struct {
	DryRun    bool           `json:"dry_run"`
	Converted int            `json:"converted"`
	Left      map[string]int `json:"not_converted"`
	Tables    []string       `json:"tables"`
}

func (v conversionView) Write(w io.Writer) error {
	fields := [][2]string{{"converted", strconv.Itoa(v.Converted)}}
	if v.DryRun {
		fields[0][0] = "would be converted"
	}
	for _, table := range slices.Sorted(maps.Keys(v.Left)) {
		fields = append(fields, [2]string{fmt.Sprintf("not converted, in %s", table), strconv.Itoa(v.Left[table])})
	}
	return console.WriteFields(w, append(fields, [2]string{"tables kept as legacy_*", strings.Join(v.Tables, ", ")}))
}
