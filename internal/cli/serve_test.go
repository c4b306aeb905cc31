package cli

import (
	"bufio"
	"bytes"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"
)

// process is abide serve, as a process of its own.
type process struct {
	t     *testing.T
	cmd   *exec.Cmd
	url   string
	ended chan error

	mu   sync.Mutex
	logs bytes.Buffer
}

var whereItServes = regexp.MustCompile(`server started.* page=(\S+)`)

// startServe starts a server on a free port in a folder, and returns when it is ready.
func startServe(t *testing.T, dir string, args ...string) *process {
	t.Helper()
	return startProcess(t, program(t, dir, append([]string{"serve", "--addr", "127.0.0.1:0"}, args...)...))
}

// startProcess starts a server, and returns when it is ready.
func startProcess(t *testing.T, cmd *exec.Cmd) *process {
	t.Helper()
	s := &process{t: t, cmd: cmd, ended: make(chan error, 1)}
	errs, err := s.cmd.StderrPipe()
	if err != nil {
		t.Fatal(err)
	}
	if err := s.cmd.Start(); err != nil {
		t.Fatal(err)
	}
	ready := make(chan string, 1)
	go func() {
		lines := bufio.NewScanner(errs)
		for lines.Scan() {
			s.mu.Lock()
			fmt.Fprintln(&s.logs, lines.Text())
			s.mu.Unlock()
			if m := whereItServes.FindStringSubmatch(lines.Text()); m != nil {
				ready <- strings.TrimSuffix(m[1], "/")
			}
		}
		s.ended <- s.cmd.Wait()
	}()
	t.Cleanup(s.kill)
	select {
	case s.url = <-ready:
	case err := <-s.ended:
		s.ended <- err
		t.Fatalf("it has ended: %v\n%s", err, s.text())
	case <-time.After(patient):
		t.Fatalf("it is not ready\n%s", s.text())
	}
	return s
}

// program returns a command that runs abide.
func program(t *testing.T, dir string, args ...string) *exec.Cmd {
	t.Helper()
	self, err := os.Executable()
	if err != nil {
		t.Fatal(err)
	}
	cmd := exec.CommandContext(t.Context(), self, args...)
	cmd.Dir = dir
	cmd.Env = append(os.Environ(), asProgram+"=1", "GORACE=atexit_sleep_ms=0")
	return cmd
}

func (s *process) text() string {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.logs.String()
}

// kill ends the process as a crash does.
func (s *process) kill() {
	_ = s.cmd.Process.Kill()
	_ = s.wait()
}

func (s *process) signal(sig os.Signal) {
	s.t.Helper()
	if err := s.cmd.Process.Signal(sig); err != nil {
		s.t.Fatal(err)
	}
}

// wait returns how the process has ended.
func (s *process) wait() error {
	s.t.Helper()
	select {
	case err := <-s.ended:
		s.ended <- err
		return err
	case <-time.After(patient):
		s.t.Errorf("it does not end\n%s", s.text())
		return nil
	}
}

// call makes a request, and returns the status and the body.
func (s *process) call(method, path, body string) (int, string, error) {
	req, err := http.NewRequestWithContext(s.t.Context(), method, s.url+path, strings.NewReader(body))
	if err != nil {
		return 0, "", err
	}
	req.Header.Set("Content-Type", "application/json")
	answer, err := http.DefaultClient.Do(req)
	if err != nil {
		return 0, "", err
	}
	defer answer.Body.Close()
	text, err := io.ReadAll(answer.Body)
	return answer.StatusCode, string(text), err
}

// get makes a request that must succeed.
func (s *process) get(path string) string {
	s.t.Helper()
	status, body, err := s.call(http.MethodGet, path, "")
	if err != nil || status != http.StatusOK {
		s.t.Fatalf("%s: status %d, %v: %.300s", path, status, err, body)
	}
	return body
}

// until waits for an answer.
func (s *process) until(path, want string) {
	s.t.Helper()
	last := ""
	for end := time.Now().Add(patient); time.Now().Before(end); <-time.After(50 * time.Millisecond) {
		if _, last, _ = s.call(http.MethodGet, path, ""); strings.Contains(last, want) {
			return
		}
	}
	s.t.Fatalf("%s has no %q, but %s", path, want, last)
}

// TestServeGoesOnAfterACrash: an instance that is started over HTTP is completed by the
// process that comes after the one that was killed.
func TestServeGoesOnAfterACrash(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	s := startServe(t, dir, "--demo")
	s.get("/healthz")
	if page := s.get("/"); !strings.Contains(page, "<html") {
		t.Errorf("the page is %.200s", page)
	}
	start := `{"orchestration":"demo-order","id":"mine","input":{"number":9,"cents":100,"item":"a kettle"}}`
	if status, body, err := s.call(http.MethodPost, "/api/v1/instances", start); err != nil || status/100 != 2 {
		t.Fatalf("start: status %d, %v: %s", status, err, body)
	}
	s.until("/api/v1/instances/default/mine", `"packing"`)
	s.kill()
	again := startServe(t, dir, "--demo")
	again.until("/api/v1/instances/default/mine", `"completed"`)
	again.signal(syscall.SIGTERM)
	if err := again.wait(); err != nil {
		t.Errorf("it ended with %v\n%s", err, again.text())
	}
}

// TestOneServerForAStore: a second one is told who has it.
func TestOneServerForAStore(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	startServe(t, dir)
	out, err := program(t, dir, "serve", "--addr", "127.0.0.1:0").CombinedOutput()
	var exit *exec.ExitError
	if !errors.As(err, &exit) || exit.ExitCode() != ExitConflict || !strings.Contains(string(out), "another process has the store in ./abide-data open") {
		t.Errorf("it ended with %v: %s", err, out)
	}
}

// slowTarget is a configuration with a target that takes long.
const slowTarget = "drain: 1h\ntargets: [{name: slow, kind: command, command: [sleep, '3600'], grace: 1s}]\n"

// TestDrainOfServe: when it is told to stop, it says so at /readyz while it waits; a second
// signal ends it at once.
func TestDrainOfServe(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	if err := os.WriteFile(filepath.Join(dir, "abide.yaml"), []byte(slowTarget), 0o600); err != nil {
		t.Fatal(err)
	}
	s := startServe(t, dir)
	s.get("/readyz")
	if status, body, err := s.call(http.MethodPost, "/api/v1/actions", `{"slug":"a","target":"slow","id":"one"}`); err != nil || status/100 != 2 {
		t.Fatalf("add: status %d, %v: %s", status, err, body)
	}
	s.until("/api/v1/actions/default/one", `"running"`)
	s.signal(syscall.SIGTERM)
	s.until("/readyz", "about to stop")
	s.get("/api/v1/actions/default/one") // others are answered still
	s.signal(syscall.SIGTERM)
	err := s.wait()
	var exit *exec.ExitError
	if !errors.As(err, &exit) || exit.Sys().(syscall.WaitStatus).Signal() != syscall.SIGTERM {
		t.Errorf("it ended with %v\n%s", err, s.text())
	}
}

// TestHealth asks the server of the same configuration.
func TestHealth(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	s := startServe(t, dir)
	for _, args := range [][]string{{"health", s.url}, {"health", "--ready", s.url + "/"}, {"health"}} {
		cmd := program(t, dir, args...)
		cmd.Env = append(cmd.Env, "ABIDE_ADDR="+strings.TrimPrefix(s.url, "http://"))
		if out, err := cmd.CombinedOutput(); err != nil || string(out) != "ok\n" {
			t.Errorf("%q: %v: %s", args, err, out)
		}
	}
	s.kill()
	out, err := program(t, dir, "health", s.url).CombinedOutput()
	var exit *exec.ExitError
	if !errors.As(err, &exit) || exit.ExitCode() != ExitUnreachable {
		t.Errorf("of a server that is gone: %v: %s", err, out)
	}
}

// TestThePortIsHandedOver: systemd keeps it, and says when the server is ready.
func TestThePortIsHandedOver(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	kept, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer kept.Close()
	file, err := kept.(*net.TCPListener).File()
	if err != nil {
		t.Fatal(err)
	}
	defer file.Close()
	manager, err := net.ListenPacket("unixgram", filepath.Join(dir, "notify"))
	if err != nil {
		t.Fatal(err)
	}
	defer manager.Close()
	start := func() *process {
		cmd := program(t, dir, "serve", "--addr", "127.0.0.1:1")
		// The ID of the process is known to itself alone before it runs.
		cmd.Args = append([]string{"sh", "-c", `LISTEN_PID=$$ exec "$0" "$@"`, cmd.Path}, cmd.Args[1:]...)
		cmd.Path = "/bin/sh"
		cmd.Env = append(cmd.Env, "LISTEN_FDS=1", "NOTIFY_SOCKET="+filepath.Join(dir, "notify"))
		cmd.ExtraFiles = []*os.File{file}
		return startProcess(t, cmd)
	}
	s := start()
	s.url = "http://" + kept.Addr().String()
	s.get("/healthz")
	state := make([]byte, 100)
	if n, _, err := manager.ReadFrom(state); err != nil || string(state[:n]) != "READY=1" {
		t.Errorf("the manager was told %q, %v", state[:n], err)
	}
	s.signal(syscall.SIGTERM)
	if err := s.wait(); err != nil {
		t.Error(err)
	}
	answers := make(chan error, 1)
	go func() { // while nobody is there
		_, _, err := s.call(http.MethodGet, "/healthz", "")
		answers <- err
	}()
	again := start()
	if err := <-answers; err != nil {
		t.Errorf("who came meanwhile was turned away: %v", err)
	}
	again.signal(syscall.SIGTERM)
	_ = again.wait()
}
