//go:build unix

package testenv

import (
	"errors"
	"fmt"
	"net"
	"os"
	"os/exec"
	"os/user"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"sync/atomic"
	"syscall"
)

// superuser is the name of the role that tests are.
const superuser = "abide"

// postgresSettings are what the server has in common with one that people trust. The
// others make it small, and reachable from this machine only.
var postgresSettings = []string{
	"fsync=on",
	"full_page_writes=on",
	"synchronous_commit=on",
	"max_connections=200",
	"shared_buffers=64MB",
	"listen_addresses=127.0.0.1",
	"unix_socket_directories=",
	"dynamic_shared_memory_type=mmap", // in its folder, so that nothing is left outside of it
}

// postgres is a PostgreSQL server that several tests may share.
type postgres struct {
	programs  string // the folder that they are in
	owner     *syscall.Credential
	folder    *folder
	addr      string
	settings  []string // besides postgresSettings
	process   *process
	databases atomic.Int64
}

// open makes the server's data and starts it for the first time.
func (p *postgres) open() error {
	if err := p.make(); err != nil {
		return err
	}
	return p.startFirst()
}

// make makes the server's data.
func (p *postgres) make() error {
	if err := p.find(); err != nil {
		return err
	}
	var err error
	if p.folder, err = newFolder("postgres", p.owner); err != nil {
		return err
	}
	if haveMain.Load() {
		return p.copyTemplate()
	}
	return p.initialise(p.data())
}

// startFirst starts the server for the first time.
func (p *postgres) startFirst() error {
	return onFreeAddr(func(addr string) error {
		p.addr = addr
		return p.start()
	})
}

// close ends the server, in whatever state it is, and removes its data.
func (p *postgres) close() error {
	return errors.Join(p.end(syscall.SIGQUIT), p.folder.remove())
}

func (p *postgres) data() string { return filepath.Join(p.folder.path, "data") }

// find looks for the programs, and for the user as which they run: PostgreSQL refuses to
// run as root.
func (p *postgres) find() error {
	var err error
	if p.programs, err = postgresPrograms(); err != nil || os.Geteuid() != 0 {
		return err
	}
	u, err := user.Lookup("postgres")
	if err != nil {
		return fmt.Errorf("PostgreSQL does not run as root, and there is no other user for it: %w", err)
	}
	uid, uidErr := strconv.ParseUint(u.Uid, 10, 32)
	gid, gidErr := strconv.ParseUint(u.Gid, 10, 32)
	p.owner = &syscall.Credential{Uid: uint32(uid), Gid: uint32(gid)}
	return errors.Join(uidErr, gidErr)
}

// postgresVariable is the environment variable that names the folder of the server's programs, so
// that tests can be run with another version.
const postgresVariable = "ABIDE_TEST_POSTGRES"

// postgresPrograms returns the folder that the environment names, or that of the newest version
// that Debian's package has installed, or of the one in PATH.
func postgresPrograms() (string, error) {
	if folder := os.Getenv(postgresVariable); folder != "" {
		if _, err := os.Stat(filepath.Join(folder, "postgres")); err != nil {
			return "", fmt.Errorf("%s: %w", postgresVariable, err)
		}
		return folder, nil
	}
	found, _ := filepath.Glob("/usr/lib/postgresql/*/bin/postgres") // the pattern is a good one
	version := func(path string) int {
		n, _ := strconv.Atoi(filepath.Base(filepath.Dir(filepath.Dir(path)))) // what is no number is the oldest
		return n
	}
	if len(found) > 0 {
		newest := slices.MaxFunc(found, func(a, b string) int { return version(a) - version(b) })
		return filepath.Dir(newest), nil
	}
	path, err := exec.LookPath("postgres")
	if err == nil {
		path, err = filepath.EvalSymlinks(path) // initdb is beside it
	}
	if err != nil {
		return "", fmt.Errorf("PostgreSQL is missing: apt-get install postgresql, or make servers")
	}
	return filepath.Dir(path), nil
}

// command returns a command that runs as the server's user, and knows nothing of servers
// that the environment names.
func (p *postgres) command(program string, args ...string) *exec.Cmd {
	c := exec.Command(program, args...)
	c.Dir = p.folder.path
	c.Env = slices.DeleteFunc(os.Environ(), func(v string) bool {
		return strings.HasPrefix(v, "PG") || strings.HasPrefix(v, "LC_") || strings.HasPrefix(v, "HOME=")
	})
	c.Env = append(c.Env, "LC_ALL=C", "HOME="+p.folder.path)
	if p.owner != nil {
		c.SysProcAttr = &syscall.SysProcAttr{Credential: p.owner}
	}
	return c
}

func run(c *exec.Cmd) (string, error) {
	output, err := c.Output()
	if err != nil {
		detail := ""
		if exit := (*exec.ExitError)(nil); errors.As(err, &exit) {
			detail = "\n" + string(exit.Stderr)
		}
		return "", fmt.Errorf("%s: %w%s", filepath.Base(c.Path), err, detail)
	}
	return strings.TrimSpace(string(output)), nil
}

// initialise makes the data of a new server.
func (p *postgres) initialise(data string) error {
	// Nobody needs it after the machine itself has crashed, so it is not synced. What the
	// server writes later is.
	if _, err := run(p.command(filepath.Join(p.programs, "initdb"), "-D", data, "-U", superuser, "-A", "trust",
		"-E", "UTF8", "--no-locale", "--no-sync")); err != nil {
		return err
	}
	return os.WriteFile(filepath.Join(data, "pg_hba.conf"), []byte("host all,replication all 127.0.0.1/32 trust\n"), 0o600)
}

// template is the data of a new server, which is copied because making it takes much
// longer.
var template = &shared[*postgres]{
	open: func() (*postgres, error) {
		p := &postgres{}
		if err := p.find(); err != nil {
			return nil, err
		}
		var err error
		if p.folder, err = newFolder("postgres", p.owner); err != nil {
			return nil, err
		}
		atEnd(p.folder.remove)
		return p, p.initialise(p.data())
	},
}

func (p *postgres) copyTemplate() error {
	from, err := template.get()
	if err != nil {
		return err
	}
	_, err = run(p.command("cp", "-R", "-p", from.data(), p.data()))
	return err
}

func (p *postgres) start() error {
	_, port, err := net.SplitHostPort(p.addr)
	if err != nil {
		return err
	}
	args := []string{"-D", p.data(), "-c", "port=" + port}
	for _, s := range slices.Concat(postgresSettings, p.settings) {
		args = append(args, "-c", s)
	}
	// On the signal that it gets when we are killed it ends its processes and tidies up.
	p.process, err = startProcess("postgres on "+p.addr, p.command(filepath.Join(p.programs, "postgres"), args...), syscall.SIGQUIT)
	if err != nil {
		return err
	}
	if err := p.process.comesUp(p.answers); err != nil {
		return errors.Join(err, p.end(syscall.SIGQUIT))
	}
	return nil
}

// answers reports whether the server says that it accepts connections, if only to read, in the
// file in which it says so: the process first, and what it does in the eighth line.
func (p *postgres) answers() bool {
	text, err := os.ReadFile(filepath.Join(p.data(), "postmaster.pid"))
	lines := strings.Split(string(text), "\n")
	return err == nil && len(lines) >= 8 &&
		lines[0] == strconv.Itoa(p.process.cmd.Process.Pid) && slices.Contains([]string{"ready", "standby"}, strings.TrimSpace(lines[7]))
}

// end ends the server, also one that hangs, and returns when it is gone.
func (p *postgres) end(by syscall.Signal) error {
	p.process.signal(by)
	p.resume()
	if p.process.goes() {
		return nil
	}
	children := p.hang()
	p.process.signal(syscall.SIGKILL)
	for _, child := range children {
		_ = syscall.Kill(child, syscall.SIGKILL) // one that has just ended needs no signal
	}
	return fmt.Errorf("postgres does not stop, and was killed:\n%s", p.process.output.String())
}

// hang stops the server's processes: first the one that starts the others, so that they
// are all there. It returns the others.
func (p *postgres) hang() []int {
	p.process.signal(syscall.SIGSTOP)
	return p.signalChildren(syscall.SIGSTOP)
}

// resume has the server's processes go on.
func (p *postgres) resume() {
	p.signalChildren(syscall.SIGCONT)
	p.process.signal(syscall.SIGCONT)
}

func (p *postgres) signalChildren(s syscall.Signal) []int {
	if p.process == nil || p.process.isGone() {
		return nil
	}
	children := childrenOf(p.process.cmd.Process.Pid)
	for _, child := range children {
		_ = syscall.Kill(child, s) // one that has just ended needs no signal
	}
	return children
}

func (p *postgres) url(database string) string {
	return "postgres://" + superuser + "@" + p.addr + "/" + database + "?sslmode=disable"
}

// psql returns the client: some packages of the server come without it, and any version will do.
func (p *postgres) psql() string {
	path := filepath.Join(p.programs, "psql")
	if _, err := os.Stat(path); err != nil {
		return "psql"
	}
	return path
}

// query sends a statement to the server's first database, and returns what it answers.
func (p *postgres) query(statement string) (string, error) {
	return run(p.command(p.psql(), "-X", "-A", "-t", "-q", "-v", "ON_ERROR_STOP=1",
		"-d", p.url("postgres"), "-c", statement))
}
