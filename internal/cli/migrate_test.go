package cli

import (
	"bytes"
	"context"
	"strings"
	"testing"
	"time"

	"github.com/abidehq/abide/internal/cli/connect"
	"github.com/abidehq/abide/internal/cli/console"
	"github.com/abidehq/abide/internal/cli/store"

	"github.com/spf13/cobra"

	"github.com/abidehq/abide/store/pgstore"
)

// runMigrate runs abide migrate, and returns its exit code and what it prints.
func runMigrate(t *testing.T, args ...string) (code int, stdout string) {
	t.Helper()
	var out bytes.Buffer
	root := console.Group(&cobra.Command{Use: "abide", SilenceUsage: true, SilenceErrors: true}, store.NewMigrate())
	root.SetArgs(append([]string{"migrate"}, args...))
	root.SetOut(&out)
	root.SetErr(&out)
	root.SetFlagErrorFunc(func(_ *cobra.Command, err error) error { return console.AsUsage(err) })
	err := root.ExecuteContext(context.Background())
	if err != nil {
		t.Log(err)
	}
	return exitCode(err), out.String()
}

func TestMigratePrint(t *testing.T) {
	t.Parallel()
	code, out := runMigrate(t, "print", "--schema", `the "orders"`)
	if code != ExitOK || !strings.Contains(out, `CREATE TABLE "the ""orders""".keys (`) || strings.Contains(out, "{schema}") {
		t.Errorf("code %d\n%s", code, out)
	}
}

func TestMigrateStatusNamesWhatIsMissing(t *testing.T) {
	t.Parallel()
	all := []pgstore.Applied{
		{Migration: pgstore.Migration{Number: 1, Name: "tables"}, At: time.Date(2026, 3, 1, 12, 0, 0, 0, time.UTC)},
		{Migration: pgstore.Migration{Number: 2, Name: "views"}},
	}
	var out bytes.Buffer
	err := store.PrintStatus(&out, &console.Output{Format: "json"}, all)
	want := `{"migrations":[{"number":1,"name":"tables","applied":"2026-03-01T12:00:00Z"},{"number":2,"name":"views"}],"missing":1}` + "\n"
	if out.String() != want || exitCode(err) != ExitFailure {
		t.Errorf("printed %s, error %v; want %s, and a failure", out.String(), err, want)
	}
	out.Reset()
	if err := store.PrintStatus(&out, &console.Output{Format: "table"}, all[:1]); err != nil || !strings.Contains(out.String(), "1       tables") {
		t.Errorf("printed %s, error %v", out.String(), err)
	}
}

func TestMigrateMistakes(t *testing.T) {
	t.Setenv(connect.EnvStore, "")
	for _, c := range []struct {
		name string
		args []string
		code int
	}{
		{"no store", []string{"up"}, ExitUsage},
		{"another kind of store", []string{"up", "--store", "pebble:///tmp/x"}, ExitUsage},
		{"a bad option", []string{"status", "--store", "postgres://127.0.0.1/x?connections=many"}, ExitUsage},
		{"nobody listens", []string{"status", "--store", "postgres://127.0.0.1:1/x"}, ExitUnreachable},
	} {
		if code, out := runMigrate(t, c.args...); code != c.code {
			t.Errorf("%s: code %d, want %d\n%s", c.name, code, c.code, out)
		}
	}
}
