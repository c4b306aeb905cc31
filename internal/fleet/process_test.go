package fleet

import (
	"bytes"
	"encoding/json"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"sync"
	"syscall"
	"testing"
	"time"

	"github.com/abidehq/abide/internal/base"
	"github.com/abidehq/abide/internal/check"
	"github.com/abidehq/abide/internal/testenv"
)

// patience is how long anything may take that must happen, on a machine that is busy.
const patience = 60 * time.Second

// process is a process of a fleet, seen from the test.
type process struct {
	t     *testing.T
	setup setup
	cmd   *exec.Cmd
	stdin io.WriteCloser
	log   string // the file that it logs to

	exited <-chan struct{}

	mu    sync.Mutex
	said  map[string]bool // lines
	part  []byte          // of a line
	ended bool            // by us
}

// startProcess starts a process, and returns when it serves.
func startProcess(t *testing.T, s setup) *process {
	t.Helper()
	text, err := json.Marshal(s)
	check.OK(t, err)
	self, err := os.Executable()
	check.OK(t, err)
	p := &process{t: t, setup: s, cmd: exec.Command(self), said: map[string]bool{}, log: s.Sink + ".log"}
	p.cmd.Env = append(os.Environ(), workerVariable+"="+string(text))
	log, err := os.Create(p.log)
	check.OK(t, err)
	defer log.Close()
	p.cmd.Stdout, p.cmd.Stderr = p, log
	if p.stdin, err = p.cmd.StdinPipe(); err != nil {
		t.Fatal(err)
	}
	if p.exited, err = testenv.Spawn(p.cmd); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		p.end(syscall.SIGKILL)
		if t.Failed() {
			t.Logf("%s said:\n%s", s.Name, p.lastWords())
		}
	})
	go p.watch()
	p.hear("ready")
	return p
}

// Write hears what the process says.
func (p *process) Write(text []byte) (int, error) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.part = append(p.part, text...)
	for {
		line, rest, whole := bytes.Cut(p.part, []byte("\n"))
		if !whole {
			return len(text), nil
		}
		p.said[string(line)] = true
		p.part = bytes.Clone(rest)
	}
}

// watch fails the test if the process ends by itself.
func (p *process) watch() {
	<-p.exited
	p.mu.Lock()
	defer p.mu.Unlock()
	if !p.ended {
		p.t.Errorf("%s has ended by itself: %v", p.setup.Name, p.cmd.ProcessState)
	}
}

// hear waits until the process has said something.
func (p *process) hear(line string) {
	p.t.Helper()
	if !until(func() bool {
		p.mu.Lock()
		defer p.mu.Unlock()
		return p.said[line] || p.hasEnded()
	}) || p.hasEnded() {
		p.t.Fatalf("%s does not say %q", p.setup.Name, line)
	}
}

func (p *process) hasEnded() bool {
	select {
	case <-p.exited:
		return true
	default:
		return false
	}
}

// tell tells the process to do something.
func (p *process) tell(line string) {
	p.t.Helper()
	if _, err := fmt.Fprintln(p.stdin, line); err != nil {
		p.t.Fatal(err)
	}
}

// end ends the process by a signal, and waits until it is gone.
func (p *process) end(by syscall.Signal) {
	p.mu.Lock()
	p.ended = true
	p.mu.Unlock()
	p.signal(by)
	<-p.exited
}

// kill ends the process as a crash does.
func (p *process) kill() { p.end(syscall.SIGKILL) }

// stop ends the process as an operator does, and waits until it has put all down.
func (p *process) stop() {
	p.t.Helper()
	p.mu.Lock()
	p.ended = true
	p.mu.Unlock()
	p.tell("stop")
	if !until(p.hasEnded) || !p.cmd.ProcessState.Success() {
		p.t.Errorf("%s does not stop as it should: %v", p.setup.Name, p.cmd.ProcessState)
	}
}

// freeze has the process stand still until thaw is called.
func (p *process) freeze() (thaw func()) {
	p.signal(syscall.SIGSTOP)
	return func() { p.signal(syscall.SIGCONT) }
}

func (p *process) signal(s syscall.Signal) {
	_ = p.cmd.Process.Signal(s) // one that has ended needs no signal
}

// lastWords returns the end of what the process has logged.
func (p *process) lastWords() []byte {
	text, err := os.ReadFile(filepath.Clean(p.log))
	if err != nil {
		return []byte(err.Error())
	}
	return text[max(0, len(text)-4<<10):]
}

// until reports whether something comes true while there is patience.
func until(something func() bool) bool { return within(patience, something) }

// within reports whether something comes true within a time.
func within(d time.Duration, something func() bool) bool {
	for end := time.Now().Add(d); time.Now().Before(end); pause(10 * time.Millisecond) {
		if something() {
			return true
		}
	}
	return something()
}

// pause lets some time pass: between two looks at something, or two steps of a steady
// load.
func pause(d time.Duration) {
	passed := make(chan struct{})
	base.System{}.AfterFunc(d, func() { close(passed) })
	<-passed
}
