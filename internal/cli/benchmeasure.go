package cli

import (
	"fmt"
	"io"
	"log/slog"
	"net/url"
	"os"
	"path/filepath"

	"github.com/spf13/cobra"

	"github.com/abidehq/abide/internal/bench"
)

// measuring is what the verbs have in common that measure something on a store, which
// may be a temporary one.
type measuring struct {
	out      output
	reopen   string
	quiet    bool
	loadOnly bool
	profiles profiles
}

// addTo gives a command the flags that all of them have, which come last; what of the
// CPU's profile is left out is said in the help.
func (m *measuring) addTo(cmd *cobra.Command, except string) {
	m.profiles.addTo(cmd, except)
	cmd.Flags().BoolVar(&m.quiet, "quiet", false, "show no progress")
	m.out.addTo(cmd)
}

// addReopen gives a command the flags of a store that is opened again.
func (m *measuring) addReopen(cmd *cobra.Command, reopen, loadOnly string) {
	f := cmd.Flags()
	f.StringVar(&m.reopen, "reopen", "", reopen+": clean (closed before) or crash (its process killed)")
	f.Lookup("reopen").NoOptDefVal = string(bench.ReopenClean)
	f.BoolVar(&m.loadOnly, "load-only", false, loadOnly+", say so, and wait to be killed")
	if err := f.MarkHidden("load-only"); err != nil {
		panic(err) // only for a flag that does not exist
	}
}

// wayToReopen returns what the flag says.
func (m *measuring) wayToReopen(cmd *cobra.Command) (bench.Reopen, error) {
	if m.reopen == "" && cmd.Flags().Changed("reopen") {
		return bench.ReopenNever, usage("--reopen is empty; known are: clean, crash")
	}
	return bench.Reopen(m.reopen), nil
}

// tell returns how a person is told how it goes.
func (m *measuring) tell(cmd *cobra.Command) (*slog.Logger, *bench.Progress) {
	log := slog.New(slog.NewTextHandler(cmd.ErrOrStderr(), &slog.HandlerOptions{Level: slog.LevelError}))
	if m.quiet {
		return log, nil
	}
	return log, bench.NewProgress(cmd.ErrOrStderr(), isTerminal(cmd.ErrOrStderr()))
}

// measure validates the options, runs them on the store that they name, or on a temporary
// one if they name none, and prints the report.
func (m *measuring) measure(cmd *cobra.Command, store *string, validate func() error, run func(cpu, mem io.Writer) (*bench.Report, error)) (err error) {
	temporary := *store == ""
	if temporary {
		*store = "pebble://." // until nothing else can be wrong
	}
	if err := validate(); err != nil {
		return err
	}
	if temporary {
		var remove func() error
		if *store, remove, err = temporaryStore(); err != nil {
			return err
		}
		defer func() {
			if removeErr := remove(); err == nil {
				err = removeErr
			}
		}()
	}
	cpu, mem, done, err := m.profiles.create()
	if err != nil {
		return err
	}
	report, err := run(cpu, mem)
	if closeErr := done(); err == nil {
		err = closeErr
	}
	if err != nil {
		return err
	}
	return m.out.print(cmd.OutOrStdout(), report, report.WriteTable)
}

// temporaryStore returns the URL of an embedded store in a new folder of the working
// directory, and what removes it. It is not in the system's folder for such things, which
// is memory on some machines: a sync there costs nothing and says nothing.
func temporaryStore() (storeURL string, remove func() error, err error) {
	dir, err := os.MkdirTemp(".", ".bench.")
	if err == nil {
		dir, err = filepath.Abs(dir)
	}
	if err != nil {
		return "", nil, fmt.Errorf("make a folder for a temporary store; give another one with --store: %w", err)
	}
	remove = func() error {
		if err := os.RemoveAll(dir); err != nil {
			return fmt.Errorf("remove the temporary store: %w", err)
		}
		return nil
	}
	u := url.URL{Scheme: "pebble", Path: filepath.ToSlash(filepath.Join(dir, "store"))}
	return u.String(), remove, nil
}
