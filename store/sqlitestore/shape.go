package sqlitestore

import (
	"fmt"
	"strconv"

	"zombiezen.com/go/sqlite"

	"github.com/abidehq/abide/store"
)

// shape is what is in a file.
type shape int

const (
	shapeEmpty  shape = iota // nothing
	shapeOurs                // the tables of this version
	shapeFirst               // those of format 1
	shapeLegacy              // those of an older design
)

// shape returns what is in the file, or [store.ErrFormat] if it is nothing that this
// version reads.
func (c *conn) shape() (shape, error) {
	id, err := c.number("PRAGMA application_id")
	if err != nil {
		return 0, err
	}
	if id == applicationID {
		format, oldest, err := c.format()
		switch {
		case err != nil:
			return 0, err
		case format >= formatVersion:
			return shapeOurs, store.CheckFormat(format, oldest, formatVersion)
		case format == 1:
			return shapeFirst, nil
		}
		return 0, fmt.Errorf("it has format %d, and this version of Abide reads format %d: %w", format, formatVersion, store.ErrFormat)
	}
	tables := map[string]bool{}
	if err := c.each("SELECT name FROM sqlite_master WHERE type = 'table'", func(s *sqlite.Stmt) error {
		tables[s.ColumnText(0)] = true
		return nil
	}); err != nil {
		return 0, err
	}
	if id == 0 && len(tables) == 0 {
		return shapeEmpty, nil
	}
	if legacy, err := c.isLegacy(tables); err != nil || (id == 0 && legacy) {
		return shapeLegacy, err
	}
	return 0, fmt.Errorf("it is a database of something else than Abide (application ID %#x): %w", id, store.ErrFormat)
}

// format returns the format of the tables, and the oldest reader, which is the same unless
// the file says otherwise.
func (c *conn) format() (format, oldest int, err error) {
	n, err := c.number("SELECT value FROM meta WHERE name = 'format'")
	if err != nil {
		return 0, 0, err
	}
	o, err := c.number("SELECT max(value) FROM meta WHERE name = 'oldest reader'")
	if o == 0 {
		o = n
	}
	return int(n), int(o), err
}

// recognize returns an error if the file is nothing that this version reads or, with
// convert, converts, before anything in it is changed. It looks at one moment: somebody else
// may be making it.
func (c *conn) recognize(path string, convert bool) error {
	if err := c.exec("BEGIN"); err != nil {
		return err
	}
	_, err := c.wanted(path, convert)
	if !c.db.AutocommitEnabled() {
		if end := c.exec("COMMIT"); err == nil {
			err = end
		}
	}
	return err
}

// wanted is shape, and returns an error if that is an older design, or with convert anything
// else.
func (c *conn) wanted(path string, convert bool) (shape, error) {
	what, err := c.shape()
	switch {
	case err != nil:
	case what == shapeLegacy && !convert:
		err = fmt.Errorf("it is a database of an older design; stop the program that wrote it, and convert it with: abide store convert sqlite://%s: %w", path, store.ErrFormat)
	case what != shapeLegacy && convert:
		err = fmt.Errorf("there is nothing to convert: it is empty, or a store of Abide already: %w", store.ErrInvalid)
	}
	return what, err
}

// renew makes a file of format 1 one of this format.
func (c *conn) renew() error {
	for _, statement := range []string{
		"DROP INDEX keys_due", "DROP INDEX keys_turn", keysDue, keysTurn,
		"UPDATE meta SET value = " + strconv.Itoa(formatVersion) + " WHERE name = 'format'",
	} {
		if err := c.once(statement); err != nil {
			return err
		}
	}
	return nil
}

// create makes the tables of an empty file.
func (c *conn) create(now int64) error {
	for _, statement := range schema {
		if err := c.once(statement); err != nil {
			return err
		}
	}
	if err := c.exec("INSERT INTO meta (name, value) VALUES ('format', ?), ('time', ?)", formatVersion, now); err != nil {
		return err
	}
	return c.once("PRAGMA application_id = " + strconv.Itoa(applicationID))
}
