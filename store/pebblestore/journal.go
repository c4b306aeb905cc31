package pebblestore

import (
	"encoding/binary"
	"errors"
	"fmt"
	"hash/crc32"
	"io"
	"maps"

	"github.com/cockroachdb/pebble/v2/vfs"
)

const (
	journalName = "ATTEMPTS"
	journalTemp = "ATTEMPTS.new"

	// journalEntry is the length of an entry: partition, due, seq, attempts, checksum.
	journalEntry = 28
)

// journal records how often messages were claimed at the location where they are. It is a
// file beside the database to which a claim appends a few bytes, without a sync: they are
// the operating system's before the claim is handed out, so a killed process loses none. A
// machine that loses power may lose some, and then a message is delivered more often than
// MaxAttempts allows: a sync for each claim would cost every message that much.
//
// The file has entries of fixed length with a checksum each. Reading stops at
// the first one that is damaged: what follows was written later, and is lost
// with it. The file is rewritten when it has grown beyond its limit and beyond
// twice its live entries, so the cost of rewriting is constant per entry.
//
// Attempts are also in the message itself, as of when it was put at its
// location. The journal has the later number, and wins. When a message moves,
// its attempts are in its new value, and the entry of the old location is dropped. An
// entry may remain in the file after that: location and sequence number are
// never used for another message, and Open drops entries without a message.
//
// It is guarded by the store's mutex. Writing under the mutex is acceptable because the
// operating system only copies the bytes.
type journal struct {
	fs    vfs.FS
	dir   string
	limit int              // size at which the file may be rewritten
	file  vfs.File         // nil before the first flush, and after an error
	size  int              // of the file
	at    map[location]int // the latest entry of each message that is still at its location
	buf   []byte           // entries that were not flushed yet
}

// openJournal reads what an earlier process has left. The first flush starts a new file.
func openJournal(fs vfs.FS, dir string, limit int) (*journal, error) {
	j := &journal{fs: fs, dir: dir, limit: limit, at: map[location]int{}}
	f, err := fs.Open(fs.PathJoin(dir, journalName))
	switch {
	case err == nil:
		b, err := io.ReadAll(f)
		if closeErr := f.Close(); err == nil {
			err = closeErr
		}
		if err != nil {
			return nil, fmt.Errorf("pebblestore: read %s: %w", journalName, err)
		}
		for ; len(b) >= journalEntry; b = b[journalEntry:] {
			if crc32.ChecksumIEEE(b[:24]) != binary.LittleEndian.Uint32(b[24:]) {
				break // an incomplete write before a power failure
			}
			at := location{binary.LittleEndian.Uint32(b), pos{int64(binary.LittleEndian.Uint64(b[4:])), binary.LittleEndian.Uint64(b[12:])}}
			j.at[at] = int(binary.LittleEndian.Uint32(b[20:]))
		}
	case !isNotExist(err):
		return nil, fmt.Errorf("pebblestore: open %s: %w", journalName, err)
	}
	return j, nil
}

// get returns the attempts of the message at a location, if the journal has an entry.
func (j *journal) get(at location) (int, bool) {
	n, ok := j.at[at]
	return n, ok
}

// note records the attempts of a message; flush hands the entry to the operating system.
func (j *journal) note(at location, attempts int) {
	j.at[at] = attempts
	j.buf = appendJournalEntry(j.buf, at, attempts)
}

// forget drops the entry of a location that a message has left.
func (j *journal) forget(at location) { delete(j.at, at) }

// keep drops all entries whose location wanted does not report.
func (j *journal) keep(wanted func(at location) (bool, error)) error {
	for at := range j.at {
		ok, err := wanted(at)
		if err != nil {
			return err
		}
		if !ok {
			delete(j.at, at)
		}
	}
	return nil
}

func appendJournalEntry(b []byte, at location, attempts int) []byte {
	start := len(b)
	b = binary.LittleEndian.AppendUint32(b, at.partition)
	b = binary.LittleEndian.AppendUint64(b, uint64(at.pos.due))
	b = binary.LittleEndian.AppendUint64(b, at.pos.seq)
	b = binary.LittleEndian.AppendUint32(b, uint32(attempts))
	return binary.LittleEndian.AppendUint32(b, crc32.ChecksumIEEE(b[start:]))
}

// flush writes the new entries to the file, without a sync. After an error nothing is lost
// but time: the entries are in memory, and the next flush rewrites the file.
func (j *journal) flush() error {
	if len(j.buf) == 0 {
		return nil
	}
	if j.file == nil || j.size+len(j.buf) > max(j.limit, 2*journalEntry*len(j.at)) {
		return j.rewrite()
	}
	_, err := j.file.Write(j.buf)
	j.size += len(j.buf)
	j.buf = j.buf[:0]
	if err != nil {
		// What was written of it is unknown, so the next flush starts a new file.
		err = fmt.Errorf("pebblestore: write %s: %w", journalName, err)
		return errors.Join(err, j.close())
	}
	return nil
}

// rewrite replaces the file by one that has only live entries. The new file is renamed into
// place when it is complete, so that a killed process leaves the old one or the new one.
func (j *journal) rewrite() error {
	if err := j.close(); err != nil {
		return err
	}
	j.buf = j.entries(j.buf[:0])
	temp, name := j.fs.PathJoin(j.dir, journalTemp), j.fs.PathJoin(j.dir, journalName)
	f, err := j.fs.Create(temp, vfs.WriteCategoryUnspecified)
	if err == nil {
		_, err = f.Write(j.buf)
		if err == nil {
			err = j.fs.Rename(temp, name)
		}
		if err != nil {
			err = errors.Join(err, f.Close())
		}
	}
	if err != nil {
		return fmt.Errorf("pebblestore: write %s: %w", journalName, err)
	}
	// A map that once was large stays large: take a new one of the right size.
	at := make(map[location]int, len(j.at))
	maps.Copy(at, j.at)
	j.at = at
	j.file, j.size, j.buf = f, len(j.buf), j.buf[:0]
	return nil
}

// entries appends the live entries.
func (j *journal) entries(b []byte) []byte {
	for at, attempts := range j.at {
		b = appendJournalEntry(b, at, attempts)
	}
	return b
}

func (j *journal) close() error {
	if j.file == nil {
		return nil
	}
	err := j.file.Close()
	j.file = nil
	return err
}
