package console

import (
	"bytes"
	"errors"
	"log/slog"
	"strings"
	"testing"

	"github.com/lmittmann/tint"
)

// TestLogsForATerminalHaveNoEscapesFromOutside, neither in texts nor in what prints as one.
func TestLogsForATerminalHaveNoEscapesFromOutside(t *testing.T) {
	t.Parallel()
	var out bytes.Buffer
	log := slog.New(tint.NewTextHandler(&out, &tint.Options{NoColor: true, ReplaceAttr: forTerminal}))
	const evil = "\x1b]0;owned\a\x1b[2J\u009b31m"
	log.Info("audit "+evil, "target", evil, "error", errors.New(evil), "list", []string{evil}, slog.Group("g", "inner", evil), "n", 7)
	text := out.String()
	for _, c := range []string{"\x1b", "\a", "\u009b"} {
		if strings.Contains(text, c) {
			t.Errorf("%q reaches the terminal: %q", c, text)
		}
	}
	for _, want := range []string{"INF", "owned", "n=7", "g.inner="} {
		if !strings.Contains(text, want) {
			t.Errorf("%q does not say %q", text, want)
		}
	}
}
