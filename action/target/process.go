package target

import (
	"context"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"os/exec"
	"time"

	"github.com/abidehq/abide/internal/base"
)

// process is a command that runs, with all that it starts: its group.
type process struct {
	cmd    *exec.Cmd
	err    error // of waiting for it
	output *excerpt

	stdin, stdout *os.File // our ends of the pipes; stdin is nil if there is no input

	exited chan struct{} // closed when the command has ended, and others of its group may not
	copied chan struct{} // closed when nobody can print any more
	fed    chan struct{} // closed when the input is there, or nobody reads it
}

// start starts a process.
func start(path string, argv, env []string, dir string, input []byte) (*process, error) {
	p := &process{
		cmd:    &exec.Cmd{Path: path, Args: argv, Env: env, Dir: dir, SysProcAttr: newGroup()},
		output: newExcerpt(keep),
		exited: make(chan struct{}), copied: make(chan struct{}), fed: make(chan struct{}),
	}
	var theirs []*os.File
	defer func() {
		for _, f := range theirs {
			_ = f.Close()
		}
	}()
	r, w, err := os.Pipe()
	if err != nil {
		return nil, err
	}
	p.stdout, p.cmd.Stdout, p.cmd.Stderr = r, w, w
	theirs = append(theirs, w)
	if len(input) > 0 {
		if r, w, err = os.Pipe(); err != nil {
			p.close()
			return nil, err
		}
		p.stdin, p.cmd.Stdin = w, r
		theirs = append(theirs, r)
	}
	if err := p.cmd.Start(); err != nil {
		p.close()
		if errors.Is(err, fs.ErrNotExist) {
			// The program was there just now.
			err = fmt.Errorf("%w: perhaps the interpreter that it names is missing", err)
		}
		return nil, err
	}
	go func() {
		defer close(p.copied)
		_, _ = io.Copy(p.output, p.stdout)
	}()
	go func() {
		defer close(p.fed)
		if p.stdin != nil {
			// A command need not read its input.
			_, _ = p.stdin.Write(input)
			_ = p.stdin.Close()
		}
	}()
	go func() {
		defer close(p.exited)
		p.awaitExit()
	}()
	return p, nil
}

// close closes our ends of the pipes.
func (p *process) close() {
	_ = p.stdout.Close()
	if p.stdin != nil {
		_ = p.stdin.Close()
	}
}

// wait returns when nothing is left of the group, and reports whether it was told to end
// because ctx did.
func (p *process) wait(ctx context.Context, clock base.Clock, grace time.Duration) (interrupted bool) {
	late := make(chan struct{})
	var stop func() bool
	exited, copied, done := p.exited, p.copied, ctx.Done()
	for over := false; !over && (exited != nil || copied != nil); {
		select {
		case <-copied:
			copied = nil
			continue
		case <-exited:
			exited = nil
		case <-done:
			done = nil
			interrupted = !closed(p.exited)
			p.terminate()
		case <-late:
			over = true
		}
		if stop == nil {
			stop = clock.AfterFunc(grace, func() { close(late) })
		}
	}
	stop()
	// The command itself has not been reaped, so that the number of the group is still its.
	p.kill()
	<-p.exited
	p.close() // a process that has left the group may hold the other ends open
	<-p.copied
	<-p.fed
	p.reap()
	return interrupted
}

func closed(c <-chan struct{}) bool {
	select {
	case <-c:
		return true
	default:
		return false
	}
}

// result returns the exit code, and how it ended, in words. A command that was killed has
// the exit code that a shell would give it.
func (p *process) result() (code int, how string) {
	if p.cmd.ProcessState == nil {
		return 0, fmt.Sprintf("nobody knows how it ended: %v", p.err)
	}
	if number, name, killed := killedBy(p.cmd.ProcessState); killed {
		return 128 + number, "it was killed by " + name
	}
	code = p.cmd.ProcessState.ExitCode()
	return code, fmt.Sprintf("it exited with %d", code)
}
