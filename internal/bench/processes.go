package bench

import (
	"bufio"
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"os/exec"

	"golang.org/x/sync/errgroup"
)

// MaxProcesses is more than one machine is good for.
const MaxProcesses = 64

// Processes runs commands at once, each of which prints a report as JSON, and returns one
// report of all: rates and counts are added, of times the longest counts. One that fails ends
// the others.
func Processes(ctx context.Context, n int, command func(ctx context.Context, i int) (*exec.Cmd, error)) (*Report, error) {
	outputs := make([]bytes.Buffer, n)
	g, together := errgroup.WithContext(ctx)
	for i := range outputs {
		g.Go(func() error {
			cmd, err := command(together, i)
			if err != nil {
				return err
			}
			cmd.Stdout = &outputs[i]
			if err := cmd.Run(); err != nil {
				return fmt.Errorf("bench: process %d: %w", i+1, err)
			}
			return nil
		})
	}
	err := g.Wait()
	if ctx.Err() != nil {
		err = ctx.Err()
	}
	if err != nil {
		return nil, err
	}
	return addUp(outputs)
}

// addUp makes one report of those of several processes. It has the figures of the first one
// that can be added up.
func addUp(outputs []bytes.Buffer) (*Report, error) {
	reports := make([]map[string]any, len(outputs))
	for i := range outputs {
		if err := json.Unmarshal(outputs[i].Bytes(), &reports[i]); err != nil {
			return nil, fmt.Errorf("bench: report of process %d: %w", i+1, err)
		}
	}
	sum, longest := map[string]float64{}, map[string]float64{}
	for _, report := range reports {
		for name, value := range report {
			if v, ok := value.(float64); ok {
				sum[name] += v
				longest[name] = max(longest[name], v)
			}
		}
	}
	r := &Report{}
	for _, name := range []string{"workload", "store", "go"} {
		r.Add(name, reports[0][name])
	}
	r.Add("gomaxprocs", int(longest["gomaxprocs"]))
	r.Add("processes", len(outputs))
	r.Add("clients", int(sum["clients"]))
	r.Add("n", int(sum["n"]))
	for _, name := range []string{"orchestrations_per_s", "activities_per_s", "steps_per_s", "events_per_s", "turns", "replays"} {
		if v, ok := sum[name]; ok {
			r.Add(name, v)
		}
	}
	for _, name := range []string{"latency_p50_ms", "latency_p99_ms", "latency_max_ms"} {
		r.Add(name, longest[name])
	}
	return r, nil
}

// LoadedLine is what a process that loads the store prints when all is durable.
const LoadedLine = "loaded"

// Never is the [Config.LoadCommand] of the process that loads.
func Never(context.Context) (*exec.Cmd, error) { return nil, errors.New("a loader starts no loader") }

// loadAndCrash runs a process that loads the store, and kills it as soon as its last commit
// is acknowledged.
func loadAndCrash(ctx context.Context, command func(context.Context) (*exec.Cmd, error), p *Progress) error {
	cmd, err := command(ctx)
	if err != nil {
		return fmt.Errorf("bench: start the process that loads the store: %w", err)
	}
	// The process ends when this pipe does: should we die first, it does not stay.
	input, inErr := cmd.StdinPipe()
	output, outErr := cmd.StdoutPipe()
	if err := errors.Join(inErr, outErr, cmd.Start()); err != nil {
		return fmt.Errorf("bench: start the process that loads the store: %w", err)
	}
	defer input.Close()
	ready := false
	for lines := bufio.NewScanner(output); !ready && lines.Scan(); {
		ready = lines.Text() == LoadedLine
	}
	if ready {
		if err := cmd.Process.Kill(); err != nil {
			return fmt.Errorf("bench: kill the process that loaded the store: %w", err)
		}
		_ = cmd.Wait() // it was killed, and says so
		p.Say("killed the process that loaded the store")
		return nil
	}
	_ = input.Close()
	err = cmd.Wait()
	switch {
	case ctx.Err() != nil:
		return context.Cause(ctx)
	case err == nil:
		err = errors.New("it reported success")
	}
	return fmt.Errorf("bench: the process that loads the store ended before it was done: %w", err)
}
