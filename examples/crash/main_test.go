package main

import (
	"bufio"
	"errors"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/abidehq/abide"
	"github.com/abidehq/abide/history"
)

// runMain in the environment makes the test binary the program itself.
const runMain = "ABIDE_EXAMPLE_CRASH"

func TestMain(m *testing.M) {
	if os.Getenv(runMain) != "" {
		main()
		return
	}
	os.Exit(m.Run())
}

// output is what is printed if nobody kills it.
var output = []string{"boil the water", "warm the pot", "pour the tea", "tea is ready for the guest"}

func TestGoesOnAfterKill(t *testing.T) {
	t.Parallel()
	const ms = time.Millisecond
	tests := []struct {
		name  string
		kills []moment // one for each run but the last
	}{
		{"at each line", []moment{{line: output[0]}, {line: output[1]}, {line: output[2]}, {line: output[3]}}},
		{"at any time", []moment{{after: 0}, {after: 1 * ms}, {after: 5 * ms}, {after: 30 * ms}, {after: 1000 * ms}, {after: 2000 * ms}}},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			t.Parallel()
			dir, printed := t.TempDir(), 0
			for _, kill := range tt.kills {
				done := completed(t, dir)
				lines, _ := run(t, dir, &kill)
				printed = goesOn(t, lines, done, printed)
			}
			done := completed(t, dir)
			lines, err := run(t, dir, nil)
			if printed = goesOn(t, lines, done, printed); printed < len(output) || err != nil {
				t.Errorf("the last run printed %q, and ended with %v, want all up to %q", lines, err, output[3])
			}
			if again, err := run(t, dir, nil); !slices.Equal(again, output[3:]) || err != nil {
				t.Errorf("a run after the end printed %q, and ended with %v, want only %q", again, err, output[3])
			}
		})
	}
}

// goesOn checks that a run began after what was completed before it, or where the one
// before it was killed. It returns how much of the output has been printed.
func goesOn(t *testing.T, lines []string, done, printed int) int {
	t.Helper()
	for _, begin := range []int{printed - 1, printed} {
		if end := begin + len(lines); begin >= done && end <= len(output) && slices.Equal(output[begin:end], lines) {
			return max(printed, end)
		}
	}
	t.Errorf("after %d lines, and %d steps completed, a run printed %q", printed, done, lines)
	return printed
}

// moment is when to kill a process: when it has printed a line, or after a while.
type moment struct {
	line  string
	after time.Duration
}

// run runs the program in a folder until it ends or is killed, and returns what it
// printed, without the time of day.
func run(t *testing.T, dir string, kill *moment) ([]string, error) {
	t.Helper()
	cmd := exec.CommandContext(t.Context(), os.Args[0])
	cmd.Dir, cmd.Env, cmd.Stderr = dir, append(os.Environ(), runMain+"=1"), t.Output()
	stdout, err := cmd.StdoutPipe()
	if err != nil {
		t.Fatal(err)
	}
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	if kill != nil && kill.line == "" {
		defer time.AfterFunc(kill.after, func() { cmd.Process.Kill() }).Stop() //nolint:errcheck // it may have ended
	}
	var lines []string
	for out := bufio.NewScanner(stdout); out.Scan(); {
		_, line, _ := strings.Cut(out.Text(), " ")
		lines = append(lines, line)
		if kill != nil && kill.line == line {
			cmd.Process.Kill() //nolint:errcheck // it may have ended
		}
	}
	return lines, cmd.Wait()
}

// completed returns how many steps history has as completed.
func completed(t *testing.T, dir string) int {
	t.Helper()
	engine, err := abide.Open(t.Context(), abide.Config{Store: "pebble://" + filepath.Join(dir, "abide-data")})
	if err != nil {
		t.Fatal(err)
	}
	defer engine.Close()
	h, err := engine.History(t.Context(), abide.Ref{ID: "pot-1"}, 0)
	if err != nil && !errors.Is(err, abide.ErrNotFound) {
		t.Fatal(err)
	}
	done := 0
	for _, event := range h.Events {
		if event.Kind == history.ActivityCompleted {
			done++
		}
	}
	return done
}
