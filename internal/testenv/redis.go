//go:build unix

package testenv

import (
	"bufio"
	"fmt"
	"net"
	"os/exec"
	"syscall"
	"testing"
	"time"

	"github.com/abidehq/abide/internal/base"
)

// RedisServer is a redis-server for tests, which syncs every write and keeps its data as
// long as it is there.
type RedisServer struct {
	// Addr is where it listens, also after it was started again.
	Addr string

	t      testing.TB
	shared bool
	redis  *redis
}

// redis is a redis-server that several tests may share.
type redis struct {
	program  string
	dir      string
	addr     string
	settings []string // further ones, each a name and a value
	process  *process
}

// Redis starts a server on a free port of 127.0.0.1, and stops it at the end of the
// test. A machine without redis-server fails the test: a suite that is left out
// quietly proves nothing.
func Redis(t testing.TB) *RedisServer {
	t.Helper()
	r := &redis{dir: t.TempDir()}
	t.Cleanup(func() {
		if err := r.kill(); err != nil {
			t.Error(err)
		}
	})
	if err := r.open(); err != nil {
		t.Fatal(err)
	}
	return &RedisServer{Addr: r.addr, t: t, redis: r}
}

// SharedRedis returns the server that all tests of the process share: the first that asks
// starts it, and [Main] ends it. It is nobody's to stop, and what one test writes to it
// others can see.
func SharedRedis(t testing.TB) *RedisServer {
	t.Helper()
	r, err := sharedRedis.get()
	if err != nil {
		t.Fatal(err)
	}
	return &RedisServer{Addr: r.addr, t: t, shared: true, redis: r}
}

// Start starts the server again, with the data that it had, and returns when it
// answers.
func (r *RedisServer) Start() {
	r.t.Helper()
	r.do("start", r.redis.start)
}

// Stop ends the server as an operator does, and returns when it is gone.
func (r *RedisServer) Stop() {
	r.t.Helper()
	r.do("stop", r.redis.stop)
}

// Kill ends the server as a crash does, and returns when it is gone.
func (r *RedisServer) Kill() {
	r.t.Helper()
	r.do("kill", r.redis.kill)
}

// Hang makes the server stand still, with its connections open, until resume is
// called.
func (r *RedisServer) Hang() (resume func()) {
	r.t.Helper()
	r.do("hang", func() error {
		r.redis.process.signal(syscall.SIGSTOP)
		return nil
	})
	return func() { r.redis.process.signal(syscall.SIGCONT) }
}

func (r *RedisServer) do(verb string, f func() error) {
	r.t.Helper()
	if r.shared {
		r.t.Fatalf("%s: the server is shared with other tests", verb)
	}
	if err := f(); err != nil {
		r.t.Fatal(err)
	}
}

// open starts the server for the first time.
func (r *redis) open() error {
	var err error
	if r.program, err = exec.LookPath("redis-server"); err != nil {
		return fmt.Errorf("redis-server is missing: apt-get install redis-server, or make servers")
	}
	return onFreeAddr(func(addr string) error {
		r.addr = addr
		return r.start()
	})
}

func (r *redis) start() error {
	host, port, err := net.SplitHostPort(r.addr)
	if err != nil {
		return err
	}
	settings := append([]string{
		"--bind", host, "--port", port, "--dir", r.dir,
		"--appendonly", "yes", "--appendfsync", "always", "--save", "",
	}, r.settings...)
	r.process, err = startProcess("redis-server on "+r.addr, exec.Command(r.program, settings...), syscall.SIGKILL)
	if err != nil {
		return err
	}
	if err := r.process.comesUp(r.answers); err != nil {
		_ = r.kill() // that it does not answer is the error
		return err
	}
	return nil
}

func (r *redis) stop() error {
	r.process.signal(syscall.SIGTERM)
	if !r.process.goes() {
		return fmt.Errorf("redis-server does not stop:\n%s", r.process.output.String())
	}
	return nil
}

func (r *redis) kill() error {
	r.process.signal(syscall.SIGKILL)
	if !r.process.goes() {
		return fmt.Errorf("redis-server outlives SIGKILL")
	}
	return nil
}

// answers reports whether the server on the port is ours and has loaded its data: while it loads, it
// answers CONFIG, and refuses commands with LOADING.
func (r *redis) answers() bool {
	conn, err := net.DialTimeout("tcp", r.addr, time.Second)
	if err != nil {
		return false
	}
	defer conn.Close()
	if err := conn.SetDeadline(base.System{}.Now().Add(patience)); err != nil {
		return false
	}
	if _, err := fmt.Fprint(conn, "CONFIG GET dir\r\nPING\r\nQUIT\r\n"); err != nil {
		return false
	}
	ours, loaded := false, false
	for lines := bufio.NewScanner(conn); lines.Scan(); {
		ours = ours || lines.Text() == r.dir
		loaded = loaded || lines.Text() == "+PONG"
	}
	return ours && loaded
}

// onFreeAddr starts a server on an address on which nobody listens. Between the choice
// of a free port and its use another process may take it, so it tries again.
func onFreeAddr(start func(addr string) error) error {
	var err error
	for range 5 {
		var addr string
		if addr, err = freeAddr(); err != nil {
			return err
		}
		if err = start(addr); err == nil {
			return nil
		}
	}
	return err
}

// freeAddr returns an address on which nobody listens at the moment.
func freeAddr() (string, error) {
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		return "", err
	}
	defer l.Close()
	return l.Addr().String(), nil
}
