package sqlitestore

import (
	"context"
	"errors"
	"fmt"
	"os"
	"strconv"
	"strings"
	"sync"
	"time"

	"zombiezen.com/go/sqlite"

	"github.com/abidehq/abide/internal/rows"
	"github.com/abidehq/abide/store"
)

// A store does not know what is in the bodies that it keeps. What a file has besides its
// tables, and what needs that knowledge, comes from a package above this one and the engine,
// through [Extend]: views that decode histories for people who read the file with SQL, and
// the conversion of databases of an older design.

// View is an SQL view. The store creates it and does not read it.
type View struct{ Name, Query string }

// Foreign is a design of databases that can be converted to a store; see [Convert].
type Foreign struct {
	// Recognize reports whether a database with these tables, each with its columns, is of the
	// design.
	Recognize func(columns map[string][]string) bool

	// Read returns the messages to put into the store, in order. Each names its key, ID, time
	// and body, and has no route. It reads the tables under the names that ForeignPrefix gives
	// them. It is called again if the transaction has to be repeated.
	Read func(t ForeignTables, now time.Time) ([]store.Message, error)
}

// ForeignPrefix is the prefix that the tables of a database get when it is converted.
const ForeignPrefix = "legacy_"

// ForeignTables are the tables of a database that is being converted.
type ForeignTables struct {
	Names []string // before they were renamed
	c     *conn
}

// Each runs a query and calls row with the values of each row: int64, string, []byte, or nil.
func (t ForeignTables) Each(query string, row func(values []any) error) error {
	return t.c.each(query, func(s *sqlite.Stmt) error {
		values := make([]any, s.ColumnCount())
		for i := range values {
			switch s.ColumnType(i) {
			case sqlite.TypeInteger, sqlite.TypeFloat:
				values[i] = s.ColumnInt64(i)
			case sqlite.TypeText:
				values[i] = s.ColumnText(i)
			case sqlite.TypeBlob:
				values[i] = blob(s, i)
			default:
			}
		}
		return row(values)
	})
}

// Extension is what Open adds to a file, and which databases it knows to be convertible.
type Extension struct {
	// Views are created in each file that is opened, in place of those of a lower version.
	Views        []View
	ViewsVersion int

	// Foreign, if not nil, is the design whose databases Open refuses with the advice to
	// convert them.
	Foreign *Foreign
}

var (
	extending sync.Mutex
	extension Extension
)

// Extend sets the extension of all files that this process opens from now on. It is for the
// init of one package of the program: a second call replaces the first.
func Extend(e Extension) {
	extending.Lock()
	defer extending.Unlock()
	extension = e
}

func extended() Extension {
	extending.Lock()
	defer extending.Unlock()
	return extension
}

// refreshViews creates the views of the extension, unless the file has those of this version or
// a later one. The version is in PRAGMA user_version.
func (c *conn) refreshViews(e Extension) error {
	version, err := c.number("PRAGMA user_version")
	if err != nil || version >= int64(e.ViewsVersion) {
		return err
	}
	for _, v := range e.Views {
		if err := c.once("DROP VIEW IF EXISTS " + v.Name); err != nil {
			return err
		}
		if err := c.once("CREATE VIEW " + v.Name + " AS " + v.Query); err != nil {
			return err
		}
	}
	return c.once("PRAGMA user_version = " + strconv.Itoa(e.ViewsVersion))
}

// conversion is a conversion under way.
type conversion struct {
	foreign *Foreign
	dryRun  bool
	tables  []string
}

// Convert converts a database of another design to a store, and returns the names of its
// tables, which are kept with ForeignPrefix. It runs in one transaction: nothing is changed if
// it fails, or with dryRun. It returns [store.ErrInvalid] if the file is empty or a store
// already, and [store.ErrFormat] for a database of any other design.
func Convert(ctx context.Context, path string, o Options, foreign *Foreign, dryRun bool) (tables []string, err error) {
	whole, err := resolve(path)
	if err == nil {
		_, err = os.Stat(whole)
	}
	if err != nil {
		return nil, fmt.Errorf("sqlitestore: convert %s: %w", path, err)
	}
	s := newStore(whole, o)
	s.conversion = &conversion{foreign: foreign, dryRun: dryRun}
	if err := errors.Join(s.open(ctx), s.closeFiles()); err != nil {
		return nil, fmt.Errorf("sqlitestore: convert %s: %w", whole, err)
	}
	return s.conversion.tables, nil
}

// tableColumns returns the tables of the file, each with its columns.
func (c *conn) tableColumns() (map[string][]string, error) {
	tables := map[string][]string{}
	err := c.each(`SELECT t.name, c.name FROM sqlite_master t LEFT JOIN pragma_table_info(t.name) c WHERE t.type = 'table'`, func(s *sqlite.Stmt) error {
		tables[s.ColumnText(0)] = append(tables[s.ColumnText(0)], s.ColumnText(1))
		return nil
	})
	return tables, err
}

// renameForeign makes room for the tables and views of the store. Nothing is dropped: what is
// not converted stays to be looked at.
func (c *conn) renameForeign() (tables []string, err error) {
	if err := c.each("SELECT name FROM sqlite_master WHERE type = 'table' AND name NOT LIKE 'sqlite\\_%' ESCAPE '\\' ORDER BY name", func(s *sqlite.Stmt) error {
		tables = append(tables, s.ColumnText(0))
		return nil
	}); err != nil {
		return nil, err
	}
	for _, name := range tables {
		if err := c.once("ALTER TABLE " + quoteName(name) + " RENAME TO " + quoteName(ForeignPrefix+name)); err != nil {
			return nil, err
		}
	}
	return tables, nil
}

// quoteName returns a name as an SQL identifier.
func quoteName(name string) string { return `"` + strings.ReplaceAll(name, `"`, `""`) + `"` }

// convert puts the messages of a foreign database, whose tables have been renamed, into the
// empty tables of the store. It runs in the transaction that creates those, which is what makes
// it happen once, even if the process is killed.
func (s *Store) convert() error {
	now := s.now()
	messages, err := s.conversion.foreign.Read(ForeignTables{s.conversion.tables, s.writer.conn}, store.FromMillis(now))
	if err != nil {
		return err
	}
	nums := map[store.Key]int{}
	tally := map[string]int{}
	var order []*rows.KeyRow
	for i := range messages {
		m := &messages[i]
		num, ok := nums[m.Key]
		if !ok {
			order = append(order, &rows.KeyRow{ID: rows.IDOf(m.Key), Key: m.Key, First: rows.Never})
			num = len(order)
			nums[m.Key] = num
		}
		row := order[num-1]
		added := &rows.MessageRow{
			Key: row.ID, Seq: row.Seq, ID: m.ID, Visible: max(now, store.Millis(m.VisibleAt)), Put: now, TTL: m.TTL.Milliseconds(), Body: m.Body,
		}
		if err := s.writer.insertMessage(int64(num), added); err != nil {
			return err
		}
		row.Seq++
		row.Count++
		row.First = min(row.First, added.Expires())
		tally[m.Key.Queue]++
	}
	for i, row := range order {
		if err := s.writer.insertKey(int64(i)+1, row); err != nil {
			return err
		}
	}
	for queue, n := range tally {
		if err := s.writer.addTally(queue, "", n); err != nil {
			return err
		}
	}
	return nil
}
