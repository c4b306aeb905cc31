package cli

import (
	"time"

	"github.com/spf13/cobra"
)

// moment is a time that two flags can give.
type moment struct {
	at string
	in time.Duration
}

// addTo gives a command the flags.
func (m *moment) addTo(cmd *cobra.Command, help string) {
	cmd.Flags().StringVar(&m.at, "at", "", help)
	durationVar(cmd.Flags(), &m.in, "in", 0, "how long from now: 90s, 10m, 2h30m, or a number of seconds")
}

// needed returns the time, which must be given.
func (m *moment) needed(now time.Time) (time.Time, error) {
	at, err := parseTime("at", m.at, now, time.Local)
	switch {
	case err != nil:
		return at, err
	case m.in < 0:
		return at, usage("--in is %v, which is negative", m.in)
	case m.in > 0 && m.at != "":
		return at, usage("--at and --in exclude each other")
	case m.in > 0:
		return now.Add(m.in), nil
	case m.at == "":
		return at, usage("--at or --in is needed")
	default:
		return at, nil
	}
}

// title returns a word with a capital letter.
func title(word string) string {
	if word == "" {
		return ""
	}
	return string(word[0]-'a'+'A') + word[1:]
}
