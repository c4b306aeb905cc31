package check_test

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/abidehq/abide/internal/check"
)

// failures is a test that keeps what is reported.
type failures struct {
	testing.TB
	texts []string
}

func (*failures) Helper() {}

func (f *failures) Errorf(format string, args ...any) {
	f.texts = append(f.texts, fmt.Sprintf(format, args...))
}

func (f *failures) Error(args ...any) { f.texts = append(f.texts, fmt.Sprint(args...)) }

func (f *failures) Fatal(args ...any) { f.Error(args...) }

var errWanted = errors.New("pkg: wanted")

// private has a field that other packages cannot see.
type private struct {
	at   time.Time
	list []int
}

// TestAssertions: each reports what it should, and nothing else.
func TestAssertions(t *testing.T) {
	t.Parallel()
	noon := time.Date(2026, 3, 1, 12, 0, 0, 0, time.UTC)
	elsewhere := noon.In(time.FixedZone("elsewhere", 3600))
	decode := func(data []byte) error {
		switch {
		case len(data) < 3:
			return errWanted
		case data[0] != 1:
			return fmt.Errorf("format %d: %w", data[0], errWanted)
		}
		return nil
	}
	for name, tt := range map[string]struct {
		run  func(t testing.TB)
		want int // failures
	}{
		"ok":                          {func(t testing.TB) { check.OK(t, nil) }, 0},
		"not ok":                      {func(t testing.TB) { check.OK(t, errWanted) }, 1},
		"equal":                       {func(t testing.TB) { check.Equal(t, "n", 1, 1) }, 0},
		"unequal":                     {func(t testing.TB) { check.Equal(t, "n", 1, 2) }, 1},
		"the same instant":            {func(t testing.TB) { check.Equal(t, "p", private{at: noon}, private{at: elsewhere}) }, 0},
		"the same instant, by zone":   {func(t testing.TB) { check.Equal(t, "p", private{at: noon}, private{at: elsewhere}, check.Zone) }, 1},
		"unequal unexported fields":   {func(t testing.TB) { check.Equal(t, "p", private{list: []int{1}}, private{list: []int{2}}) }, 1},
		"nil and empty":               {func(t testing.TB) { check.Equal(t, "p", private{}, private{list: []int{}}) }, 1},
		"error":                       {func(t testing.TB) { check.ErrorOf(t, "pkg", errWanted, errWanted, "want") }, 0},
		"another error":               {func(t testing.TB) { check.Error(t, errors.New("other"), errWanted) }, 1},
		"no error":                    {func(t testing.TB) { check.Error(t, nil, errWanted) }, 1},
		"no error, as wanted":         {func(t testing.TB) { check.Error(t, nil, nil) }, 0},
		"error with another text":     {func(t testing.TB) { check.Error(t, errWanted, errWanted, "nothing") }, 1},
		"error of two lines":          {func(t testing.TB) { check.ErrorOf(t, "a", fmt.Errorf("a: b\n%w", errWanted), errWanted) }, 1},
		"error of another package":    {func(t testing.TB) { check.ErrorOf(t, "other", errWanted, errWanted) }, 1},
		"format":                      {func(t testing.TB) { check.Format(t, "f", []byte{1, 2, 3}, decode, errWanted) }, 0},
		"format that ends too late":   {func(t testing.TB) { check.Format(t, "f", []byte{1, 2, 3, 4}, decode, errWanted) }, 1},
		"format with another version": {func(t testing.TB) { check.Format(t, "f", []byte{2, 2, 3}, decode, errWanted) }, 1},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			f := &failures{TB: t}
			tt.run(f)
			if len(f.texts) != tt.want {
				t.Errorf("%d failures %q, want %d", len(f.texts), f.texts, tt.want)
			}
		})
	}
}

func TestGolden(t *testing.T) {
	t.Parallel()
	file, bytesFile := filepath.Join(t.TempDir(), "golden.txt"), filepath.Join(t.TempDir(), "bytes.txt")
	check.OK(t, os.WriteFile(file, []byte("a\n  1\nb\n  2\n"), 0o600))
	check.GoldenTable(t, file, map[string]string{"b": "2", "a": "1"})
	check.OK(t, os.WriteFile(bytesFile, []byte("a\n  01ff\n"), 0o600))
	check.GoldenTable(t, bytesFile, map[string][]byte{"a": {1, 255}})
	f := &failures{TB: t}
	check.GoldenTable(f, file, map[string]string{"b": "2", "a": "3"})
	if len(f.texts) != 1 || !strings.Contains(f.texts[0], "golden.txt") {
		t.Errorf("failures %q, want one that names the file", f.texts)
	}
}
