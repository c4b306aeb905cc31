package sqlitestore

import (
	"fmt"

	"zombiezen.com/go/sqlite"
)

// conn is a connection to the file. It is used by one goroutine at a time.
type conn struct {
	db *sqlite.Conn
}

// openConn opens a connection. It does not wait when another one holds a lock: its
// user does, and decides for how long.
func openConn(path string, flags sqlite.OpenFlags, pragmas ...string) (*conn, error) {
	db, err := sqlite.OpenConn(path, flags)
	if err != nil {
		return nil, err
	}
	db.SetBusyTimeout(0)
	c := &conn{db}
	for _, p := range pragmas {
		if err := c.exec("PRAGMA " + p); err != nil {
			_ = c.db.Close() // what was wrong comes first
			return nil, err
		}
	}
	return c, nil
}

func (c *conn) close() error { return c.db.Close() }

// exec runs a statement, which is prepared the first time, and passes over its rows.
func (c *conn) exec(query string, args ...any) error {
	return c.each(query, func(*sqlite.Stmt) error { return nil }, args...)
}

// each runs a statement and calls row for each of its rows. The row is gone when it
// returns.
func (c *conn) each(query string, row func(*sqlite.Stmt) error, args ...any) error {
	s, err := c.db.Prepare(query)
	if err != nil {
		return err
	}
	bind(s, args)
	for {
		more, err := s.Step()
		if err != nil {
			return err
		}
		if !more {
			return s.Reset()
		}
		if err := row(s); err != nil {
			_ = s.Reset() // it repeats the error of the step, and there was none
			return err
		}
	}
}

// one runs a statement that has one row at most, and reports whether it has. Those after
// the first are not looked at.
func (c *conn) one(query string, row func(*sqlite.Stmt), args ...any) (bool, error) {
	s, err := c.db.Prepare(query)
	if err != nil {
		return false, err
	}
	bind(s, args)
	found, err := s.Step()
	if err != nil {
		return false, err
	}
	if found {
		row(s)
	}
	return found, s.Reset()
}

// number returns the only number of a statement's first row, or 0 if there is none.
func (c *conn) number(query string, args ...any) (n int64, err error) {
	_, err = c.one(query, func(s *sqlite.Stmt) { n = s.ColumnInt64(0) }, args...)
	return n, err
}

// once runs a statement that is not kept: some take effect when they are prepared, and
// would have none the next time.
func (c *conn) once(query string) error {
	s, _, err := c.db.PrepareTransient(query)
	if err != nil {
		return err
	}
	_, err = s.Step()
	if end := s.Finalize(); err == nil {
		err = end
	}
	return err
}

func bind(s *sqlite.Stmt, args []any) {
	for i, arg := range args {
		switch v := arg.(type) {
		case int64:
			s.BindInt64(i+1, v)
		case int:
			s.BindInt64(i+1, int64(v))
		case string:
			s.BindText(i+1, v)
		case []byte:
			s.BindBytes(i+1, v)
		case nil:
			s.BindNull(i + 1)
		default:
			panic(fmt.Sprintf("sqlitestore: argument %d is a %T", i+1, arg))
		}
	}
}

// blob returns a column's bytes.
func blob(s *sqlite.Stmt, col int) []byte {
	b := make([]byte, s.ColumnLen(col))
	s.ColumnBytes(col, b)
	return b
}
