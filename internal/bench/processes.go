package bench

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"os/exec"
	"runtime"
	"sync"
)

// maxProcesses is more than one machine is good for.
const maxProcesses = 64

// RunProcesses runs the same measurement in several processes at once, on one store that
// allows several, and adds up what they found. Command returns the one of process i, which
// prints its report as JSON to its standard output.
func RunProcesses(ctx context.Context, n int, o EngineOptions, command func(ctx context.Context, i int) (*exec.Cmd, error)) (*Report, error) {
	if n < 2 || n > maxProcesses {
		return nil, invalid("--processes is %d; 1 to %d is allowed", n, maxProcesses)
	}
	if err := o.Validate(); err != nil {
		return nil, err
	}
	together, cancel := context.WithCancel(ctx)
	defer cancel() // one that fails ends the others
	commands, outputs := make([]*exec.Cmd, n), make([]bytes.Buffer, n)
	for i := range commands {
		cmd, err := command(together, i)
		if err != nil {
			return nil, err
		}
		cmd.Stdout, commands[i] = &outputs[i], cmd
	}
	var running sync.WaitGroup
	var once sync.Once
	var failed error
	for i, cmd := range commands {
		running.Go(func() {
			if err := cmd.Run(); err != nil {
				once.Do(func() { failed = fmt.Errorf("bench: process %d: %w", i+1, err) })
				cancel()
			}
		})
	}
	running.Wait()
	switch {
	case ctx.Err() != nil:
		return nil, ctx.Err()
	case failed != nil:
		return nil, failed
	}
	return addUp(o, outputs)
}

// addUp makes one report of those of several processes: rates are added, of times the
// longest counts.
func addUp(o EngineOptions, outputs []bytes.Buffer) (*Report, error) {
	sums, longest := map[string]float64{}, map[string]float64{}
	for i := range outputs {
		var figures map[string]any
		if err := json.Unmarshal(outputs[i].Bytes(), &figures); err != nil {
			return nil, fmt.Errorf("bench: report of process %d: %w", i+1, err)
		}
		for name, value := range figures {
			if v, ok := value.(float64); ok {
				sums[name] += v
				longest[name] = max(longest[name], v)
			}
		}
	}
	r := &Report{}
	r.text(figWorkload, string(o.Workload))
	r.text(figStore, schemeOf(o.Store))
	r.count(figProcesses, int64(len(outputs)))
	r.count(figGOMAXPROCS, int64(runtime.GOMAXPROCS(0)))
	r.text(figGo, runtime.Version())
	r.count(figClients, int64(sums[figClients.name]))
	r.count(figN, int64(sums[figN.name]))
	for _, f := range []figure{figOrchestrations, figActivities, figSteps, figEvents} {
		if sum, ok := sums[f.name]; ok {
			r.number(f, sum)
		}
	}
	for _, f := range []figure{figResultP50, figResultP99, figResultMax} {
		r.number(f, longest[f.name])
	}
	return r, nil
}
