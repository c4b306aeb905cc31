package console

import (
	"time"

	"github.com/spf13/cobra"

	"github.com/abidehq/abide/internal/base"
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

// Period is a range of time that the flags --from and --to give.
type Period struct{ from, to string }

// AddTo gives a command the flags.
func (p *Period) AddTo(cmd *cobra.Command, fromHelp, toHelp string) {
	cmd.Flags().StringVar(&p.from, "from", "", fromHelp)
	cmd.Flags().StringVar(&p.to, "to", "", toHelp)
}

// Bounded reports whether both flags are given.
func (p *Period) Bounded() bool { return p.from != "" && p.to != "" }

// Parse returns the bounds. One that is not given is zero.
func (p *Period) Parse() (from, to time.Time, err error) {
	now := base.System{}.Now()
	if from, err = ParseTime("from", p.from, now, time.Local); err != nil {
		return from, to, err
	}
	to, err = ParseTime("to", p.to, now, time.Local)
	return from, to, err
}

// TenantOrAll returns tenant, or nothing if the flag --all-tenants is given, which excludes
// --tenant.
func TenantOrAll(cmd *cobra.Command, tenant string, all bool) (string, error) {
	switch {
	case !all:
		return tenant, nil
	case cmd.Flags().Changed("tenant"):
		return "", Usage("--tenant and --all-tenants exclude each other")
	default:
		return "", nil
	}
}

// Title returns a word with a capital letter.
func Title(word string) string {
	if word == "" {
		return ""
	}
	return string(word[0]-'a'+'A') + word[1:]
}
