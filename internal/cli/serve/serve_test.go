package serve

import (
	"bytes"
	"log/slog"
	"strings"
	"testing"

	"github.com/abidehq/abide/internal/config"
	"github.com/abidehq/abide/internal/daemon"
)

// TestUnnamedConfigurationIsLogged with its path, and one that was named is not.
func TestUnnamedConfigurationIsLogged(t *testing.T) {
	t.Parallel()
	for _, unnamed := range []bool{true, false} {
		var log bytes.Buffer
		warn(slog.New(slog.NewTextHandler(&log, nil)), &config.Loaded{File: "abide.yaml", Unnamed: unnamed}, &daemon.Serving{})
		if got := strings.Contains(log.String(), "/internal/cli/serve/abide.yaml"); got != unnamed {
			t.Errorf("unnamed %v: %s", unnamed, log.String())
		}
	}
}
