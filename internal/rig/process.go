package rig

import (
	"context"
	"sync"
	"testing"
	"time"

	"github.com/abidehq/abide/store/storetest"
)

// Runner is a service under test.
type Runner interface {
	// Run serves until ctx ends, and returns nil then.
	Run(ctx context.Context) error
}

// Process is a service that runs, as if in a process of its own.
type Process struct {
	cancel context.CancelFunc
	ended  chan struct{}

	mu   sync.Mutex
	dead bool
}

// Run has a service run until it is stopped, at the latest at the end of the test. An error
// of Run fails the test, unless the process was killed.
func Run(t testing.TB, s Runner) *Process {
	ctx, cancel := context.WithCancel(context.Background())
	p := &Process{cancel: cancel, ended: make(chan struct{})}
	go func() {
		defer close(p.ended)
		err := s.Run(ctx)
		p.mu.Lock()
		defer p.mu.Unlock()
		if err != nil && !p.dead {
			t.Errorf("Run: %v", err)
		}
	}()
	t.Cleanup(p.Stop)
	return p
}

// Cancel has the service stop, and does not wait for it.
func (p *Process) Cancel() { p.cancel() }

// Stop has the service stop, and returns when Run has.
func (p *Process) Stop() {
	p.cancel()
	<-p.ended
}

// Kill has the service stop when nobody is interested in how it ends: its store was cut
// off. It does not wait for it.
func (p *Process) Kill() {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.dead = true
	p.cancel()
}

// Caller makes calls as clients do: again, until the outcome of each is known, and to the
// process that is there.
type Caller[S any] struct {
	t       testing.TB
	mu      sync.Mutex
	current S
}

// NewCaller returns a caller of a service.
func NewCaller[S any](t testing.TB, service S) *Caller[S] { return &Caller[S]{t: t, current: service} }

// Use has the next calls made to another service.
func (c *Caller[S]) Use(service S) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.current = service
}

// Service returns the service that calls are made to.
func (c *Caller[S]) Service() S {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.current
}

// Do makes a call until its error is none of a fault, and returns that error.
func (c *Caller[S]) Do(call func(S) error) error {
	c.t.Helper()
	for range 100 {
		if err := call(c.Service()); !isFault(err) {
			return err
		}
		<-time.After(10 * time.Millisecond)
	}
	c.t.Error("a call does not succeed")
	return storetest.ErrFault
}
