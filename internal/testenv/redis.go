//go:build unix

package testenv

import (
	"bufio"
	"bytes"
	"fmt"
	"net"
	"os/exec"
	"runtime"
	"syscall"
	"testing"
	"time"

	"github.com/abidehq/abide/internal/base"
)

// patience is how long a server may take to start or to stop on a machine that is
// busy.
const patience = 30 * time.Second

// RedisServer is a redis-server of a test's own, which syncs every write and keeps
// its data as long as the test runs.
type RedisServer struct {
	// Addr is where it listens, also after it was started again.
	Addr string

	t       testing.TB
	program string
	dir     string
	process *exec.Cmd
	exited  chan struct{}
	output  bytes.Buffer
}

// Redis starts a server on a free port of 127.0.0.1, and stops it at the end of the
// test. A machine without redis-server fails the test: a suite that is left out
// quietly proves nothing.
func Redis(t testing.TB) *RedisServer {
	t.Helper()
	program, err := exec.LookPath("redis-server")
	if err != nil {
		t.Fatal("redis-server is missing: apt-get install redis-server, or make servers")
	}
	r := &RedisServer{t: t, program: program, dir: t.TempDir()}
	t.Cleanup(r.Kill)
	// Between the choice of a free port and its use, somebody else may take it.
	for range 5 {
		r.Addr = freeAddr(t)
		if err = r.start(); err == nil {
			return r
		}
	}
	t.Fatal(err)
	return nil
}

// Start starts the server again, with the data that it had, and returns when it
// answers.
func (r *RedisServer) Start() {
	r.t.Helper()
	if err := r.start(); err != nil {
		r.t.Fatal(err)
	}
}

// Stop ends the server as an operator does, and returns when it is gone.
func (r *RedisServer) Stop() {
	r.t.Helper()
	r.signal(syscall.SIGTERM)
	if !r.gone() {
		r.t.Fatalf("redis-server does not stop:\n%s", r.output.String())
	}
}

// Kill ends the server as a crash does, and returns when it is gone.
func (r *RedisServer) Kill() {
	r.t.Helper()
	r.signal(syscall.SIGKILL)
	if !r.gone() {
		r.t.Fatal("redis-server outlives SIGKILL")
	}
}

// Hang makes the server stand still, with its connections open, until resume is
// called.
func (r *RedisServer) Hang() (resume func()) {
	r.t.Helper()
	r.signal(syscall.SIGSTOP)
	return func() { r.signal(syscall.SIGCONT) }
}

func (r *RedisServer) start() error {
	host, port, err := net.SplitHostPort(r.Addr)
	if err != nil {
		return err
	}
	r.output.Reset()
	process := exec.Command(r.program,
		"--bind", host, "--port", port, "--dir", r.dir,
		"--appendonly", "yes", "--appendfsync", "always", "--save", "",
	)
	process.Stdout, process.Stderr = &r.output, &r.output
	started, exited := make(chan error), make(chan struct{})
	go func() {
		// What dies with us dies with the thread that started it, so that one stays.
		runtime.LockOSThread()
		defer runtime.UnlockOSThread()
		dieWithUs(process)
		err := process.Start()
		started <- err
		if err == nil {
			_ = process.Wait() // how it ended is what the test did to it, or is in its output
		}
		close(exited)
	}()
	if err := <-started; err != nil {
		return fmt.Errorf("start redis-server: %w", err)
	}
	r.process, r.exited = process, exited
	if !waitFor(func() bool { return isClosed(exited) || r.answers() }) || isClosed(exited) {
		r.Kill()
		return fmt.Errorf("redis-server on %s does not answer:\n%s", r.Addr, r.output.String())
	}
	return nil
}

// answers reports whether the server on the port is ours: it answers, and keeps its
// data where ours does.
func (r *RedisServer) answers() bool {
	conn, err := net.DialTimeout("tcp", r.Addr, time.Second)
	if err != nil {
		return false
	}
	defer conn.Close()
	if err := conn.SetDeadline(base.System{}.Now().Add(patience)); err != nil {
		return false
	}
	if _, err := fmt.Fprint(conn, "CONFIG GET dir\r\nQUIT\r\n"); err != nil {
		return false
	}
	for lines := bufio.NewScanner(conn); lines.Scan(); {
		if lines.Text() == r.dir {
			return true
		}
	}
	return false
}

func (r *RedisServer) signal(s syscall.Signal) {
	if r.process != nil && !isClosed(r.exited) {
		_ = r.process.Process.Signal(s) // one that has just ended needs no signal
	}
}

func (r *RedisServer) gone() bool {
	return r.process == nil || waitFor(func() bool { return isClosed(r.exited) })
}

// freeAddr returns an address on which nobody listens at the moment.
func freeAddr(t testing.TB) string {
	t.Helper()
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer l.Close()
	return l.Addr().String()
}

func isClosed(c <-chan struct{}) bool {
	select {
	case <-c:
		return true
	default:
		return false
	}
}

// waitFor reports whether something comes true while there is patience.
func waitFor(something func() bool) bool {
	clock := base.System{}
	for end := clock.Now().Add(patience); clock.Now().Before(end); {
		if something() {
			return true
		}
		moment := make(chan struct{})
		clock.AfterFunc(5*time.Millisecond, func() { close(moment) })
		<-moment
	}
	return false
}
