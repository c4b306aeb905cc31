package cli

import (
	"bufio"
	"bytes"
	"context"
	"io"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/abidehq/abide/store/pebblestore"
)

func TestOrchestrateTellsTheServiceManager(t *testing.T) {
	dir := t.TempDir()
	address := filepath.Join(dir, "notify")
	conn, err := net.ListenUnixgram("unixgram", &net.UnixAddr{Name: address, Net: "unixgram"})
	if err != nil {
		t.Fatal(err)
	}
	defer conn.Close()
	t.Setenv("NOTIFY_SOCKET", address)
	db := filepath.Join(dir, "db")
	ctx, stop := context.WithCancel(t.Context())
	ended := make(chan int)
	go func() {
		ended <- run(ctx, []string{"orchestrate", "--db", db, "--", "true"}, strings.NewReader(""), &bytes.Buffer{}, &bytes.Buffer{})
	}()
	read := func() string {
		data := make([]byte, 100)
		_ = conn.SetReadDeadline(time.Now().Add(patient))
		n, err := conn.Read(data)
		if err != nil {
			t.Fatal(err)
		}
		return string(data[:n])
	}
	if got := read(); got != "READY=1" {
		t.Errorf("first it says %q", got)
	}
	if _, err := os.Stat(db + ".sock"); err != nil {
		t.Errorf("it is ready, and does not listen: %v", err)
	}
	stop()
	if got := read(); got != "STOPPING=1" {
		t.Errorf("then it says %q", got)
	}
	if code := <-ended; code != ExitOK {
		t.Errorf("exit code %d", code)
	}
}

// The first signal waits for what runs, the second does not.
func TestSecondSignalEndsTheLoopAtOnce(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	db, started := filepath.Join(dir, "db"), filepath.Join(dir, "started")
	if code, _, stderr := invoke(t, "actions", "add", "billing", "--db", db); code != ExitOK {
		t.Fatal(stderr)
	}
	program, err := os.Executable()
	if err != nil {
		t.Fatal(err)
	}
	loop := exec.CommandContext(t.Context(), program, "orchestrate", "--db", db, "--drain", "1h", "--", "sh", "-c", "touch "+started+"; exec sleep 3600")
	loop.Env = append(os.Environ(), asProgram+"=1")
	stderr, err := loop.StderrPipe()
	if err != nil {
		t.Fatal(err)
	}
	if err := loop.Start(); err != nil {
		t.Fatal(err)
	}
	for {
		if _, err := os.Stat(started); err == nil {
			break
		}
		<-time.After(10 * time.Millisecond)
	}
	if err := loop.Process.Signal(syscall.SIGTERM); err != nil {
		t.Fatal(err)
	}
	lines := bufio.NewScanner(stderr)
	for !strings.Contains(lines.Text(), "waiting for running actions") {
		if !lines.Scan() {
			t.Fatal("the first signal has ended it")
		}
	}
	ended := make(chan struct{})
	go func() {
		defer close(ended)
		_, _ = io.Copy(io.Discard, stderr)
		_ = loop.Wait()
	}()
	// One that comes in the very moment of the first may count as that.
	late := time.After(patient)
	for waiting := true; waiting; {
		_ = loop.Process.Signal(syscall.SIGTERM)
		select {
		case <-ended:
			waiting = false
		case <-late:
			t.Fatal("it goes on")
		case <-time.After(10 * time.Millisecond):
		}
	}
	if status, ok := loop.ProcessState.Sys().(syscall.WaitStatus); !ok || status.Signal() != syscall.SIGTERM {
		t.Errorf("it ended with %v", loop.ProcessState)
	}
}

// The store of a program that does not listen cannot be looked into.
func TestStoreOfAProcessThatDoesNotAnswer(t *testing.T) {
	t.Parallel()
	dir := filepath.Join(t.TempDir(), "db")
	st, err := pebblestore.Open(t.Context(), dir, pebblestore.Options{})
	if err != nil {
		t.Fatal(err)
	}
	defer st.Close()
	code, _, stderr := invoke(t, "actions", "list", "--db", dir)
	if code != ExitUnreachable || !strings.Contains(stderr, "another process has the store in "+dir+" open, and does not answer") || !strings.Contains(stderr, "--server http://") {
		t.Errorf("exit code %d, %q", code, stderr)
	}
	code, _, stderr = invoke(t, "orchestrate", "--db", dir, "--", "true")
	if code != ExitConflict || !strings.Contains(stderr, "store is in use") {
		t.Errorf("exit code %d, %q", code, stderr)
	}
}

// Each command has an example, so that nobody must guess.
func TestHelpHasExamples(t *testing.T) {
	t.Parallel()
	for _, noun := range newRoot().Commands() {
		for _, verb := range append(noun.Commands(), noun) {
			switch {
			case noun.Name() != "actions" && noun.Name() != "schedules" && noun.Name() != "orchestrate":
			case verb.HasSubCommands():
			case verb.Example == "" || verb.Short == "":
				t.Errorf("%s has no example, or says nothing about itself", verb.CommandPath())
			}
		}
	}
}
