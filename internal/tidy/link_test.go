package tidy

import (
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
)

// storeless are the packages that link no store and no driver: programs that talk to a server
// or use one backend do not pay for the others.
var storeless = []string{".", "abidetest/...", "action", "remote", "server/api", "store", "timer"}

// drivers are parts of import paths of backends and of what they are built on.
var drivers = []string{
	"cockroachdb/", "jackc/pgx", "modernc.org/sqlite", "zombiezen.com/go/sqlite", "redis/rueidis", "getsentry/",
	"abide/store/pebblestore", "abide/store/pgstore", "abide/store/redisstore", "abide/store/shardstore", "abide/store/sqlitestore",
}

func TestPackagesThatLinkNoStore(t *testing.T) {
	t.Parallel()
	for _, pkg := range storeless {
		for path := range strings.Lines(goCommand(t, "list", "-deps", "./"+pkg)) {
			for _, driver := range drivers {
				if strings.Contains(path, driver) {
					t.Errorf("package %s links %s", pkg, strings.TrimSpace(path))
				}
			}
		}
	}
	if deps := goCommand(t, "list", "-deps", "./store/pebblestore"); !strings.Contains(deps, drivers[0]) {
		t.Errorf("%s is not a part of the embedded store: the list of drivers is out of date", drivers[0])
	}
}

// maxWorkerBytes is the size up to which a stripped worker may grow. The build tag leaves out a page of
// gRPC's, whose templates keep the linker from dropping what is not used.
const (
	maxWorkerBytes = 13_000_000
	noTrace        = "grpcnotrace"
)

func TestAWorkerIsSmall(t *testing.T) {
	t.Parallel()
	const program = "package main\n\nimport (\n\t\"context\"\n\n\t\"" + module + "\"\n\t_ \"" + module + "/remote\"\n)\n\n" +
		"func main() { _, err := abide.Open(context.Background(), abide.Config{Store: \"abide://127.0.0.1:7172\"}); println(err) }\n"
	source := filepath.Join(t.TempDir(), "main.go")
	if err := os.WriteFile(source, []byte(program), 0o600); err != nil {
		t.Fatal(err)
	}
	for name, from := range map[string]string{"with no code": source, "of the example": "./examples/worker/run"} {
		binary := filepath.Join(t.TempDir(), "worker")
		goCommand(t, "build", "-tags", noTrace, "-trimpath", "-ldflags", "-s -w", "-o", binary, from)
		info, err := os.Stat(binary)
		if err != nil {
			t.Fatal(err)
		}
		if info.Size() > maxWorkerBytes {
			t.Errorf("the worker %s has %d bytes, at most %d are allowed", name, info.Size(), maxWorkerBytes)
		}
	}
}

// TestWorkersAreBuiltSmall: by everything that builds one, or says how.
func TestWorkersAreBuiltSmall(t *testing.T) {
	t.Parallel()
	for _, name := range []string{"Makefile", "packaging/worker.Dockerfile", "docs/workers.md"} {
		text, err := os.ReadFile(filepath.Join(root(t), name))
		if err != nil {
			t.Fatal(err)
		}
		if flags := "go build -tags " + noTrace + " -trimpath -ldflags"; !strings.Contains(string(text), flags) {
			t.Errorf("%s does not have %s", name, flags)
		}
	}
}

// goCommand runs the go command in the root of the module and returns what it prints.
func goCommand(t *testing.T, args ...string) string {
	t.Helper()
	cmd := exec.CommandContext(t.Context(), "go", args...)
	cmd.Dir = root(t)
	var stderr strings.Builder
	cmd.Stderr = &stderr
	out, err := cmd.Output()
	if err != nil {
		t.Fatalf("go %s: %v\n%s", strings.Join(args, " "), err, stderr.String())
	}
	return string(out)
}
