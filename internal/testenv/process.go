//go:build unix

package testenv

import (
	"fmt"
	"os/exec"
	"path/filepath"
	"runtime"
	"sync"
	"syscall"
	"time"

	"github.com/abidehq/abide/internal/base"
)

// patience is how long a server may take to start or to stop on a machine that is
// busy.
const patience = 30 * time.Second

// process is a server that was started for tests.
type process struct {
	name   string
	cmd    *exec.Cmd
	exited <-chan struct{}
	output tail
}

// Spawn starts a command that does not outlive us: if our process is killed, the command
// is too, also one that was stopped. The channel is closed when it has ended and was
// waited for; on a system that cannot tie the two together, that is all.
func Spawn(cmd *exec.Cmd) (exited <-chan struct{}, err error) { return spawn(cmd, syscall.SIGKILL) }

// spawn starts a command, which gets the signal when we die.
func spawn(cmd *exec.Cmd, ending syscall.Signal) (<-chan struct{}, error) {
	started, exited := make(chan error), make(chan struct{})
	go func() {
		// What dies with us dies with the thread that started it, so that one stays.
		runtime.LockOSThread()
		defer runtime.UnlockOSThread()
		dieWithUs(cmd, ending)
		err := cmd.Start()
		started <- err
		if err == nil {
			_ = cmd.Wait() // how it ended is what the test did to it, or is in its output
		}
		close(exited)
	}()
	if err := <-started; err != nil {
		return nil, fmt.Errorf("start %s: %w", filepath.Base(cmd.Path), err)
	}
	return exited, nil
}

// startProcess starts a server, which gets the signal when we die.
func startProcess(name string, cmd *exec.Cmd, ending syscall.Signal) (*process, error) {
	p := &process{name: name, cmd: cmd}
	cmd.Stdout, cmd.Stderr = &p.output, &p.output
	exited, err := spawn(cmd, ending)
	if err != nil {
		return nil, err
	}
	p.exited = exited
	return p, nil
}

// comesUp waits until the server says that it is ready, and returns an error if it ends
// instead or takes too long.
func (p *process) comesUp(ready func() bool) error {
	if !waitFor(func() bool { return p.isGone() || ready() }) || p.isGone() {
		return fmt.Errorf("%s does not answer:\n%s", p.name, p.output.String())
	}
	return nil
}

// signal sends a signal. A process that has not been started or has ended needs none.
func (p *process) signal(s syscall.Signal) {
	if p != nil && !p.isGone() {
		_ = p.cmd.Process.Signal(s) // one that has just ended needs no signal
	}
}

func (p *process) isGone() bool { return isClosed(p.exited) }

// goes reports whether the process ends while there is patience.
func (p *process) goes() bool { return p == nil || waitFor(p.isGone) }

// mostOutput is how much of what a server says is kept: the last of it, in bytes.
const mostOutput = 64 << 10

// tail keeps the last of what is written to it.
type tail struct {
	mu   sync.Mutex
	text []byte
}

// Write never fails.
func (o *tail) Write(p []byte) (int, error) {
	o.mu.Lock()
	defer o.mu.Unlock()
	o.text = append(o.text, p...)
	if more := len(o.text) - mostOutput; more > 0 {
		o.text = o.text[more:]
	}
	return len(p), nil
}

func (o *tail) String() string {
	o.mu.Lock()
	defer o.mu.Unlock()
	return string(o.text)
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
func waitFor(something func() bool) bool { return waitWithin(patience, something) }

// waitWithin reports whether something comes true within a limit.
func waitWithin(limit time.Duration, something func() bool) bool {
	clock := base.System{}
	for end := clock.Now().Add(limit); clock.Now().Before(end); {
		if something() {
			return true
		}
		moment := make(chan struct{})
		clock.AfterFunc(5*time.Millisecond, func() { close(moment) })
		<-moment
	}
	return false
}
