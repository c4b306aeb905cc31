package cli

import (
	"fmt"
	"io"
	"log/slog"
	"os"
	"time"

	"github.com/lmittmann/tint"
	"github.com/spf13/cobra"
)

// logs is how a command that goes on says what happens.
type logs struct {
	format string
	level  string
}

// addTo gives a command the flags of its log.
func (l *logs) addTo(cmd *cobra.Command) {
	cmd.Flags().StringVar(&l.format, "log-format", "text", "how to log, to standard error: text or json")
	cmd.Flags().StringVar(&l.level, "log-level", "info", "from which level on: debug, info, warn or error")
}

// open returns the logger that the flags ask for.
func (l *logs) open(w io.Writer) (*slog.Logger, error) {
	var level slog.Level
	if err := level.UnmarshalText([]byte(l.level)); err != nil {
		return nil, usage("unknown log level %q; known are: debug, info, warn, error", l.level)
	}
	options := &slog.HandlerOptions{Level: level}
	switch {
	case l.format == "json":
		return slog.New(slog.NewJSONHandler(w, options)), nil
	case l.format != "text":
		return nil, usage("unknown log format %q; known are: text, json", l.format)
	case isTerminal(w):
		return slog.New(tint.NewTextHandler(w, &tint.Options{Level: level, TimeFormat: time.TimeOnly, NoColor: !colours(w), ReplaceAttr: forTerminal})), nil
	default:
		return slog.New(slog.NewTextHandler(w, options)), nil
	}
}

// forTerminal takes out of a value what a terminal would obey: what is logged comes from
// outside too, and a handler for terminals writes it as it is.
func forTerminal(_ []string, a slog.Attr) slog.Attr {
	a.Value = a.Value.Resolve()
	switch a.Value.Kind() {
	case slog.KindString:
		a.Value = slog.StringValue(printable(a.Value.String()))
	case slog.KindAny:
		if _, isLevel := a.Value.Any().(slog.Level); !isLevel {
			a.Value = slog.StringValue(printable(fmt.Sprint(a.Value.Any())))
		}
	}
	return a
}

// colours reports whether to print to w in colours.
func colours(w io.Writer) bool { return isTerminal(w) && os.Getenv("NO_COLOR") == "" }
