package transfer_test

import (
	"bufio"
	"context"
	"fmt"
	"io"
	"os"
	"os/exec"
	"strings"
	"testing"

	"github.com/abidehq/abide/internal/check"
	"github.com/abidehq/abide/internal/transfer"
	"github.com/abidehq/abide/store"
	"github.com/abidehq/abide/store/pebblestore"
)

// envCopier makes the test binary a process that copies: it holds the two folders.
const envCopier = "ABIDE_TEST_COPIER"

func TestMain(m *testing.M) {
	if folders := os.Getenv(envCopier); folders != "" {
		if err := copier(folders); err != nil {
			fmt.Println("error:", err)
			os.Exit(1)
		}
		os.Exit(0)
	}
	os.Exit(m.Run())
}

// copier copies a folder into another. Each time it has come a step further it says so, and
// waits until it is told to go on.
func copier(folders string) error {
	from, to, _ := strings.Cut(folders, "\n")
	ctx := context.Background()
	source, err := pebblestore.Open(ctx, from, pebblestore.Options{})
	if err != nil {
		return err
	}
	target, err := pebblestore.Open(ctx, to, pebblestore.Options{})
	if err != nil {
		return err
	}
	in := bufio.NewReader(os.Stdin)
	c := transfer.Copy{From: source, To: target, Source: from, Progress: func(p transfer.Progress) {
		fmt.Println(p.Stage, p.Done)
		_, _ = in.ReadByte()
	}}
	report, err := c.Run(ctx)
	if err != nil {
		return err
	}
	fmt.Println("done", report.Resumed, report.Total.Same())
	if err := target.Close(); err != nil {
		return err
	}
	return source.Close()
}

// process is a copier.
type process struct {
	t     *testing.T
	cmd   *exec.Cmd
	in    io.WriteCloser
	lines *bufio.Scanner
}

func startCopier(t *testing.T, from, to string) *process {
	t.Helper()
	exe, err := os.Executable()
	check.OK(t, err)
	cmd := exec.CommandContext(t.Context(), exe)
	cmd.Env = append(os.Environ(), envCopier+"="+from+"\n"+to)
	in, err := cmd.StdinPipe()
	check.OK(t, err)
	out, err := cmd.StdoutPipe()
	check.OK(t, err)
	check.OK(t, cmd.Start())
	return &process{t, cmd, in, bufio.NewScanner(out)}
}

// line returns the next line that the copier says, or nothing if it has ended.
func (p *process) line() string {
	if !p.lines.Scan() {
		return ""
	}
	return p.lines.Text()
}

func (p *process) goOn() { _, _ = p.in.Write([]byte{'\n'}) }

func (p *process) kill() {
	p.t.Helper()
	check.OK(p.t, p.cmd.Process.Kill())
	_ = p.cmd.Wait() // it was killed
}

// TestACopySurvivesKill kills the process that copies again and again: while it waits after
// a step, and in the middle of the next one.
func TestACopySurvivesKill(t *testing.T) {
	t.Parallel()
	from, to := t.TempDir(), t.TempDir()
	fillFolder(t, from)
	kills := 0
	for round := 0; ; round++ {
		p := startCopier(t, from, to)
		copied := 0
		line := p.line()
		for ; line != "" && !strings.HasPrefix(line, "done"); line = p.line() {
			if strings.HasPrefix(line, "error") {
				t.Fatalf("round %d: %s", round, line)
			}
			if !strings.HasPrefix(line, "rereading") {
				copied++
			}
			if copied == 2 && round < 9 {
				break
			}
			p.goOn()
		}
		if strings.HasPrefix(line, "done") {
			if line != "done true true" { // it went on with another one, and all is the same
				t.Fatalf("it ended with %q", line)
			}
			check.OK(t, p.cmd.Wait())
			break
		}
		if round%2 == 1 {
			p.goOn() // it is in the middle of something now
		}
		p.kill()
		kills++
	}
	if kills < 5 {
		t.Errorf("it was killed %d times: the test needs more parcels", kills)
	}
	a, b := openFolder(t, from), openFolder(t, to)
	if err := store.Whole(t.Context(), b); err != nil {
		t.Error(err)
	}
	sameStores(t, a, b)
	if err := b.Verify(t.Context(), func(problem string) { t.Error(problem) }); err != nil {
		t.Error(err)
	}
}

func openFolder(t *testing.T, dir string) *pebblestore.Store {
	t.Helper()
	s, err := pebblestore.Open(t.Context(), dir, pebblestore.Options{})
	check.OK(t, err)
	t.Cleanup(func() { _ = s.Close() })
	return s
}

func fillFolder(t *testing.T, dir string) {
	t.Helper()
	s := openFolder(t, dir)
	fill(t, s, 12)
	check.OK(t, s.Close())
}
