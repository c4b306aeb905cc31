package bench

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"os/exec"
)

// LoadedLine is what a process that loads the store prints when all is durable.
const LoadedLine = "loaded"

// Load opens and loads the store as [Run] would, calls loaded, and keeps the store
// open until ctx ends. It is for a process that is going to be killed.
func Load(ctx context.Context, o Options, loaded func()) error {
	o.Reopen = ReopenNever // that is for the process which measures
	if err := o.Validate(); err != nil {
		return err
	}
	r := &run{opts: &o}
	if err := r.open(ctx); err != nil {
		return err
	}
	defer r.close()
	if err := r.load(ctx); err != nil {
		return err
	}
	loaded()
	<-ctx.Done()
	return nil
}

// loadAndCrash lets another process load the store, and kills it as soon as its last
// commit is acknowledged.
func loadAndCrash(ctx context.Context, command func(context.Context) (*exec.Cmd, error), p *Progress) error {
	cmd, err := command(ctx)
	if err != nil {
		return fmt.Errorf("bench: start the process that loads the store: %w", err)
	}
	// The process ends when this pipe does: should we die first, it does not stay.
	input, err := cmd.StdinPipe()
	if err != nil {
		return fmt.Errorf("bench: start the process that loads the store: %w", err)
	}
	defer input.Close()
	output, err := cmd.StdoutPipe()
	if err != nil {
		return fmt.Errorf("bench: start the process that loads the store: %w", err)
	}
	if err := cmd.Start(); err != nil {
		return fmt.Errorf("bench: start the process that loads the store: %w", err)
	}
	ready := false
	for lines := bufio.NewScanner(output); !ready && lines.Scan(); {
		ready = lines.Text() == LoadedLine
	}
	if !ready {
		_ = input.Close()
		err := cmd.Wait()
		if ctx.Err() != nil {
			return context.Cause(ctx)
		}
		if err == nil {
			err = errors.New("it reported success")
		}
		return fmt.Errorf("bench: the process that loads the store ended before it was done: %w", err)
	}
	if err := cmd.Process.Kill(); err != nil {
		return fmt.Errorf("bench: kill the process that loaded the store: %w", err)
	}
	_ = cmd.Wait() // it was killed, and says so
	p.Say("killed the process that loaded the store")
	return nil
}
