package pebblestore

import (
	"bytes"
	"errors"
	"fmt"
	"hash/crc32"
	"io"
	"slices"
	"strings"

	"github.com/cockroachdb/pebble/v2/vfs"

	"github.com/abidehq/abide/store"
)

const (
	sealName = "SEAL"
	sealTemp = "SEAL.new"
)

// A store that is closed leaves a seal: the name, the length and the checksum of each
// file. It is checked and removed when the store is opened, before anything is changed. So
// a file that was damaged or removed in between is found, and named in the error.
// Pebble alone cannot tell: it takes a truncated log, or list of files, for one whose end
// was never written, as after a crash. After a crash there is no seal.

// unsealed reports whether a file is not part of the seal, because the store can do without.
func unsealed(name string) bool {
	return slices.Contains([]string{sealName, sealTemp, journalName, journalTemp, backupName, backupTemp, "LOCK"}, name)
}

// seal writes the seal. A store without one opens as after a crash.
func (s *Store) seal() error { return sealDir(s.fs, s.dir) }

// sealDir writes the seal of a directory, and syncs both.
func sealDir(fs vfs.FS, dir string) error {
	files, err := fs.List(dir)
	if err != nil {
		return err
	}
	slices.Sort(files)
	var b []byte
	for _, name := range files {
		if unsealed(name) {
			continue
		}
		size, sum, err := fingerprint(fs, fs.PathJoin(dir, name))
		if err != nil {
			return err
		}
		b = fmt.Appendf(b, "%s %d %08x\n", name, size, sum)
	}
	b = fmt.Appendf(b, "%08x\n", crc32.ChecksumIEEE(b))
	temp := fs.PathJoin(dir, sealTemp)
	if err := writeSynced(fs, temp, b); err != nil {
		return err
	}
	if err := fs.Rename(temp, fs.PathJoin(dir, sealName)); err != nil {
		return err
	}
	return syncDir(fs, dir)
}

// writeSynced writes a file and syncs it, but not the directory that it is in.
func writeSynced(fs vfs.FS, name string, b []byte) error {
	f, err := fs.Create(name, vfs.WriteCategoryUnspecified)
	if err != nil {
		return err
	}
	_, err = f.Write(b)
	return errors.Join(err, f.Sync(), f.Close())
}

// fingerprint returns the length of a file and its checksum. Tables have checksums
// of their own, and may be large, so only their length is taken.
func fingerprint(fs vfs.FS, name string) (size int64, sum uint32, err error) {
	f, err := fs.Open(name)
	if err != nil {
		return 0, 0, err
	}
	defer f.Close()
	if isTable(name) {
		info, err := f.Stat()
		if err != nil {
			return 0, 0, err
		}
		return info.Size(), 0, nil
	}
	h := crc32.NewIEEE()
	size, err = io.Copy(h, f)
	return size, h.Sum32(), err
}

func syncDir(fs vfs.FS, dir string) error {
	f, err := fs.OpenDir(dir)
	if err != nil {
		return err
	}
	return errors.Join(f.Sync(), f.Close())
}

// breakSeal checks the seal, if there is one, and removes it durably: a crash later on must not
// be followed by a check of a seal that is out of date. It returns [store.ErrCorrupt].
func (s *Store) breakSeal() error {
	f, err := s.fs.Open(s.fs.PathJoin(s.dir, sealName))
	if isNotExist(err) {
		return nil
	}
	if err != nil {
		return err
	}
	b, err := io.ReadAll(f)
	if err := errors.Join(err, f.Close()); err != nil {
		return err
	}
	if err := s.checkSeal(b); err != nil {
		return err
	}
	if err := s.fs.Remove(s.fs.PathJoin(s.dir, sealName)); err != nil {
		return err
	}
	return syncDir(s.fs, s.dir)
}

// checkSeal compares the files with a seal. A seal that is damaged itself is ignored.
func (s *Store) checkSeal(seal []byte) error {
	end := bytes.LastIndexByte(bytes.TrimSuffix(seal, []byte("\n")), '\n') + 1
	if string(seal[end:]) != fmt.Sprintf("%08x\n", crc32.ChecksumIEEE(seal[:end])) {
		s.logger.Warn("pebblestore: seal damaged, ignored", "dir", s.dir)
		return nil
	}
	for line := range strings.Lines(string(seal[:end])) {
		var name string
		var size int64
		var sum uint32
		if _, err := fmt.Sscanf(line, "%s %d %x\n", &name, &size, &sum); err != nil {
			return fmt.Errorf("read %s: %w", sealName, err)
		}
		gotSize, gotSum, err := fingerprint(s.fs, s.fs.PathJoin(s.dir, name))
		switch {
		case isNotExist(err):
			return fmt.Errorf("%s is missing, which was there when the store was closed: %w", name, store.ErrCorrupt)
		case err != nil:
			return err
		case gotSize != size:
			return fmt.Errorf("%s has %d bytes, and had %d when the store was closed: %w", name, gotSize, size, store.ErrCorrupt)
		case gotSum != sum:
			return fmt.Errorf("%s has changed since the store was closed: %w", name, store.ErrCorrupt)
		}
	}
	return nil
}

// checkFiles returns [store.ErrCorrupt] if files are missing that no crash explains. The
// options are the last file that is created with a store: if they exist, the others must, or
// Pebble would create an empty store in place of the one that was there. A log need not exist:
// power losses leave stores without one in which nothing is missing, because all of it is in tables
// (TestPowerLoss). A log that is removed from a store that was closed is found by the seal.
func (s *Store) checkFiles() error {
	files, err := s.fs.List(s.dir)
	if err != nil {
		return err
	}
	has := func(match func(name string) bool) bool { return slices.ContainsFunc(files, match) }
	if has(func(name string) bool { return name == "CURRENT" }) {
		return nil // another database, which Pebble refuses
	}
	if !has(func(name string) bool { return strings.HasPrefix(name, "OPTIONS-") }) {
		return nil
	}
	for _, prefix := range []string{"marker.manifest.", "marker.format-version."} {
		if !has(func(name string) bool { return strings.HasPrefix(name, prefix) }) {
			return fmt.Errorf("%s* is missing: %w", prefix, store.ErrCorrupt)
		}
	}
	return nil
}
