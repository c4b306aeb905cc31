//go:build unix

package testenv

import (
	"errors"
	"fmt"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
)

// pgBouncerVariable is the environment variable that names the program, so that tests can be run
// with another version.
const pgBouncerVariable = "ABIDE_TEST_PGBOUNCER"

// PgBouncer starts a PgBouncer in transaction mode before a server, and returns its address. It
// ends with the test. Each transaction gets another of its connections, as far as there are any.
// Options are added to its configuration.
func PgBouncer(t testing.TB, server *PostgresServer, options ...string) (addr string) {
	t.Helper()
	b := &pgBouncer{server: server.postgres, options: options}
	t.Cleanup(func() {
		if err := b.close(); err != nil {
			t.Error(err)
		}
	})
	if err := b.open(); err != nil {
		t.Fatal(err)
	}
	return b.addr
}

// pgBouncer is a connection pooler before a server.
type pgBouncer struct {
	server  *postgres
	options []string
	folder  *folder
	addr    string
	process *process
}

// pgBouncerProgram returns the program that the environment names, or the one in PATH, or that of
// Debian's package.
func pgBouncerProgram() (string, error) {
	if path := os.Getenv(pgBouncerVariable); path != "" {
		return path, nil
	}
	for _, name := range []string{"pgbouncer", "/usr/sbin/pgbouncer"} {
		if path, err := exec.LookPath(name); err == nil {
			return path, nil
		}
	}
	return "", fmt.Errorf("PgBouncer is missing: apt-get install pgbouncer, or make servers")
}

func (b *pgBouncer) open() error {
	program, err := pgBouncerProgram()
	if err != nil {
		return err
	}
	if b.folder, err = newFolder("pgbouncer", b.server.owner); err != nil {
		return err
	}
	return onFreeAddr(func(addr string) error {
		b.addr = addr
		return b.start(program)
	})
}

func (b *pgBouncer) start(program string) error {
	config, err := b.configure()
	if err != nil {
		return err
	}
	command := b.server.command(program, config)
	command.Dir = b.folder.path
	if b.process, err = startProcess("pgbouncer on "+b.addr, command, syscall.SIGKILL); err != nil {
		return err
	}
	return b.process.comesUp(func() bool {
		conn, err := net.DialTimeout("tcp", b.addr, patience)
		if err != nil {
			return false
		}
		_ = conn.Close() // nothing was written
		return true
	})
}

// configure writes the configuration, and returns where it is.
func (b *pgBouncer) configure() (string, error) {
	_, port, err := net.SplitHostPort(b.addr)
	if err != nil {
		return "", err
	}
	host, serverPort, err := net.SplitHostPort(b.server.addr)
	if err != nil {
		return "", err
	}
	users := filepath.Join(b.folder.path, "users")
	text := fmt.Sprintf("[databases]\n* = host=%s port=%s\n[pgbouncer]\nlisten_addr = 127.0.0.1\nlisten_port = %s\nunix_socket_dir =\n"+
		"auth_type = trust\nauth_file = %s\npool_mode = transaction\nserver_round_robin = 1\nmax_client_conn = 1000\n", host, serverPort, port, users)
	text += strings.Join(append(b.options, ""), "\n")
	list := fmt.Sprintf("%q \"\"\n", superuser)
	config := filepath.Join(b.folder.path, "config")
	return config, errors.Join(os.WriteFile(config, []byte(text), 0o644), os.WriteFile(users, []byte(list), 0o644))
}

func (b *pgBouncer) close() error {
	b.process.signal(syscall.SIGKILL)
	if !b.process.goes() {
		return fmt.Errorf("pgbouncer does not stop:\n%s", b.process.output.String())
	}
	return b.folder.remove()
}
