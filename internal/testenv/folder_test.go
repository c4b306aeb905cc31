//go:build unix

package testenv

import (
	"bufio"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/abidehq/abide/internal/check"
)

// isThere reports whether a file or a folder is there.
func isThere(path string) bool {
	_, err := os.Stat(path)
	return !errors.Is(err, os.ErrNotExist)
}

func TestFoldersThatWereLeftAreRemoved(t *testing.T) {
	t.Parallel()
	parent := t.TempDir()
	add := func(name string, age time.Duration) string {
		t.Helper()
		folder := filepath.Join(parent, name)
		lock := filepath.Join(folder, "lock")
		at := time.Now().Add(-age)
		check.OK(t, errors.Join(os.Mkdir(folder, 0o700), os.WriteFile(lock, nil, 0o600), os.Chtimes(lock, at, at)))
		return folder
	}
	left := add("abide-kind-left", time.Hour)
	young := add("abide-kind-young", 0)
	other := add("abide-other-left", time.Hour)
	used, err := newFolder("kind", nil)
	check.OK(t, err)
	t.Cleanup(func() {
		if err := used.remove(); err != nil || isThere(used.path) {
			t.Errorf("a folder that was removed is there: %v", err)
		}
	})
	old := time.Now().Add(-time.Hour)
	check.OK(t, os.Chtimes(used.lock.Name(), old, old))
	removeLeft(parent, "kind")
	removeLeft(filepath.Dir(used.path), "kind")
	for path, want := range map[string]bool{left: false, young: true, other: true, used.path: true} {
		if got := isThere(path); got != want {
			t.Errorf("%s is there: %v, want %v", filepath.Base(path), got, want)
		}
	}
}

func TestFoldersAreOpenToOthers(t *testing.T) {
	t.Parallel()
	within := t.TempDir()
	check.OK(t, os.Chmod(within, 0o700))
	if got, err := openToAll(within, "/"); err != nil || (os.Geteuid() == 0 && got != "/") {
		t.Errorf("of one that is ours alone and one that is not: %s, %v", got, err)
	}
	if got, err := openToAll(filepath.Join(within, "missing")); err == nil {
		t.Errorf("of none: %s", got)
	}
}

// roleKilled is the environment variable with which this test starts itself as a process
// that is killed.
const roleKilled = "ABIDE_TESTENV_KILLED"

// TestKilledChild is not a test: it is what the process does that is killed.
func TestKilledChild(t *testing.T) {
	if os.Getenv(roleKilled) == "" {
		return // nobody has started it
	}
	p := SharedPostgres(t).postgres
	fmt.Println("running", p.process.cmd.Process.Pid, p.folder.path, template.what.folder.path)
	select {}
}

// TestServersEndWithAProcessThatIsKilled: nobody cleans up then.
func TestServersEndWithAProcessThatIsKilled(t *testing.T) {
	t.Parallel()
	self, err := os.Executable()
	check.OK(t, err)
	child := exec.CommandContext(t.Context(), self, "-test.run=^TestKilledChild$", "-test.timeout=2m")
	child.Env = append(os.Environ(), roleKilled+"=yes")
	child.Stderr = os.Stderr
	stdout, err := child.StdoutPipe()
	check.OK(t, err)
	check.OK(t, child.Start())
	var pid int
	var paths [2]string
	for lines := bufio.NewScanner(stdout); pid == 0 && lines.Scan(); {
		if strings.HasPrefix(lines.Text(), "running ") {
			if _, err := fmt.Sscanf(lines.Text(), "running %d %s %s", &pid, &paths[0], &paths[1]); err != nil {
				t.Fatal(err)
			}
		}
	}
	if pid == 0 || !isPostgres(pid) {
		t.Fatalf("process %d is not a server", pid)
	}
	check.OK(t, child.Process.Kill())
	_ = child.Wait() // it was killed
	if !waitFor(func() bool { return !isPostgres(pid) }) {
		t.Error("the server outlives the process that started it")
	}
	// The next process that makes such a folder removes what is left.
	old := time.Now().Add(-time.Hour)
	for _, path := range paths {
		check.OK(t, os.Chtimes(filepath.Join(path, "lock"), old, old))
	}
	next, err := newFolder("postgres", nil)
	check.OK(t, err)
	defer func() {
		if err := next.remove(); err != nil {
			t.Error(err)
		}
	}()
	for _, path := range paths {
		if isThere(path) {
			t.Errorf("%s is left", path)
		}
	}
}
