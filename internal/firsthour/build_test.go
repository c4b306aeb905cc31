//go:build unix

package firsthour

import (
	"encoding/json"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"sync"
	"testing"

	"github.com/abidehq/abide/internal/check"
)

// treeVariable names the checkout under test.
const treeVariable = "ABIDE_TREE"

// programs are what the tests run.
type programs struct {
	tree   string // the checkout
	before bool   // it is one without examples/saas
	folder string
	abide  string
	saas   string
}

var built struct {
	once sync.Once
	programs
	err error
}

func TestMain(m *testing.M) {
	code := m.Run()
	if err := os.RemoveAll(built.folder); err != nil {
		fmt.Fprintln(os.Stderr, err)
		code = max(code, 1)
	}
	os.Exit(code)
}

// build returns the programs, which are built once.
func build(t *testing.T) programs {
	t.Helper()
	built.once.Do(func() { built.programs, built.err = buildAll() })
	check.OK(t, built.err)
	return built.programs
}

// here returns the root of the tree that the script is in.
func here() (string, error) { return filepath.Abs(filepath.Join("..", "..")) }

func buildAll() (programs, error) {
	root, err := here()
	if err != nil {
		return programs{}, err
	}
	p := programs{tree: root}
	if other := os.Getenv(treeVariable); other != "" {
		if p.tree, err = filepath.Abs(other); err != nil {
			return p, err
		}
	}
	_, err = os.Stat(filepath.Join(p.tree, "examples", "saas"))
	p.before = os.IsNotExist(err)
	if p.folder, err = os.MkdirTemp("", "abide-firsthour-"); err != nil {
		return p, err
	}
	p.abide, p.saas = filepath.Join(p.folder, "abide"), filepath.Join(p.folder, "saas")
	if err := p.goes("build", nil, "-ldflags=-s -w", "-o", p.abide, "./cmd/abide"); err != nil {
		return p, err
	}
	err = p.goes("build", nil, "-ldflags=-s -w", "-o", p.saas, "./examples/saas")
	return p, err
}

// overlay returns the files that are added to examples/saas.
func (p *programs) overlay(more map[string]string) (map[string]string, error) {
	root, err := here()
	if err != nil {
		return nil, err
	}
	ours, saas := filepath.Join(root, "internal", "firsthour", "testdata"), filepath.Join(p.tree, "examples", "saas")
	files := map[string]string{filepath.Join(saas, "firsthour_lab.go"): filepath.Join(ours, "lab", "lab.go")}
	files[filepath.Join(saas, "firsthour_tree.go")] = filepath.Join(ours, p.compat("tree.go"))
	if p.before {
		for _, name := range []string{"flows.go", "activities.go"} {
			files[filepath.Join(saas, name)] = filepath.Join(root, "examples", "saas", name)
		}
	}
	for name, from := range more {
		files[filepath.Join(saas, name)] = filepath.Join(ours, from)
	}
	return files, nil
}

// compat returns the path within testdata of a file that differs between trees.
func (p *programs) compat(name string) string {
	if p.before {
		return filepath.Join("before", name)
	}
	return filepath.Join("now", name)
}

// goes runs a command of Go in the tree, with more files in examples/saas.
func (p *programs) goes(command string, more map[string]string, args ...string) error {
	files, err := p.overlay(more)
	if err != nil {
		return err
	}
	text, err := json.Marshal(map[string]any{"Replace": files})
	if err != nil {
		return err
	}
	overlay, err := os.CreateTemp(p.folder, "overlay-*.json")
	if err != nil {
		return err
	}
	defer overlay.Close()
	if _, err := overlay.Write(text); err != nil {
		return err
	}
	cmd := exec.Command("go", append([]string{command, "-overlay", overlay.Name()}, args...)...)
	cmd.Dir = p.tree
	if output, err := cmd.CombinedOutput(); err != nil {
		return fmt.Errorf("go %s %v in %s: %w\n%s", command, args, p.tree, err, output)
	}
	return nil
}
