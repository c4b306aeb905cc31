//go:build unix

package testenv

import (
	"errors"
	"fmt"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"syscall"
	"testing"
)

// sentinels is how many sentinels watch a master.
const sentinels = 3

// Sentinels starts three sentinels that watch a master, and returns when each knows the others
// and a replica: from then on they promote a replica of a master that is gone for a second. They
// are stopped at the end of the test.
func Sentinels(t testing.TB, master *RedisServer) {
	t.Helper()
	host, port, err := net.SplitHostPort(master.Addr)
	if err != nil {
		t.Fatal(err)
	}
	var list []*redis
	t.Cleanup(func() {
		var errs []error
		for _, s := range list {
			errs = append(errs, s.kill())
		}
		if err := errors.Join(errs...); err != nil {
			t.Error(err)
		}
	})
	for range sentinels {
		s := &redis{dir: t.TempDir()}
		list = append(list, s)
		if err := s.openSentinel(host, port); err != nil {
			t.Fatal(err)
		}
	}
	for _, s := range list {
		for _, want := range []string{"slaves=1", fmt.Sprintf("sentinels=%d", sentinels)} {
			if err := s.says("INFO sentinel", want); err != nil {
				t.Fatal(err)
			}
		}
	}
}

// openSentinel starts a sentinel, which keeps what it knows in its configuration.
func (r *redis) openSentinel(masterHost, masterPort string) error {
	var err error
	if r.program, err = exec.LookPath("redis-server"); err != nil {
		return fmt.Errorf("redis-server is missing: apt-get install redis-server, or make servers")
	}
	return onFreeAddr(func(addr string) error {
		r.addr = addr
		host, port, err := net.SplitHostPort(addr)
		if err != nil {
			return err
		}
		file := filepath.Join(r.dir, "sentinel.conf")
		text := fmt.Sprintf("bind %s\nport %s\ndir %s\nsentinel monitor abide %s %s %d\nsentinel down-after-milliseconds abide 1000\nsentinel failover-timeout abide 5000\n",
			host, port, r.dir, masterHost, masterPort, sentinels/2+1)
		if err := os.WriteFile(file, []byte(text), 0o600); err != nil {
			return err
		}
		if r.process, err = startProcess("sentinel on "+addr, exec.Command(r.program, file, "--sentinel"), syscall.SIGKILL); err != nil {
			return err
		}
		if err := r.process.comesUp(func() bool {
			answer, err := r.command("PING")
			return err == nil && answer == "PONG"
		}); err != nil {
			_ = r.kill() // that it does not answer is the error
			return err
		}
		return nil
	})
}
