package console

import (
	"fmt"
	"io"
	"log/slog"
	"os"
	"time"

	"github.com/lmittmann/tint"
	"github.com/spf13/cobra"
)

// Logs are the flags of the log of a command that keeps running.
type Logs struct {
	Format string
	Level  string
}

// AddTo gives a command the flags of its log.
func (l *Logs) AddTo(cmd *cobra.Command) {
	cmd.Flags().StringVar(&l.Format, "log-format", "text", "how to log, to standard error: text or json")
	cmd.Flags().StringVar(&l.Level, "log-level", "info", "from which level on: debug, info, warn or error")
}

// Open returns the logger that the flags ask for.
func (l *Logs) Open(w io.Writer) (*slog.Logger, error) {
	var level slog.Level
	if err := level.UnmarshalText([]byte(l.Level)); err != nil {
		return nil, Usage("unknown log level %q; known are: debug, info, warn, error", l.Level)
	}
	options := &slog.HandlerOptions{Level: level}
	switch {
	case l.Format == "json":
		return slog.New(slog.NewJSONHandler(w, options)), nil
	case l.Format != "text":
		return nil, Usage("unknown log format %q; known are: text, json", l.Format)
	case IsTerminal(w):
		return slog.New(tint.NewTextHandler(w, &tint.Options{Level: level, TimeFormat: time.TimeOnly, NoColor: !Colours(w), ReplaceAttr: forTerminal})), nil
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
		a.Value = slog.StringValue(Printable(a.Value.String()))
	case slog.KindAny:
		if _, isLevel := a.Value.Any().(slog.Level); !isLevel {
			a.Value = slog.StringValue(Printable(fmt.Sprint(a.Value.Any())))
		}
	}
	return a
}

// Colours reports whether to print to w in colours.
func Colours(w io.Writer) bool { return IsTerminal(w) && os.Getenv("NO_COLOR") == "" }
