package sqlitestore

import (
	"context"
	"runtime"
	"strconv"

	"zombiezen.com/go/sqlite"

	"github.com/abidehq/abide/store"
)

// pool is the connections for reads. In write-ahead mode each transaction of theirs sees the file
// as of its start, and waits for no writer.
type pool struct {
	path string
	room chan struct{} // one token for each that may be in use
	idle chan *conn
	over chan struct{} // closed at the end
}

// readerCache is the page cache of a connection for reads, in KiB. It is small because SQLite
// empties it whenever another connection has committed.
const readerCache = 4 << 10

func newPool(path string) *pool {
	n := max(4, runtime.GOMAXPROCS(0))
	return &pool{path: path, room: make(chan struct{}, n), idle: make(chan *conn, n), over: make(chan struct{})}
}

func openReader(path string) (*conn, error) {
	return openConn(path, sqlite.OpenReadWrite,
		"query_only = ON", "cache_size = -"+strconv.Itoa(readerCache), "temp_store = MEMORY", "wal_autocheckpoint = 0")
}

// get takes a connection out of the pool.
func (p *pool) get(ctx context.Context) (*conn, error) {
	select {
	case p.room <- struct{}{}:
	case <-ctx.Done():
		return nil, ctx.Err()
	case <-p.over:
		return nil, store.ErrClosed
	}
	select {
	case c := <-p.idle:
		return c, nil
	default:
	}
	c, err := openReader(p.path)
	if err != nil {
		<-p.room
		return nil, err
	}
	return c, nil
}

func (p *pool) put(c *conn) {
	p.idle <- c
	<-p.room
}

// close waits for those in use, and closes all.
func (p *pool) close() (err error) {
	close(p.over)
	for range cap(p.room) {
		p.room <- struct{}{}
	}
	for {
		select {
		case c := <-p.idle:
			if end := c.close(); err == nil {
				err = end
			}
		default:
			return err
		}
	}
}

// read runs f in a read transaction. f may be run again: the file is locked for a moment while
// another process recovers the log or closes the file as the last one.
func (s *Store) read(ctx context.Context, verb string, f func(c *conn) error) error {
	if err := s.check(ctx, verb); err != nil {
		return err
	}
	for {
		err := s.readOnce(ctx, f)
		if err == nil {
			return nil
		}
		if closed := s.Check(ctx, verb); closed != nil {
			return closed
		}
		if !isBusy(err) {
			return s.explain(verb, err)
		}
		if err := pause(ctx, lockPause); err != nil {
			return err
		}
	}
}

func (s *Store) readOnce(ctx context.Context, f func(c *conn) error) error {
	c, err := s.readers.get(ctx)
	if err != nil {
		return err
	}
	defer s.readers.put(c)
	if err := c.exec("BEGIN"); err != nil {
		return err
	}
	err = f(c)
	if !c.db.AutocommitEnabled() {
		if end := c.exec("COMMIT"); err == nil {
			err = end
		}
	}
	return err
}

// scan is read for long queries: it is interrupted when ctx ends or the store is closed.
func (s *Store) scan(ctx context.Context, verb string, f func(c *conn) error) error {
	inner, cancel := context.WithCancel(ctx)
	defer cancel()
	defer context.AfterFunc(s.life, cancel)()
	err := s.read(inner, verb, func(c *conn) error {
		c.db.SetInterrupt(inner.Done())
		defer c.db.SetInterrupt(nil)
		return f(c)
	})
	if err != nil && inner.Err() != nil {
		if ctx.Err() != nil {
			return ctx.Err()
		}
		return store.Closed(verb)
	}
	return err
}
