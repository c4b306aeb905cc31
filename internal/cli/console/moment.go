package console

import (
	"time"

	"github.com/spf13/cobra"
)

// Moment is a time that two flags can give.
type Moment struct {
	at string
	In time.Duration
}

// AddTo gives a command the flags.
func (m *Moment) AddTo(cmd *cobra.Command, help string) {
	cmd.Flags().StringVar(&m.at, "at", "", help)
	DurationVar(cmd.Flags(), &m.In, "in", 0, "how long from now: 90s, 10m, 2h30m, or a number of seconds")
}

// Needed returns the time, which must be given.
func (m *Moment) Needed(now time.Time) (time.Time, error) {
	at, err := ParseTime("at", m.at, now, time.Local)
	switch {
	case err != nil:
		return at, err
	case m.In < 0:
		return at, Usage("--in is %v, which is negative", m.In)
	case m.In > 0 && m.at != "":
		return at, Usage("--at and --in exclude each other")
	case m.In > 0:
		return now.Add(m.In), nil
	case m.at == "":
		return at, Usage("--at or --in is needed")
	default:
		return at, nil
	}
}

// Title returns a word with a capital letter.
func Title(word string) string {
	if word == "" {
		return ""
	}
	return string(word[0]-'a'+'A') + word[1:]
}
