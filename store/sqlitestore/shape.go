package sqlitestore

import (
	"fmt"
	"strconv"

	"github.com/abidehq/abide/store"
)

// shape is what is in a file.
type shape int

const (
	shapeEmpty   shape = iota // nothing
	shapeOurs                 // the tables of this version
	shapeFirst                // those of format 1
	shapeForeign              // those of another design that can be converted
)

// shape returns what is in the file, or [store.ErrFormat] if this version does not read it.
// foreign, if not nil, is the design that can be converted.
func (c *conn) shape(foreign *Foreign) (shape, error) {
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
	tables, err := c.tableColumns()
	switch {
	case err != nil:
		return 0, err
	case id == 0 && len(tables) == 0:
		return shapeEmpty, nil
	case id == 0 && foreign != nil && foreign.Recognize(tables):
		return shapeForeign, nil
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

// recognize returns an error if this version does not read the file or, for Convert, does not
// convert it, before anything in it is changed. It reads in one transaction: another process
// may be creating the tables.
func (s *Store) recognize() error {
	c := s.writer.conn
	if err := c.exec("BEGIN"); err != nil {
		return err
	}
	_, err := s.wanted()
	if !c.db.AutocommitEnabled() {
		if end := c.exec("COMMIT"); err == nil {
			err = end
		}
	}
	return err
}

// wanted returns what is in the file, or an error if that is not what the store is opened for: a
// store, or for Convert a foreign database.
func (s *Store) wanted() (shape, error) {
	foreign := extended().Foreign
	if s.conversion != nil {
		foreign = s.conversion.foreign
	}
	what, err := s.writer.shape(foreign)
	switch {
	case err != nil:
	case what == shapeForeign && s.conversion == nil:
		err = fmt.Errorf("it is a database of an older design; stop the program that wrote it, and convert it with: abide store convert sqlite://%s: %w", s.path, store.ErrFormat)
	case what != shapeForeign && s.conversion != nil:
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
