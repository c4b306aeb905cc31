package pebblestore

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"maps"
	"math/rand/v2"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"syscall"
	"testing"

	"github.com/cockroachdb/pebble/v2"
	"github.com/cockroachdb/pebble/v2/vfs"

	"github.com/abidehq/abide/internal/base"
	"github.com/abidehq/abide/internal/testenv"
	"github.com/abidehq/abide/store"
)

// builtStore is the files of a store that was closed, and what is in it.
type builtStore struct {
	files  map[string][]byte
	load   *workload
	moment *moment
}

// buildStore makes a store that has several files of each kind.
func buildStore(t *testing.T, seed uint64) *builtStore {
	t.Helper()
	dir := t.TempDir()
	load := newWorkload(base.NewManual(start), 3, seed)
	for range 2 {
		s, err := Open(t.Context(), dir, Options{Clock: load.clock, Logger: quiet(), tune: busy, limits: &tight})
		if err != nil {
			t.Fatal(err)
		}
		failOn(t, load.runAll(t.Context(), s, 40))
		for _, w := range load.workers {
			if err := w.claim(t.Context(), s); err != nil { // so that there are attempts
				t.Fatal(err)
			}
			clear(w.held) // they end with the store
		}
		if err := s.Close(); err != nil {
			t.Fatal(err)
		}
	}
	b := &builtStore{files: map[string][]byte{}, load: load, moment: load.after(load.before())}
	entries, err := os.ReadDir(dir)
	if err != nil {
		t.Fatal(err)
	}
	for _, e := range entries {
		if b.files[e.Name()], err = os.ReadFile(filepath.Join(dir, e.Name())); err != nil {
			t.Fatal(err)
		}
	}
	return b
}

// write writes the files into a new directory, without one, or with another one in
// its location.
func (b *builtStore) write(t *testing.T, name string, data []byte) (dir string) {
	t.Helper()
	dir = t.TempDir()
	for file, content := range b.files {
		if file == name {
			if content = data; content == nil {
				continue
			}
		}
		if err := os.WriteFile(filepath.Join(dir, file), content, 0o600); err != nil {
			t.Fatal(err)
		}
	}
	return dir
}

// look opens a store, reads everything in it and drains it.
func (b *builtStore) look(ctx context.Context, dir string, m *moment) (err error) {
	clock := base.NewManual(m.now)
	s, err := Open(ctx, dir, Options{Clock: clock, Logger: quiet(), tune: busy, limits: &tight})
	if err != nil {
		return err
	}
	defer func() {
		if closeErr := s.Close(); err == nil {
			err = closeErr
		}
	}()
	found, err := b.load.verify(ctx, s, m)
	if err != nil {
		return err
	}
	return b.load.drain(ctx, s, clock, m, found)
}

// damages are ways in which a file can be broken.
var damages = []struct {
	name string
	do   func(data []byte, rnd *rand.Rand) []byte
}{
	{"is deleted", func([]byte, *rand.Rand) []byte { return nil }},
	{"is empty", func([]byte, *rand.Rand) []byte { return []byte{} }},
	{"is cut in the middle", func(data []byte, _ *rand.Rand) []byte { return data[:len(data)/2] }},
	{"is cut at the end", func(data []byte, _ *rand.Rand) []byte { return data[:max(0, len(data)-1)] }},
	{"has other bytes at its beginning", func(data []byte, _ *rand.Rand) []byte { return flip(data, 0) }},
	{"has other bytes in the middle", func(data []byte, _ *rand.Rand) []byte { return flip(data, len(data)/2) }},
	{"has other bytes at its end", func(data []byte, _ *rand.Rand) []byte { return flip(data, len(data)-8) }},
	{"has other bytes somewhere", func(data []byte, rnd *rand.Rand) []byte { return flip(data, rnd.IntN(len(data)+1)) }},
	{"is garbage", func(data []byte, rnd *rand.Rand) []byte { return garbage(rnd, len(data)) }},
	{"has garbage behind it", func(data []byte, rnd *rand.Rand) []byte { return append(bytes.Clone(data), garbage(rnd, 100)...) }},
}

// flip changes eight bytes, or as many as there are.
func flip(data []byte, at int) []byte {
	data = bytes.Clone(data)
	for i := max(0, at); i < min(at+8, len(data)); i++ {
		data[i] ^= 0x55
	}
	return data
}

func garbage(rnd *rand.Rand, n int) []byte {
	data := make([]byte, n)
	for i := range data {
		data[i] = byte(rnd.Uint32())
	}
	return data
}

// TestDamagedFiles breaks each file of a store in many ways. What is then said is
// that the file is corrupt, or nothing is lost.
func TestDamagedFiles(t *testing.T) {
	t.Parallel()
	seed := testenv.Seed(t)
	b := buildStore(t, seed)
	rnd := rand.New(rand.NewPCG(seed, 0))
	for _, closed := range []bool{true, false} {
		if !closed {
			delete(b.files, sealName)
		}
		kinds := map[string]bool{}
		for _, name := range slices.Sorted(maps.Keys(b.files)) {
			if ext := filepath.Ext(name); ext == ".sst" && kinds[ext] && !testenv.Long() {
				continue // one table is like the other
			}
			kinds[filepath.Ext(name)] = true
			for i, d := range damages {
				if !closed && !testenv.Long() && rnd.IntN(4) > 0 {
					continue
				}
				broken := d.do(b.files[name], rand.New(rand.NewPCG(seed, uint64(i))))
				what := fmt.Sprintf("%s %s, closed %v", name, d.name, closed)
				within(t, func() string { return what }, func() {
					err := b.look(t.Context(), b.write(t, name, broken), b.moment)
					if err := judge(name, err, closed); err != nil {
						t.Errorf("%s: %v", what, err)
					}
				})
			}
		}
	}
}

// judge decides whether a store with a damaged file did what it should. Without a
// seal it is unknown whether the log or the list of files has always ended there,
// as after a crash, and a broken list makes tables look as if they were missing.
func judge(name string, err error, closed bool) error {
	_, violated := errors.AsType[violation](err)
	ends := !closed && (strings.HasSuffix(name, ".log") || strings.HasPrefix(name, "MANIFEST-"))
	named := strings.TrimSuffix(name, ".sst") // Pebble has only the number, now and then
	if strings.HasPrefix(name, "marker.") {
		named = strings.Join(strings.Split(name, ".")[:2], ".") // the rest of the name of a missing file is unknown
	}
	switch {
	case err == nil, violated && ends:
		return nil
	case violated, name == journalName, name == "LOCK", name == sealName:
		return err
	case !errors.Is(err, store.ErrCorrupt) && !errors.Is(err, store.ErrFormat):
		return fmt.Errorf("it is not said that it is corrupt: %w", err)
	case !strings.Contains(err.Error(), named) && !ends:
		return fmt.Errorf("the file is not named: %w", err)
	}
	return nil
}

// TestTornLog cuts the end of the log off, byte by byte, as a crash does in the middle
// of a write: the store is what it was after an earlier step of each worker.
func TestTornLog(t *testing.T) {
	t.Parallel()
	b := buildStore(t, testenv.Seed(t))
	delete(b.files, sealName)
	last := ""
	for name := range b.files {
		if strings.HasSuffix(name, ".log") && name > last {
			last = name
		}
	}
	m := *b.moment
	m.steps = nil
	for _, w := range b.load.workers {
		m.steps = append(m.steps, w.since(0))
	}
	data := b.files[last]
	for _, cut := range []int{1, 2, 7, 8, 100, 5000, len(data) / 2} {
		if err := b.look(t.Context(), b.write(t, last, data[:max(0, len(data)-cut)]), &m); err != nil {
			t.Errorf("%d bytes are cut off the %d of %s: %v", cut, len(data), last, err)
		}
	}
}

func TestJournalIsNotNeeded(t *testing.T) {
	t.Parallel()
	b := buildStore(t, testenv.Seed(t))
	data := b.files[journalName]
	if len(data) == 0 {
		t.Fatal("there is no journal to damage")
	}
	for at := 0; at < len(data); at += 13 {
		j, err := readJournal(t, flip(data, at))
		if err != nil {
			t.Fatalf("byte %d is another: %v", at, err)
		}
		if intact := at / journalEntry; len(j.at) > intact {
			t.Fatalf("byte %d is another, and %d entries are believed", at, len(j.at))
		}
	}
}

// readJournal returns what is read from a journal with that content.
func readJournal(t *testing.T, data []byte) (*journal, error) {
	t.Helper()
	dir := t.TempDir()
	if err := os.WriteFile(filepath.Join(dir, journalName), data, 0o600); err != nil {
		t.Fatal(err)
	}
	return openJournal(vfs.Default, dir, tight.journal)
}

func TestOtherFormats(t *testing.T) {
	t.Parallel()
	foreign := *pebble.DefaultComparer
	foreign.Name = "foreign"
	for _, tt := range []struct {
		name string
		make func(t *testing.T, dir string)
		want error
		text []string
	}{
		{"another version", func(t *testing.T, dir string) {
			writeRaw(t, dir, &pebble.Options{Comparer: comparer}, map[string]string{string(metaFormat): "99"})
		}, store.ErrFormat, []string{"format 99", "of format " + strconv.Itoa(formatVersion)}},
		{"a database of a later format that this program must not work on", func(t *testing.T, dir string) {
			writeRaw(t, dir, &pebble.Options{Comparer: comparer}, map[string]string{string(metaFormat): "99", string(metaOldest): strconv.Itoa(formatVersion + 1)})
		}, store.ErrFormat, []string{"format 99", "oldest reader is a program of format " + strconv.Itoa(formatVersion+1)}},
		{"a database whose format is no number", func(t *testing.T, dir string) {
			writeRaw(t, dir, &pebble.Options{Comparer: comparer}, map[string]string{string(metaFormat): "x"})
		}, store.ErrCorrupt, []string{`format "x"`}},
		{"a database whose oldest reader is no number", func(t *testing.T, dir string) {
			writeRaw(t, dir, &pebble.Options{Comparer: comparer}, map[string]string{string(metaFormat): "99", string(metaOldest): "-1"})
		}, store.ErrCorrupt, []string{`oldest reader "-1"`}},
		{"no version", func(t *testing.T, dir string) {
			writeRaw(t, dir, &pebble.Options{Comparer: comparer}, map[string]string{"a": "b"})
		}, store.ErrFormat, []string{"not a directory of Abide"}},
		{"another database", func(t *testing.T, dir string) {
			writeRaw(t, dir, &pebble.Options{Comparer: &foreign}, map[string]string{"a": "b"})
		}, store.ErrFormat, []string{"not a directory of Abide"}},
		{"an old database", func(t *testing.T, dir string) {
			writeFile(t, filepath.Join(dir, "CURRENT"), "MANIFEST-000001\n")
			writeFile(t, filepath.Join(dir, "OPTIONS-000002"), "[Version]\n")
		}, store.ErrFormat, []string{"not a directory of Abide"}},
		{"a file", func(t *testing.T, dir string) {
			if err := os.Remove(dir); err != nil {
				t.Fatal(err)
			}
			writeFile(t, dir, "not a directory")
		}, syscall.ENOTDIR, []string{"make directory"}},
	} {
		t.Run(tt.name, func(t *testing.T) {
			t.Parallel()
			dir := t.TempDir()
			tt.make(t, dir)
			for range 2 { // and the directory is not kept
				_, err := Open(t.Context(), dir, Options{Clock: base.NewManual(start), Logger: quiet()})
				if !errors.Is(err, tt.want) {
					t.Fatalf("open: %v, want %v", err, tt.want)
				}
				for _, text := range append(tt.text, dir) {
					if !strings.Contains(err.Error(), text) {
						t.Errorf("%q does not say %q", err, text)
					}
				}
			}
		})
	}
}

// writeRaw makes a database that no store has made.
func writeRaw(t *testing.T, dir string, o *pebble.Options, values map[string]string) {
	t.Helper()
	o.Logger = pebbleLogger{quiet(), func(error) {}}
	db, err := pebble.Open(dir, o)
	if err != nil {
		t.Fatal(err)
	}
	for k, v := range values {
		if err := db.Set([]byte(k), []byte(v), pebble.Sync); err != nil {
			t.Fatal(err)
		}
	}
	if err := db.Close(); err != nil {
		t.Fatal(err)
	}
}

func writeFile(t *testing.T, name, text string) {
	t.Helper()
	if err := os.WriteFile(name, []byte(text), 0o600); err != nil {
		t.Fatal(err)
	}
}

// TestLaterFormat: a store of a later format is opened if its oldest reader is not newer
// than this program, and keeps its format.
func TestLaterFormat(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	later := map[string]string{string(metaFormat): "99", string(metaOldest): strconv.Itoa(formatVersion), "\xfa": "of that format"}
	writeRaw(t, dir, &pebble.Options{Comparer: comparer}, later)
	for range 2 {
		s, err := Open(t.Context(), dir, Options{Clock: base.NewManual(start), Logger: quiet(), tune: small})
		if err != nil {
			t.Fatal(err)
		}
		for key, want := range later {
			v, closer, err := s.db.Get([]byte(key))
			if err != nil || string(v) != want {
				t.Errorf("%x is %q, %v, want %q", key, v, err, want)
			}
			if err := closer.Close(); err != nil {
				t.Fatal(err)
			}
		}
		if err := s.Close(); err != nil {
			t.Fatal(err)
		}
	}
}
