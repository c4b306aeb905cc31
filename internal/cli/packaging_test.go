package cli

import (
	"encoding/json"
	"os"
	"regexp"
	"strings"
	"testing"

	"github.com/spf13/cobra"

	"github.com/abidehq/abide/internal/config"
)

func readPackaging(t *testing.T, name string) string {
	t.Helper()
	data, err := os.ReadFile("../../packaging/" + name)
	if err != nil {
		t.Fatal(err)
	}
	return string(data)
}

// checkCommand reports whether there is a command with such flags.
func checkCommand(t *testing.T, args []string) {
	t.Helper()
	cmd, rest, err := newRoot().Find(args)
	if err != nil {
		t.Errorf("%q: %v", args, err)
		return
	}
	if cmd.Run == nil && cmd.RunE == nil || cmd.HasSubCommands() {
		t.Errorf("%q is no command that does something", args)
	}
	cmd.RunE = func(*cobra.Command, []string) error { return nil }
	if err := cmd.ParseFlags(rest); err != nil {
		t.Errorf("%q: %v", args, err)
	}
}

// instruction returns the arguments of an instruction of the Dockerfile, in its JSON form.
func instruction(t *testing.T, file, pattern string) []string {
	t.Helper()
	m := regexp.MustCompile(`(?m)^` + pattern + ` (\[.*\])$`).FindStringSubmatch(file)
	if m == nil {
		t.Fatalf("the Dockerfile has no %s", pattern)
	}
	var args []string
	if err := json.Unmarshal([]byte(m[1]), &args); err != nil {
		t.Fatalf("%s: %v", m[0], err)
	}
	return args
}

// TestTheDockerfileRunsWhatThereIs: its commands exist, its variables are known, its files
// come from somewhere, and it refuses to listen for everybody without auth.
func TestTheDockerfileRunsWhatThereIs(t *testing.T) {
	t.Parallel()
	file := readPackaging(t, "Dockerfile")
	entry := instruction(t, file, "ENTRYPOINT")
	if len(entry) != 1 || entry[0] != "/abide" {
		t.Errorf("it begins with %q", entry)
	}
	checkCommand(t, instruction(t, file, "CMD"))
	health := instruction(t, file, `HEALTHCHECK .* CMD`)
	if health[0] != entry[0] {
		t.Errorf("its health is checked with %q", health)
	}
	checkCommand(t, health[1:])
	variables := strings.Fields(regexp.MustCompile(`(?m)^ENV (.*)$`).FindStringSubmatch(file)[1])
	empty := t.TempDir() + "/abide.yaml"
	if err := os.WriteFile(empty, nil, 0o600); err != nil {
		t.Fatal(err)
	}
	_, err := config.Load(config.Source{File: empty, Environ: variables})
	if err == nil || !strings.Contains(err.Error(), "addr") || strings.Contains(err.Error(), "mistakes") {
		t.Errorf("without auth: %v", err)
	}
	loaded, err := config.Load(config.Source{File: empty, Environ: append(variables, "ABIDE_AUTH_ADMIN_TOKEN=0123456789abcdef")})
	if err != nil || !strings.HasPrefix(loaded.Store.Reveal(), "/data/") {
		t.Errorf("with auth: %v", err)
	}
	for _, want := range []string{"CGO_ENABLED=0", "\nUSER 65532", "\nVOLUME /data\n", "./cmd/abide", "\nEXPOSE 7171\n"} {
		if !strings.Contains(file, want) {
			t.Errorf("it has no %q", want)
		}
	}
}

// TestTheUnitRunsWhatThereIs.
func TestTheUnitRunsWhatThereIs(t *testing.T) {
	t.Parallel()
	unit := readPackaging(t, "abide.service")
	start := regexp.MustCompile(`(?m)^ExecStart=/usr/local/bin/abide (.*)$`).FindStringSubmatch(unit)
	if start == nil {
		t.Fatal("it starts nothing")
	}
	checkCommand(t, strings.Fields(start[1]))
	if !strings.Contains(start[1], "/var/lib/abide/") || !strings.Contains(unit, "\nStateDirectory=abide\n") {
		t.Error("the store is not where the service can write")
	}
	for _, want := range []string{"\nType=notify\n", "\nNoNewPrivileges=yes\n", "\nProtectSystem=strict\n", "kill -HUP"} {
		if !strings.Contains(unit, want) {
			t.Errorf("it has no %q", want)
		}
	}
	// The user that systemd makes cannot read a file of root: it is handed over.
	if !strings.Contains(start[1], "--config %d/config ") || !strings.Contains(unit, "\nLoadCredential=config:/etc/abide/abide.yaml\n") {
		t.Errorf("the service cannot read its configuration: %s", start[1])
	}
	if !strings.Contains(unit, "\nDynamicUser=yes\n") || !strings.Contains(unit, "install -D -m 600 abide.yaml /etc/abide/abide.yaml") {
		t.Error("the configuration is not installed for root alone")
	}
	line := regexp.MustCompile(`^(|#.*|\[[A-Z][a-z]+\]|[A-Z][A-Za-z]+=.*)$`)
	for _, name := range []string{"abide.service", "abide.socket"} {
		for text := range strings.SplitSeq(readPackaging(t, name), "\n") {
			if !line.MatchString(text) {
				t.Errorf("%s: %q is no line of a unit", name, text)
			}
		}
	}
	if !strings.Contains(readPackaging(t, "abide.socket"), "ListenStream=127.0.0.1:7171") {
		t.Error("the socket is another port")
	}
}
