package store

import (
	"errors"
	"fmt"
	"io"
	"os"
	"strings"
	"time"

	"github.com/abidehq/abide/internal/cli/connect"
	"github.com/abidehq/abide/internal/cli/console"

	"github.com/spf13/cobra"

	"github.com/abidehq/abide/store"
	"github.com/abidehq/abide/store/pgstore"
)

// NewMigrate returns the command abide migrate.
func NewMigrate() *cobra.Command {
	return console.Group(
		&cobra.Command{
			Use:   "migrate",
			Short: "Create or migrate the tables of a PostgreSQL store",
			Long: `A store in PostgreSQL makes its tables when it is opened. Where the program must not do so, its
URL says migrate=off, and a role with the rights runs these commands, or the SQL that they print.`,
		},
		newMigratePrint(), newMigrateUp(), newMigrateStatus(),
	)
}

// migrateStore has the flags of the verbs that need a database.
type migrateStore struct {
	url string
	out console.Output
}

// command makes cmd a verb that calls f with the URL of the database.
func (m *migrateStore) command(cmd *cobra.Command, f func(cmd *cobra.Command, url string) error) *cobra.Command {
	cmd.Args = console.NoArgs
	cmd.RunE = func(cmd *cobra.Command, _ []string) error {
		if err := m.out.Check(cmd); err != nil {
			return err
		}
		url, err := m.place()
		if err != nil {
			return err
		}
		if err = f(cmd, url); errors.Is(err, store.ErrInvalid) {
			err = console.AsUsage(err)
		}
		return err
	}
	cmd.Flags().StringVar(&m.url, "store", "", "URL of the store, postgres://user@host/database?schema=abide; that of $"+connect.EnvStore+" if not given")
	m.out.AddTo(cmd)
	return cmd
}

// place returns the URL.
func (m *migrateStore) place() (string, error) {
	place := m.url
	if place == "" { // and not as the flag's default, which the help would show with its password
		place = os.Getenv(connect.EnvStore)
	}
	switch scheme, _, _ := strings.Cut(place, "://"); {
	case place == "":
		return "", console.Usage("--store or %s is needed: the URL of a store in PostgreSQL", connect.EnvStore)
	case scheme != "postgres" && scheme != "postgresql":
		return "", console.Usage("only stores in PostgreSQL have migrations: a URL looks like postgres://user@host/database")
	}
	return place, nil
}

func newMigratePrint() *cobra.Command {
	var schema string
	cmd := &cobra.Command{
		Use:   "print",
		Short: "Print the SQL of the migrations",
		Long: `Print the SQL of the migrations, in order, each a transaction that also notes that it was applied.
It does not connect: the output is for review, or for psql.`,
		Example: `  abide migrate print --schema abide > abide.sql
  abide migrate print | psql -v ON_ERROR_STOP=1 -d production`,
		Args: console.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			for _, m := range pgstore.Migrations(schema) {
				if _, err := fmt.Fprintln(cmd.OutOrStdout(), m.SQL); err != nil {
					return err
				}
			}
			return nil
		},
	}
	cmd.Flags().StringVar(&schema, "schema", pgstore.DefaultSchema, "the schema that the tables are in")
	return cmd
}

// Migrated is a migration, as it is printed.
type Migrated struct {
	Number  int        `json:"number"`
	Name    string     `json:"name"`
	Applied *time.Time `json:"applied,omitempty"`
}

func newMigrateUp() *cobra.Command {
	m := &migrateStore{}
	return m.command(&cobra.Command{
		Use:   "up",
		Short: "Apply pending migrations",
		Long: `Apply the migrations that the database does not have, and print them. It can be run again, and by
several at once: each migration is applied once.`,
		Example: `  abide migrate up --store postgres://owner@db.internal/production`,
	}, func(cmd *cobra.Command, url string) error {
		applied, err := pgstore.Migrate(cmd.Context(), url)
		if err != nil {
			return err
		}
		list := []Migrated{}
		for _, m := range applied {
			list = append(list, Migrated{Number: m.Number, Name: m.Name})
		}
		return m.out.Print(cmd.OutOrStdout(), map[string]any{"applied": list}, func(w io.Writer) error {
			for _, m := range list {
				fmt.Fprintf(w, "applied %d %s\n", m.Number, m.Name)
			}
			if len(list) == 0 {
				fmt.Fprintln(w, "nothing to do: the tables are up to date")
			}
			return nil
		})
	})
}

func newMigrateStatus() *cobra.Command {
	m := &migrateStore{}
	return m.command(&cobra.Command{
		Use:   "status",
		Short: "Show the migrations of the database",
		Long: `Show the migrations of this program, and when the database got each of them. The exit code is 0 if
it has them all, and 1 if some are missing, or if it is of a newer program.`,
		Example: `  abide migrate status --store postgres://reader@db.internal/production -o json`,
	}, func(cmd *cobra.Command, url string) error {
		all, err := pgstore.Status(cmd.Context(), url)
		if err != nil {
			return err
		}
		return PrintStatus(cmd.OutOrStdout(), &m.out, all)
	})
}

// PrintStatus prints the migrations, and returns an error if some are missing.
func PrintStatus(w io.Writer, out *console.Output, all []pgstore.Applied) error {
	list := []Migrated{}
	missing := 0
	for _, m := range all {
		row := Migrated{Number: m.Number, Name: m.Name}
		if m.At.IsZero() {
			missing++
		} else {
			at := m.At.UTC()
			row.Applied = &at
		}
		list = append(list, row)
	}
	err := out.Print(w, map[string]any{"migrations": list, "missing": missing}, func(w io.Writer) error {
		t := console.NewTable(w, "NUMBER", "NAME", "APPLIED")
		for _, m := range list {
			applied := "missing"
			if m.Applied != nil {
				applied = m.Applied.Local().Format(time.RFC3339)
			}
			t.Add(console.Plain(fmt.Sprint(m.Number)), console.Plain(m.Name), console.Plain(applied))
		}
		return t.Write(w)
	})
	if err == nil && missing > 0 {
		err = fmt.Errorf("%d migrations are missing; apply them with: abide migrate up", missing)
	}
	return err
}
