package fleet

import (
	"testing"
	"time"

	"github.com/abidehq/abide/internal/testenv"
)

// every is how often an order is started.
const every = 30 * time.Millisecond

// rounds is how often a fault happens in a test.
func rounds(short, long int) int {
	if testenv.Long() {
		return long
	}
	return short
}

// newFleetOf returns a fleet of three processes on a server, with a load on them, and what
// stops the load.
func newFleetOf(t *testing.T, server *testenv.PostgresServer, change func(i int, s *setup)) (*fleet, func()) {
	t.Helper()
	f := newFleet(t, server)
	for i := range 3 {
		f.add(func(s *setup) {
			if change != nil {
				change(i, s)
			}
		})
	}
	stop := f.load(every, f.start)
	return f, stop
}

// TestKilledProcesses kills one process after another, and each time another one takes its
// place.
func TestKilledProcesses(t *testing.T) {
	t.Parallel()
	f, stop := newFleetOf(t, testenv.Postgres(t), nil)
	for range rounds(4, 40) {
		f.progress(60)
		i, p := f.any()
		p.kill()
		f.processes[i] = startProcess(t, f.setup(nil))
	}
	stop()
	f.check()
	f.wantTakenOver()
}

// TestFrozenProcesses has a process stand still until all that it holds belongs to others,
// and then go on with what it believes to be its own.
func TestFrozenProcesses(t *testing.T) {
	t.Parallel()
	f, stop := newFleetOf(t, testenv.Postgres(t), nil)
	for i := range rounds(2, 12) {
		f.progress(60)
		_, p := f.any()
		thaw := p.freeze()
		f.pass(lease * 3 / 2)
		if i%6 == 5 {
			f.pass(6 * lease) // longer than the code of an orchestration may take
		}
		thaw()
		f.wantWork(p)
	}
	stop()
	f.check()
	f.wantTakenOver()
}

// TestDatabaseRestarts stops the database as an operator does, and as a crash does, for a
// moment and for longer than a lease, and has it stand still.
func TestDatabaseRestarts(t *testing.T) {
	t.Parallel()
	server := testenv.Postgres(t)
	f, stop := newFleetOf(t, server, nil)
	restart := func(end func(), away time.Duration) {
		f.progress(60)
		f.without(func() {
			end()
			pause(away)
			server.Start()
		})
	}
	for range rounds(1, 6) {
		restart(server.Stop, 0)
		restart(server.Kill, 0)
		restart(server.Stop, lease*3/2)
		f.progress(60)
		f.without(func() {
			resume := server.Hang()
			pause(lease * 3 / 2)
			resume()
		})
	}
	f.progress(60)
	stop()
	f.check()
}

// TestBrokenNetwork cuts the network between one process and the database, and has it
// swallow what is sent, for longer than a lease.
func TestBrokenNetwork(t *testing.T) {
	t.Parallel()
	server := testenv.Postgres(t)
	network := testenv.Proxy(t, server.Addr)
	f, stop := newFleetOf(t, server, func(i int, s *setup) {
		if i == 0 {
			s.Store = server.Through(t, s.Store, network.Addr())
		}
	})
	for range rounds(1, 6) {
		for _, fault := range []func(){
			func() { network.Cut(); f.pass(lease * 3 / 2) },
			func() { network.Stall(); f.pass(lease * 3 / 2) },
			func() { network.Stall(); f.pass(lease); network.Cut() },
		} {
			f.progress(60)
			fault()
			network.Resume()
			f.wantWork(f.processes[0])
		}
	}
	stop()
	f.check()
	f.wantTakenOver()
}

// TestWrongClocks has processes whose clocks are off by minutes, one fast and one slow.
func TestWrongClocks(t *testing.T) {
	t.Parallel()
	f, stop := newFleetOf(t, testenv.Postgres(t), func(i int, s *setup) {
		s.Skew = time.Duration(i-1) * 7 * time.Minute
	})
	f.progress(60)
	for _, p := range f.processes {
		f.wantWork(p)
	}
	f.processes[1].kill() // the one that is right
	f.processes[1] = startProcess(t, f.setup(func(s *setup) { s.Skew = 3 * time.Hour }))
	f.wantWork(f.processes[1])
	f.progress(rounds(60, 4_000))
	stop()
	f.check()
}

// TestNoNotifications has processes that the database cannot tell anything: one that does
// not know, and one that does; and then all of them.
func TestNoNotifications(t *testing.T) {
	t.Parallel()
	server := testenv.Postgres(t)
	quiet := deaf(t, server.Addr)
	mute := func(s *setup) { s.Store = server.Through(t, s.Store, quiet) }
	f, stop := newFleetOf(t, server, func(i int, s *setup) {
		switch i {
		case 0:
			mute(s)
		case 1:
			s.Store += "&notify=off"
		}
	})
	f.progress(60)
	f.wantWork(f.processes[0])
	f.wantWork(f.processes[1])
	for i := 1; i < 3; i++ {
		f.processes[i].stop()
		f.processes[i] = startProcess(t, f.setup(mute))
	}
	f.progress(rounds(60, 4_000))
	stop()
	f.check()
}

// TestBehindAPooler has all processes behind PgBouncer in transaction mode, and kills one after
// another.
func TestBehindAPooler(t *testing.T) {
	t.Parallel()
	server := testenv.Postgres(t)
	pooler := testenv.PgBouncer(t, server, "default_pool_size = 40")
	pooled := func(s *setup) { s.Store = server.Through(t, s.Store, pooler) + "&pooler=transaction" }
	f, stop := newFleetOf(t, server, func(_ int, s *setup) { pooled(s) })
	for range rounds(3, 20) {
		f.progress(60)
		i, p := f.any()
		p.kill()
		f.processes[i] = startProcess(t, f.setup(pooled))
	}
	stop()
	f.check()
}
