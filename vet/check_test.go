package vet_test

import (
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/abidehq/abide/internal/check"
	"github.com/abidehq/abide/vet"
)

// shop is a module with an orchestration, in files by their names. The library is
// another module, of which some things do not concern its users.
var shop = map[string]string{
	"go.mod": `module shop

go 1.26

require (
	example.com/library v0.0.0
	github.com/abidehq/abide v0.0.0
)

replace (
	example.com/library => ./library
	github.com/abidehq/abide => ./abide
)
`,
	"order.go": `package shop

import (
	"time"

	"example.com/library"
	"github.com/abidehq/abide"

	"shop/price"
)

var Order = abide.NewOrchestration("order", order)

func order(ctx abide.Context, in string) (int, error) {
	time.Sleep(1)
	library.Cached(in)
	library.Log(in)
	library.Wait(ctx)
	library.Both()
	price.Wait(ctx)
	return price.Now(), nil
}
`,
	"order_test.go": `package shop

import (
	"os"
	"testing"

	"github.com/abidehq/abide"
)

func TestOrder(t *testing.T) {
	_ = abide.NewOrchestration("test", func(ctx abide.Context, in string) (string, error) {
		return os.Getenv("X"), nil
	})
}
`,
	"price/price.go": `package price

import (
	"time"

	"github.com/abidehq/abide"
)

func Now() int { return time.Now().Second() }

func Wait(ctx abide.Context) { time.Sleep(2) }
`,
	"library/go.mod": "module example.com/library\n\ngo 1.26\n\nrequire github.com/abidehq/abide v0.0.0\n",
	"library/library.go": `package library

import (
	"fmt"
	"sync"
	"time"

	"github.com/abidehq/abide"
)

var (
	mu    sync.Mutex
	cache = map[string]string{}
)

func Cached(s string) string {
	mu.Lock()
	defer mu.Unlock()
	for k := range cache {
		cache[s] = k
		return k
	}
	return s
}

func Log(s string) { fmt.Println(s) }

func Wait(ctx abide.Context) { time.Sleep(3) }

func Both() { wait(); fmt.Println() }

func wait() { time.Sleep(4) }
`,
	"abide/go.mod": "module github.com/abidehq/abide\n\ngo 1.26\n",
}

// found are the places and parts of the messages that the module must give. What
// takes a Context is reported in its own package, if that is in the same module.
var found = []struct{ place, category, message string }{
	{"order.go:15:7", "clock", `time.Sleep uses the wall clock: use abide.Sleep (in orchestration "order")`},
	{"order.go:17:10", "io", `fmt.Println prints on every replay: use abide.Logger(ctx) (in orchestration "order", through library.Log)`},
	{"order.go:18:10", "clock", `(in orchestration "order", through library.Wait)`},
	{"order.go:19:10", "io", `(in orchestration "order", through library.Both)`},
	{"order.go:21:15", "clock", `(in orchestration "order", through price.Now)`},
	{"order_test.go:12:13", "environment", `os.Getenv depends on the process and the machine it runs on`},
	{"price/price.go:11:37", "clock", `(in Wait, which takes an abide.Context)`},
}

func TestCheck(t *testing.T) {
	t.Parallel()
	dir := writeShop(t)
	got, err := vet.Check(t.Context(), dir, "./...")
	check.OK(t, err)
	if len(got) != len(found) {
		t.Errorf("%d findings, want %d:\n%v", len(got), len(found), got)
	}
	for i, f := range got[:min(len(got), len(found))] {
		want := found[i]
		if text := f.String(); !strings.HasPrefix(text, filepath.Join(dir, want.place)+": ") ||
			!strings.Contains(text, want.message) || !strings.HasSuffix(text, " ["+want.category+"]") {
			t.Errorf("found %s, want %s: %s [%s]", text, want.place, want.message, want.category)
		}
	}
}

func TestCheckOfNothing(t *testing.T) {
	t.Parallel()
	dir := writeShop(t)
	if got, err := vet.Check(t.Context(), dir, "github.com/abidehq/abide"); err != nil || len(got) > 0 {
		t.Errorf("Check of package abide itself = %v, %v; want nothing", got, err)
	}
	if _, err := vet.Check(t.Context(), dir, "./absent"); err == nil {
		t.Error("Check of a package that does not exist gives no error")
	}
	writeFile(t, filepath.Join(dir, "price", "broken.go"), "package price\n\nvar x int = \"x\"\n")
	if _, err := vet.Check(t.Context(), dir, "./..."); err == nil || !strings.Contains(err.Error(), "broken.go:3") {
		t.Errorf("Check of a package that does not compile = %v, want the place", err)
	}
}

// TestTool runs the program in both of its ways.
func TestTool(t *testing.T) {
	t.Parallel()
	tool := filepath.Join(t.TempDir(), "abidevet")
	if out, err := exec.CommandContext(t.Context(), "go", "build", "-o", tool, "./cmd/abidevet").CombinedOutput(); err != nil {
		t.Fatalf("build the tool: %v\n%s", err, out)
	}
	dir := writeShop(t)
	for name, args := range map[string][]string{
		"go vet":     {"go", "vet", "-vettool=" + tool, "./..."},
		"standalone": {tool, "./..."},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			cmd := exec.CommandContext(t.Context(), args[0], args[1:]...)
			cmd.Dir = dir
			out, err := cmd.CombinedOutput()
			if err == nil {
				t.Error("the program succeeded although there are findings")
			}
			var lines []string
			for line := range strings.Lines(string(out)) {
				if !strings.HasPrefix(line, "#") && !strings.HasPrefix(line, "exit status") {
					lines = append(lines, strings.TrimSpace(line))
				}
			}
			check.Equal(t, "findings", len(lines), len(found))
			for _, want := range found {
				if !slices.ContainsFunc(lines, func(line string) bool {
					return strings.Contains(line, want.place+": ") && strings.Contains(line, want.message)
				}) {
					t.Errorf("%s: %s is not found", want.place, want.message)
				}
			}
			if t.Failed() {
				t.Logf("%s", out)
			}
		})
	}
}

// writeShop puts the module into a folder, beside the stub of package abide that
// the other tests use.
func writeShop(t *testing.T) string {
	t.Helper()
	dir := t.TempDir()
	for name, text := range shop {
		writeFile(t, filepath.Join(dir, name), text)
	}
	stub, err := os.ReadFile("testdata/src/github.com/abidehq/abide/abide.go")
	check.OK(t, err)
	writeFile(t, filepath.Join(dir, "abide", "abide.go"), string(stub))
	return dir
}

func writeFile(t *testing.T, name, text string) {
	t.Helper()
	check.OK(t, os.MkdirAll(filepath.Dir(name), 0o755))
	check.OK(t, os.WriteFile(name, []byte(text), 0o600))
}
