package fleet

import (
	"testing"
	"time"

	"github.com/abidehq/abide/internal/testenv"
)

// chaos is a fleet on a server of its own, in which anything can happen.
type chaos struct {
	*fleet
	server   *testenv.PostgresServer
	quiet    string                      // the way to the server without notifications
	networks map[*process]*testenv.Relay // of each process
}

// join adds a process: some have wrong clocks, and some hear no notifications.
func (c *chaos) join() *process {
	c.t.Helper()
	target := c.server.Addr
	if c.rnd.IntN(3) == 0 {
		target = c.quiet
	}
	network := testenv.Proxy(c.t, target)
	p := startProcess(c.t, c.setup(func(s *setup) {
		s.Store = c.server.Through(c.t, s.Store, network.Addr())
		if c.rnd.IntN(3) == 0 {
			s.Skew = time.Duration(c.rnd.IntN(21)-10) * time.Minute
		}
	}))
	c.networks[p] = network
	return p
}

// while returns for how long a fault lasts: less than a lease, or more.
func (c *chaos) while() time.Duration {
	return lease/4 + time.Duration(c.rnd.Int64N(int64(2*lease)))
}

// TestAnything has one thing after another happen to a fleet, by chance.
func TestAnything(t *testing.T) {
	t.Parallel()
	server := testenv.Postgres(t)
	c := &chaos{fleet: newFleet(t, server), server: server, quiet: deaf(t, server.Addr), networks: map[*process]*testenv.Relay{}}
	for range 3 {
		c.processes = append(c.processes, c.join())
	}
	stop := c.load(every, c.start)
	faults := []struct {
		name string
		do   func(i int, p *process)
	}{
		{"kill", func(i int, p *process) {
			p.kill()
			c.processes[i] = c.join()
		}},
		{"freeze", func(_ int, p *process) {
			thaw := p.freeze()
			c.pass(c.while())
			thaw()
		}},
		{"freeze and kill", func(i int, p *process) {
			p.freeze()
			c.processes[i] = c.join()
			p.kill()
		}},
		{"cut", func(_ int, p *process) {
			c.networks[p].Cut()
			c.pass(c.while())
			c.networks[p].Resume()
		}},
		{"stall", func(_ int, p *process) {
			c.networks[p].Stall()
			c.pass(c.while())
			c.networks[p].Resume()
		}},
		{"stop the database", func(int, *process) { c.without(func() { server.Stop(); server.Start() }) }},
		{"kill the database", func(int, *process) { c.without(func() { server.Kill(); server.Start() }) }},
		{"hang the database", func(int, *process) {
			c.without(func() {
				resume := server.Hang()
				pause(c.while())
				resume()
			})
		}},
	}
	var happened []string
	for range rounds(5, 60) {
		c.progress(c.rnd.IntN(30))
		fault := faults[c.rnd.IntN(len(faults))]
		happened = append(happened, fault.name)
		i, p := c.any()
		fault.do(i, p)
	}
	t.Log("what happened:", happened)
	stop()
	c.check()
}
