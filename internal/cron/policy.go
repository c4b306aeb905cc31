package cron

import (
	"fmt"
	"slices"
	"strings"
)

// Gap says what happens to appointments at local times that do not exist, because the
// clock was moved forward over them.
type Gap uint8

// The ways through a gap. The zero value loses nothing.
const (
	RunAfter Gap = iota // once at the first moment after the gap, however many times fell into it
	Skip                // not at all
)

var gapNames = []string{RunAfter: "run-after", Skip: "skip"}

// String returns the name by which people choose it.
func (g Gap) String() string { return nameOf(gapNames, uint8(g)) }

// MarshalText is String, so that settings can be stored and sent.
func (g Gap) MarshalText() ([]byte, error) { return []byte(g.String()), nil }

// UnmarshalText takes the name, or nothing for the default.
func (g *Gap) UnmarshalText(text []byte) error {
	i, err := byName("gap", gapNames, string(text))
	*g = Gap(i)
	return err
}

// Fold says what happens to appointments at local times that exist twice, because the
// clock was moved back over them.
type Fold uint8

// The ways through a fold. The zero value does nothing twice.
const (
	First  Fold = iota // when the clock shows the time first
	Second             // when it shows it again
	Both               // both times
)

var foldNames = []string{First: "first", Second: "second", Both: "both"}

// String returns the name by which people choose it.
func (f Fold) String() string { return nameOf(foldNames, uint8(f)) }

// MarshalText is String, so that settings can be stored and sent.
func (f Fold) MarshalText() ([]byte, error) { return []byte(f.String()), nil }

// UnmarshalText takes the name, or nothing for the default.
func (f *Fold) UnmarshalText(text []byte) error {
	i, err := byName("fold", foldNames, string(text))
	*f = Fold(i)
	return err
}

func nameOf(names []string, i uint8) string {
	if int(i) < len(names) {
		return names[i]
	}
	return fmt.Sprintf("unknown(%d)", i)
}

func byName(what string, names []string, name string) (int, error) {
	if name == "" {
		return 0, nil
	}
	i := slices.Index(names, name)
	if i < 0 {
		return 0, fmt.Errorf("cron: parse %s %q: want %s", what, name, strings.Join(names, ", "))
	}
	return i, nil
}
