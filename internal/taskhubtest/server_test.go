//go:build unix

package taskhubtest

import (
	"bytes"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"github.com/abidehq/abide/internal/check"
	"github.com/abidehq/abide/internal/testenv"
)

// patience is how long a server may take to come up.
const patience = 30 * time.Second

// build returns the program abide.
func build(t *testing.T) string {
	t.Helper()
	program := filepath.Join(t.TempDir(), "abide")
	cmd := exec.Command("go", "build", "-ldflags=-s -w", "-o", program, "./cmd/abide")
	cmd.Dir = filepath.Join("..", "..")
	if out, err := cmd.CombinedOutput(); err != nil {
		t.Fatalf("build abide: %v\n%s", err, out)
	}
	return program
}

// server is a process that runs `abide serve`.
type server struct {
	t              *testing.T
	program, store string
	folder         string
	addr           string // of workers and clients of task hubs

	cmd    *exec.Cmd
	exited <-chan struct{}

	mu  sync.Mutex
	log bytes.Buffer
}

// serve starts a server on a store, on free ports. It ends with the test.
func serve(t *testing.T, program, store string) *server {
	t.Helper()
	free, err := net.Listen("tcp", "127.0.0.1:0")
	check.OK(t, err)
	s := &server{t: t, program: program, store: store, folder: t.TempDir(), addr: free.Addr().String()}
	check.OK(t, free.Close())
	s.start()
	t.Cleanup(func() {
		s.kill()
		if t.Failed() {
			t.Logf("the server has logged:\n%s", s.lastLog())
		}
	})
	return s
}

// start starts the process, and returns when it accepts connections.
func (s *server) start() {
	s.cmd = exec.Command(s.program, "serve", "--addr", "127.0.0.1:0", "--worker-addr", s.addr, "--store", s.store)
	s.cmd.Dir, s.cmd.Env = s.folder, environment()
	s.cmd.Stdout, s.cmd.Stderr = s, s
	var err error
	if s.exited, err = testenv.Spawn(s.cmd); err != nil {
		s.t.Errorf("start abide serve: %v", err)
		return
	}
	for end := time.Now().Add(patience); time.Now().Before(end); <-time.After(10 * time.Millisecond) {
		c, err := net.Dial("tcp", s.addr)
		if err == nil {
			_ = c.Close() // nothing was sent
			return
		}
	}
	s.t.Errorf("abide serve does not accept connections on %s", s.addr)
}

// kill ends the process as a crash does, and waits until it is gone.
func (s *server) kill() {
	if s.exited == nil {
		return
	}
	_ = s.cmd.Process.Signal(syscall.SIGKILL) // one that has ended needs no signal
	<-s.exited
}

// Write takes what the process logs.
func (s *server) Write(text []byte) (int, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.log.Write(text)
}

// lastLog returns the end of what the processes have logged.
func (s *server) lastLog() []byte {
	s.mu.Lock()
	defer s.mu.Unlock()
	text := s.log.Bytes()
	return text[max(0, len(text)-8<<10):]
}

// environment is ours, without what configures Abide.
func environment() (env []string) {
	for _, v := range os.Environ() {
		if !strings.HasPrefix(v, "ABIDE_") {
			env = append(env, v)
		}
	}
	return env
}
