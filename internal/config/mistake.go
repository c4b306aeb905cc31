package config

import (
	"fmt"
	"strings"
)

// Mistake is something in a configuration that cannot be.
type Mistake struct {
	// Key is what it is called: sinks[0].url, for example. It is empty if the file as a
	// whole cannot be read.
	Key string

	// Value is what it is, masked if it may be secret, and empty if it is missing.
	Value string

	// Where says where it came from: a flag, a variable, a line of the file.
	Where string

	// Why says what is wrong with it, and what is allowed.
	Why string
}

// Error says all of it in one line.
func (m *Mistake) Error() string {
	var b strings.Builder
	if m.Where != "" {
		fmt.Fprintf(&b, "%s: ", m.Where)
	}
	b.WriteString(m.Key)
	if m.Value != "" {
		if m.Key != "" {
			b.WriteString(" is ")
		}
		fmt.Fprintf(&b, "%.200q; ", m.Value)
	} else if m.Key != "" {
		b.WriteString(": ")
	}
	b.WriteString(m.Why)
	return b.String()
}

// Mistakes are all that were found.
type Mistakes []*Mistake

// Error has a line for each.
func (m Mistakes) Error() string {
	if len(m) == 1 {
		return "configuration: " + m[0].Error()
	}
	var b strings.Builder
	fmt.Fprintf(&b, "the configuration has %d mistakes:", len(m))
	for _, mistake := range m {
		b.WriteString("\n  " + mistake.Error())
	}
	return b.String()
}
