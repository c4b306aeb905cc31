package check

import (
	"bytes"
	"errors"
	"flag"
	"fmt"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
)

// Updating reports whether golden files are rewritten instead of compared.
func Updating() bool { return *update }

var update = flag.Bool("update", false, "rewrite golden files instead of comparing with them")

// Golden compares a text with that of a file. With the flag -update it writes the file.
func Golden(t testing.TB, file, got string) {
	t.Helper()
	if *update {
		OK(t, os.MkdirAll(filepath.Dir(file), 0o755))
		OK(t, os.WriteFile(file, []byte(got), 0o644))
	}
	want, err := os.ReadFile(file)
	OK(t, err)
	Equal(t, file, got, string(want))
}

// GoldenTable is [Golden] for a table of examples, by name. Bytes are written in hex.
func GoldenTable[T string | []byte](t testing.TB, file string, rows map[string]T) {
	t.Helper()
	var text strings.Builder
	for _, name := range slices.Sorted(maps.Keys(rows)) {
		verb := "%s"
		if _, isText := any(rows[name]).(string); !isText {
			verb = "%x"
		}
		fmt.Fprintf(&text, "%s\n  "+verb+"\n", name, rows[name])
	}
	Golden(t, file, text.String())
}

// Format checks a decoder of a format whose first byte is its version, 1: it decodes data,
// refuses other versions with an error that matches target and names them, and refuses
// every shorter prefix of data.
func Format(t testing.TB, what string, data []byte, decode func([]byte) error, target error) {
	t.Helper()
	if err := decode(data); err != nil {
		t.Errorf("%s: %v", what, err)
	}
	for _, version := range []byte{0, 2, 255} {
		err := decode(append([]byte{version}, data[1:]...))
		if !errors.Is(err, target) || !strings.Contains(err.Error(), fmt.Sprintf("format %d", version)) {
			t.Errorf("%s of format %d: %v", what, version, err)
		}
	}
	for n := range data {
		if decode(data[:n]) == nil {
			t.Errorf("the first %d bytes of a %s are decoded", n, what)
		}
	}
}

// RoundTrip checks that what decode reads of data is encoded and decoded again to the same bytes.
// Data that decode refuses is fine.
func RoundTrip[T any](t testing.TB, data []byte, decode func([]byte) (T, error), encode func(T) []byte) {
	t.Helper()
	v, err := decode(data)
	if err != nil {
		return
	}
	first := encode(v)
	again, err := decode(first)
	if err != nil {
		t.Fatalf("%q was decoded, and %q is not: %v", data, first, err)
	}
	if second := encode(again); !bytes.Equal(first, second) {
		t.Errorf("%q was decoded, encoded as %q and then as %q", data, first, second)
	}
}
