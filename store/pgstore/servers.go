package pgstore

import (
	"context"
	"errors"
	"fmt"
	"net"
	"slices"
	"strconv"
	"sync"
	"sync/atomic"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgconn"

	"github.com/abidehq/abide/internal/base"
)

// servers chooses among the servers of a URL that names several. The one to work on is the primary
// of the highest timeline: a standby that is promoted begins a new one, so that of two servers that
// take writes the one with the lower timeline is a primary that was replaced, and has not been told.
//
// The driver would find the primary by trying one server after another each time that it connects.
// That is not enough: a primary that is frozen, or cut off, accepts connections and never answers,
// and one that was replaced and is still reachable answers everything but commits, which wait for a
// standby that has left it. So when calls fail, or take longer than stuckAfter, all servers are
// asked at once. When another one is the primary, all connections to the others are closed, those in
// use too, and all new ones go there.
//
// Commits that were under way have an unknown outcome, as with any lost connection. With synchronous
// replication the old primary cannot have acknowledged what the new one does not have.
//
// Lock order: mu is taken alone, and not held during I/O.
type servers struct {
	hosts []*pgx.ConnConfig // one for each server
	names []string

	doubt atomic.Bool // a call has failed since the last look
	calls [2]inFlight // those of commits, and all others

	mu         sync.Mutex
	chosen     int   // index of a server; -1 if none was found yet
	timeline   int64 // of that server; 0 if unknown
	generation int   // how often another one was chosen
	conns      map[*trackedConn]int
}

// Timing of the choice.
const (
	watchEvery = 500 * time.Millisecond // how often calls are looked at
	stuckAfter = time.Second            // no call has ended for so long, and some are under way
	probeTime  = 2 * time.Second        // how long a server may take to answer
)

// newServers returns the servers of a configuration, or nil if there is one, or the user chooses by
// target_session_attrs.
func newServers(c *config) *servers {
	if c.anyServer {
		return nil
	}
	s := &servers{chosen: -1, conns: map[*trackedConn]int{}}
	all := append([]*pgconn.FallbackConfig{{Host: c.conn.Host, Port: c.conn.Port, TLSConfig: c.conn.TLSConfig}}, c.conn.Fallbacks...)
	for _, f := range all {
		name := net.JoinHostPort(f.Host, strconv.Itoa(int(f.Port)))
		if i := slices.Index(s.names, name); i >= 0 { // the same one with other TLS
			s.hosts[i].Fallbacks = append(s.hosts[i].Fallbacks, f)
			continue
		}
		host := c.conn.Copy()
		host.Host, host.Port, host.TLSConfig, host.Fallbacks = f.Host, f.Port, f.TLSConfig, nil
		s.hosts, s.names = append(s.hosts, host), append(s.names, name)
	}
	if len(s.hosts) == 1 {
		return nil
	}
	return s
}

// configure has a connection go to the chosen server, and be closed when another one is chosen.
func (s *servers) configure(c *pgx.ConnConfig) {
	if s == nil {
		return
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	generation := s.generation
	if s.chosen >= 0 {
		host := s.hosts[s.chosen]
		c.Host, c.Port, c.TLSConfig, c.Fallbacks = host.Host, host.Port, host.TLSConfig, host.Fallbacks
	}
	c.DialFunc = func(ctx context.Context, network, address string) (net.Conn, error) {
		conn, err := dial(ctx, network, address)
		if err != nil {
			return nil, err
		}
		return s.track(conn, generation)
	}
}

// trackedConn is a connection that is closed when another server is chosen.
type trackedConn struct {
	net.Conn
	servers *servers
}

// track notes a connection of a generation, and closes it if that is over. So is the request to
// cancel what is under way on a lost connection: on a primary that was replaced, it would end the wait
// for the standby, and make visible there what nobody else has.
func (s *servers) track(conn net.Conn, generation int) (net.Conn, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if generation != s.generation {
		_ = conn.Close() // nothing was written
		return nil, fmt.Errorf("pgstore: another server is the primary: %w", net.ErrClosed)
	}
	t := &trackedConn{conn, s}
	s.conns[t] = generation
	return t, nil
}

// Close closes the connection.
func (t *trackedConn) Close() error {
	t.servers.mu.Lock()
	delete(t.servers.conns, t)
	t.servers.mu.Unlock()
	return t.Conn.Close()
}

// inFlight counts calls.
type inFlight struct {
	begun, ended atomic.Int64
	last         int64     // ended, when it was last looked at
	since        time.Time // since when it has been that
}

// Kinds of calls.
const (
	commitCall = iota
	otherCall
)

// begin notes that a call is under way, until the function that it returns is called with its error.
func (s *servers) begin(kind int) func(err error) {
	if s == nil {
		return func(error) {}
	}
	s.calls[kind].begun.Add(1)
	return func(err error) {
		s.calls[kind].ended.Add(1)
		if err != nil && isGone(err) && !errors.Is(err, context.Canceled) {
			s.doubt.Store(true)
		}
	}
}

// stuck reports whether calls are under way and none has ended for a while. It is called by one
// goroutine.
func (f *inFlight) stuck(now time.Time) bool {
	ended := f.ended.Load()
	if ended != f.last || f.begun.Load() == ended {
		f.last, f.since = ended, now
	}
	return now.Sub(f.since) >= stuckAfter
}

// suspicious reports whether the servers must be asked which of them is the primary.
func (s *servers) suspicious(now time.Time) bool {
	doubt := s.doubt.Swap(false)
	for i := range s.calls {
		doubt = s.calls[i].stuck(now) || doubt
	}
	return doubt
}

// answer is what a server has said of itself.
type answer struct {
	host     int
	primary  bool
	timeline int64 // 0 if it does not say
}

// Statements to a server. Not every server that speaks PostgreSQL's protocol tells its timeline.
const (
	askPrimary  = `SELECT NOT pg_is_in_recovery() AND NOT current_setting('transaction_read_only')::boolean`
	askTimeline = `SELECT substr(pg_walfile_name(pg_current_wal_lsn()), 1, 8)`
)

// ask asks a server what it is.
func (s *servers) ask(ctx context.Context, host int) (a answer, err error) {
	a.host = host
	config := s.hosts[host].Copy()
	config.ValidateConnect, config.DialFunc = nil, dial
	config.DefaultQueryExecMode = pgx.QueryExecModeSimpleProtocol
	conn, err := pgx.ConnectConfig(ctx, config)
	if err != nil {
		return a, err
	}
	defer func() { _ = conn.Close(ctx) }() // what it said is known
	if err := conn.QueryRow(ctx, askPrimary).Scan(&a.primary); err != nil || !a.primary {
		return a, err
	}
	var digits string
	if err := conn.QueryRow(ctx, askTimeline).Scan(&digits); err != nil {
		return a, nil // it takes writes, and says no more of itself
	}
	a.timeline, err = strconv.ParseInt(digits, 16, 64)
	return a, err
}

// find asks all servers, and returns the primary of the highest timeline: as soon as there is one
// that is higher than the known one, or when all have answered or had their time.
func (s *servers) find(ctx context.Context) (best answer, found bool) {
	ctx, cancel := context.WithTimeout(ctx, probeTime)
	defer cancel()
	answers := make(chan answer, len(s.hosts))
	for host := range s.hosts {
		go func() {
			a, err := s.ask(ctx, host)
			a.primary = a.primary && err == nil
			answers <- a
		}()
	}
	s.mu.Lock()
	chosen, timeline := s.chosen, s.timeline
	s.mu.Unlock()
	for range s.hosts {
		a := <-answers
		if a.primary && (!found || a.timeline > best.timeline || a.timeline == best.timeline && a.host == chosen) {
			best, found = a, true
		}
		if found && chosen >= 0 && best.timeline > timeline {
			break
		}
	}
	return best, found && best.timeline >= timeline
}

// choose asks all servers, and chooses the primary. It reports whether that is another one than
// before; then the connections to the others are closed.
func (s *servers) choose(ctx context.Context) (changed bool) {
	best, found := s.find(ctx)
	if !found {
		return false
	}
	s.mu.Lock()
	before := s.chosen
	s.chosen, s.timeline = best.host, best.timeline
	var lost []net.Conn
	if before != best.host {
		s.generation++
		for c := range s.conns {
			lost = append(lost, c.Conn)
		}
		clear(s.conns)
	}
	s.mu.Unlock()
	for _, c := range lost {
		_ = c.Close() // whatever was under way there
	}
	return before != best.host
}

// watch chooses another server when the one that is worked on is not the primary any more, until
// ctx ends.
func (d *database) watch(ctx context.Context) {
	s := d.config.servers
	for base.Sleep(ctx, d.machine, watchEvery) == nil {
		if !s.suspicious(d.machine.Now()) || !s.choose(ctx) {
			continue
		}
		d.commits.Reset()
		d.others.Reset()
		d.aside.Reset()
		d.cache.clear()
		s.mu.Lock()
		name, timeline := s.names[s.chosen], s.timeline
		s.mu.Unlock()
		d.log.Warn("another server is the primary", "server", name, "timeline", timeline)
	}
}
