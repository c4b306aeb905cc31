package console

import (
	"encoding/json"
	"fmt"
	"io"
	"os"
	"slices"
	"strings"
	"time"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"

	"github.com/abidehq/abide/server/api"
)

// duration is the value of a flag: 90s, 15m, or a plain number of seconds.
type duration time.Duration

var _ pflag.Value = (*duration)(nil)

// DurationVar adds a flag whose value is a duration, or a number of seconds.
func DurationVar(f *pflag.FlagSet, d *time.Duration, name string, value time.Duration, help string) {
	*d = value
	f.Var((*duration)(d), name, help)
}

// Set reads it.
func (d *duration) Set(text string) error {
	parsed, err := api.ParseDuration(text)
	*d = duration(parsed)
	return err
}

// String writes it; nothing if it is zero, so that the help shows no default then.
func (d *duration) String() string {
	if *d == 0 {
		return ""
	}
	return Readable(time.Duration(*d))
}

// Type is what the help calls it.
func (d *duration) Type() string { return "duration" }

// TimeHelp is what the help says about times.
const TimeHelp = `Times are 2026-11-15T09:00:00Z, 2026-11-15T09:00:00+01:00, "2026-11-15 09:00" or 2026-11-15
in the local zone, now, or how far from now: +10m, -24h.`

// ParseTime reads the time that a flag gives; zero if it is not given. Zone is that of times
// which do not name one.
func ParseTime(flag, text string, now time.Time, zone *time.Location) (time.Time, error) {
	if text == "" {
		return time.Time{}, nil
	}
	t, err := api.ParseTime(text, now, zone)
	if err != nil {
		return t, Usage("--%s is %w", flag, err)
	}
	return t, nil
}

// ReadPayload returns the JSON that --payload gives.
func ReadPayload(cmd *cobra.Command, text string) (json.RawMessage, error) {
	return ReadJSON(cmd, "payload", text)
}

// ReadJSON returns the JSON that a flag gives, or that of the file that it names after an @.
func ReadJSON(cmd *cobra.Command, flag, text string) (json.RawMessage, error) {
	data := []byte(text)
	if name, isFile := strings.CutPrefix(text, "@"); isFile {
		var err error
		if name == "-" {
			data, err = io.ReadAll(cmd.InOrStdin())
		} else {
			data, err = os.ReadFile(name)
		}
		if err != nil {
			return nil, Usage("--%s: %w", flag, err)
		}
		if len(data) == 0 {
			return nil, Usage("--%s is %s, which is empty", flag, text)
		}
	}
	if len(data) > 0 && !json.Valid(data) {
		return nil, Usage("--%s is not JSON; text is written with quotes: '\"text\"'", flag)
	}
	return data, nil
}

// OneArg is for commands that take one argument.
func OneArg(what string) cobra.PositionalArgs {
	return func(cmd *cobra.Command, args []string) error {
		if len(args) == 0 {
			return Usage("%q needs %s", cmd.CommandPath(), what)
		}
		if len(args) > 1 {
			return Usage("%q takes one argument, %s; got %s", cmd.CommandPath(), what, fmt.Sprintf("%q", args))
		}
		return nil
	}
}

// SomeArgs is for commands that take one argument or more.
func SomeArgs(what string) cobra.PositionalArgs {
	return func(cmd *cobra.Command, args []string) error {
		if len(args) == 0 {
			return Usage("%q needs %s", cmd.CommandPath(), what)
		}
		return nil
	}
}

// TwoArgs is for commands that take two arguments.
func TwoArgs(first, second string) cobra.PositionalArgs {
	return func(cmd *cobra.Command, args []string) error {
		if len(args) != 2 {
			return Usage("%q needs %s and %s; got %d arguments", cmd.CommandPath(), first, second, len(args))
		}
		return nil
	}
}

// MaybeArg is for commands that take one argument or none.
func MaybeArg(what string) cobra.PositionalArgs {
	return func(cmd *cobra.Command, args []string) error {
		if len(args) > 1 {
			return Usage("%q takes one argument at most, %s; got %q", cmd.CommandPath(), what, args)
		}
		return nil
	}
}

// Group makes cmd a command that only holds others: alone it shows its help.
func Group(cmd *cobra.Command, verbs ...*cobra.Command) *cobra.Command {
	cmd.AddCommand(verbs...)
	cmd.Args = cobra.ArbitraryArgs
	cmd.RunE = func(cmd *cobra.Command, args []string) error {
		if len(args) == 0 {
			return cmd.Help()
		}
		var names []string
		for _, verb := range cmd.Commands() {
			if verb.IsAvailableCommand() {
				names = append(names, verb.Name())
			}
		}
		return Usage("unknown command %q for %q; known are: %s", args[0], cmd.CommandPath(), strings.Join(names, ", "))
	}
	return cmd
}

// NoArgs is for commands that take flags alone.
func NoArgs(cmd *cobra.Command, args []string) error {
	if len(args) > 0 {
		return Usage("%q takes no arguments, only flags; got %q", cmd.CommandPath(), args[0])
	}
	return nil
}

// ListOf returns words for people.
func ListOf[T ~string](words []T) string {
	texts := make([]string, len(words))
	for i, word := range words {
		texts[i] = string(word)
	}
	return strings.Join(texts, ", ")
}

// OneOf returns the values of a flag, each of which must be one of those that are known.
func OneOf[T ~string](what string, texts []string, known []T) ([]T, error) {
	var values []T
	for _, text := range texts {
		if !slices.Contains(known, T(text)) {
			return nil, Usage("unknown %s %q; known are: %s", what, text, ListOf(known))
		}
		values = append(values, T(text))
	}
	return values, nil
}
