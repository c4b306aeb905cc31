package pebblestore

import (
	"bytes"
	"io"

	"github.com/cockroachdb/pebble/v2"
)

// source is what can be read: the database, a view of it, or its tables.
type source interface {
	Get(key []byte) (value []byte, closer io.Closer, err error)
	NewIter(o *pebble.IterOptions) (*pebble.Iterator, error)
}

// view is the database at one moment, for a reader. Pebble has snapshots for that,
// but closing one waits while Pebble syncs its list of files, and a reader should
// not wait for a sync.
//
// An iterator pins the state of the database as of its creation; reads through
// it do not see later groups, so that a record and its index agree.
type view struct {
	it *pebble.Iterator
}

var _ source = view{}

// view returns the database as it is now, for one goroutine. The caller closes it.
func (s *Store) view() (view, error) {
	it, err := s.db.NewIter(nil)
	return view{it}, err
}

// Get returns a value, which is valid until the next call of Get.
func (v view) Get(key []byte) ([]byte, io.Closer, error) {
	if !v.it.SeekPrefixGE(key) || !bytes.Equal(v.it.Key(), key) {
		if err := v.it.Error(); err != nil {
			return nil, nil, err
		}
		return nil, nil, pebble.ErrNotFound
	}
	value, err := v.it.ValueAndErr()
	return value, io.NopCloser(nil), err
}

// NewIter returns an iterator over the database at that moment.
func (v view) NewIter(o *pebble.IterOptions) (*pebble.Iterator, error) {
	return v.it.Clone(pebble.CloneOptions{IterOptions: o})
}

// tables is what Pebble has written to tables, without its memtables: see recent.
//
// The filters of the last level tell that a key does not exist. One of a large table is as
// large as hundreds of data blocks, and may have to be loaded: a key that exists is found
// sooner without.
type tables struct {
	db     *pebble.DB
	exists bool // what is read is known to exist, as a rule
}

var _ source = tables{}

// Get returns a value, as a copy.
func (t tables) Get(key []byte) ([]byte, io.Closer, error) {
	it, err := t.NewIter(&pebble.IterOptions{UseL6Filters: !t.exists})
	if err != nil {
		return nil, nil, err
	}
	value, closer, err := view{it}.Get(key)
	value = bytes.Clone(value)
	if closeErr := it.Close(); err == nil && closeErr != nil {
		err = closeErr
	}
	return value, closer, err
}

// NewIter returns an iterator over the tables.
func (t tables) NewIter(o *pebble.IterOptions) (*pebble.Iterator, error) {
	options := *o
	options.OnlyReadGuaranteedDurable = true
	return t.db.NewIter(&options)
}

// close ends the view. Errors of reads have been returned by the reads.
func (v view) close() { _ = v.it.Close() }
