package redisstore

import (
	"context"
	"encoding/binary"
	"errors"
	"fmt"
	"runtime"
	"slices"
	"time"

	"github.com/abidehq/abide/store"
)

// Commits of this process that come while others are under way gather, and go to the
// server together: one script applies them one after another, and says of each what became
// of it. What a script costs besides its work, and a sync, is shared by all of them. The
// server does nothing else meanwhile, so a group ends at so many things or bytes; a commit
// that is larger goes alone.
const (
	maxFlights    = 2    // groups that are under way
	maxTogether   = 64   // commits in a group
	maxThings     = 1000 // that the commits of a group do
	maxGroupBytes = 1 << 20
)

// call is a commit that somebody waits for.
//
// A call is written by Commit until it is submitted, then by the goroutine of
// its group, until done is closed; then Commit reads err. over gives back the
// reference that keeps the store open; it is called by the group and not by the
// caller, who may have left.
type call struct {
	ctx        context.Context //nolint:containedctx // it is that of who waits
	tx         string          // for the script
	things     int
	grows      bool
	puts       int
	writes     []written // records that it changes
	partitions []target  // where it puts something that is ready

	done chan struct{} // closed when it is over; err is set before
	err  error
	over func()
}

// submit adds a commit to those that gather.
func (s *Store) submit(c *call) {
	s.gather.Lock()
	defer s.gather.Unlock()
	s.gather.calls = append(s.gather.calls, c)
	s.fly()
}

// fly sends what has gathered, unless so many are under way that it pays to wait for more.
// The lock of those that gather is held.
//
// The rule len(calls) >= running is what makes groups grow under load. With one
// group in flight, a second one is sent only if it is at least as large: callers
// of the first come back with their next commit about when it returns, and a
// small group that goes ahead of them would split them for good.
func (s *Store) fly() {
	g := &s.gather
	for len(g.calls) > 0 && (g.flights == 0 || g.flights < maxFlights && len(g.calls) >= g.running) {
		group, looks := g.take(), g.looks
		g.looks = nil
		g.flights++
		g.running += len(group)
		go s.flight(group, looks)
	}
	if g.flights == 0 { // nothing will take them along
		for _, w := range g.looks {
			go s.lookFor(w)
		}
		g.looks = nil
	}
}

// ride has a busy waiter look with the next group of commits, if others are under
// way: what it finds is mostly what these put, and it gets that before it gets to a partition. It
// reports whether there is one to wait for.
//
// Without it a busy process would send a claim script between any two groups,
// which mostly finds nothing: what is put is leased to waiting calls by the
// script that puts it. With replicas to wait for, a claim would wait for them
// too, so it goes alone.
func (s *Store) ride(w *waiter) bool {
	if w.Request.Wait == 0 || s.replicas.Load() > 0 {
		return false
	}
	s.gather.Lock()
	defer s.gather.Unlock()
	if s.gather.flights == 0 || len(s.gather.looks) == maxWants {
		return false
	}
	s.gather.looks = append(s.gather.looks, w)
	return true
}

// take returns the commits that go together next.
func (g *gathering) take() []*call {
	n, bytes, things := 0, 0, 0
	for n < len(g.calls) && n < maxTogether {
		c := g.calls[n]
		bytes += len(c.tx)
		things += c.things
		if n > 0 && (bytes > maxGroupBytes || things > maxThings) {
			break
		}
		n++
	}
	taken := g.calls[:n:n]
	g.calls = g.calls[n:]
	if len(g.calls) == 0 {
		g.calls = nil
	}
	return taken
}

// flight has a group done, with calls that look along.
//
// It yields before it sends the next group: callers that were told something
// get to run, and their next commits come along.
func (s *Store) flight(group []*call, looks []*waiter) {
	n := len(group)
	group = slices.DeleteFunc(group, func(c *call) bool {
		err := c.ctx.Err()
		if err != nil { // nobody waits for it any more, and it has not begun
			c.end(err)
		}
		return err != nil
	})
	if len(group) > 0 {
		s.commitGroup(group, looks)
	} else {
		for _, w := range looks {
			go s.lookFor(w)
		}
	}
	runtime.Gosched() // whoever was told something goes on, and comes along
	s.gather.Lock()
	defer s.gather.Unlock()
	s.gather.flights--
	s.gather.running -= n
	s.fly()
}

func (c *call) end(err error) {
	c.err = err
	close(c.done)
	c.over()
}

// commitGroup has the script run, and tells everybody what came of it.
//
// The order of what follows the answer is part of the contract. Await calls are
// told, and claims handed over, before the commits return: a caller whose commit
// has returned must not find a waiting call that does not know of it yet. If the
// answer is lost or cannot be read, nothing is known: reservations are cancelled
// (what was leased for them ends by time), the records are in doubt, and every
// caller gets the error.
func (s *Store) commitGroup(group []*call, looks []*waiter) {
	wants := s.reserve(group, looks)
	a := s.groupArgs(group, wants)
	sc := commitScript
	if len(wants) > 0 {
		sc = handOverScript
	}
	m, err := s.evalDurably(s.unending, sc, a)
	if err != nil {
		s.unreserve(wants)
		for _, c := range group {
			s.doubt(c.writes)
			c.end(err)
		}
		return
	}
	answer := read(m)
	answer.text()
	now := answer.num()
	ready := s.parseReady(answer.sub())
	handed := answer.sub()
	s.noteExpiry(now, answer.num())
	for refused := answer.sub(); refused.more(); {
		i := int(refused.num()) - 1
		r := &refusal{verdict: refused.text(), index: int(refused.num()) - 1, actual: refused.num()}
		answer.note(refused.err)
		if i >= 0 && i < len(group) && refused.err == nil {
			group[i].err = r
		}
	}
	versions := answer.sub()
	for _, c := range group {
		if c.err == nil {
			c.learn(versions)
			answer.note(versions.err)
		}
		switch {
		case answer.err != nil:
			s.doubt(c.writes)
			c.err = fmt.Errorf("redisstore: commit: %w", answer.err)
		case c.err == nil:
			s.tellWritten(c.writes)
		}
	}
	due := answer.num() == 1
	s.noteExpiry(now, answer.num())
	s.handOver(wants, handed, due)
	s.wake(now, ready)
	for _, c := range group {
		c.end(c.err)
	}
}

// groupArgs writes a group for the script.
func (s *Store) groupArgs(group []*call, wants []*want) args {
	puts, writes, grows := 0, 0, false
	for _, c := range group {
		puts += c.puts
		writes += len(c.writes)
		grows = grows || c.grows
	}
	hint := manyRecords
	if writes <= maxHinted {
		digests := make([]byte, 0, 8*writes)
		for _, c := range group {
			for i := range c.writes {
				digests = binary.BigEndian.AppendUint64(digests, c.writes[i].digest)
			}
		}
		hint = string(digests)
	}
	a := make(args, 0, 8+len(group)+8*len(wants))
	a.add(s.listens(), hint)
	a.len(puts)
	a.len(writes)
	a.yesNo(grows)
	a.len(len(group))
	for _, c := range group {
		a.add(c.tx)
	}
	a.len(len(wants))
	for _, w := range wants {
		a.want(&w.waiter.Request, w.token)
	}
	return a
}

// learn takes down the versions of records that were put at any version.
func (c *call) learn(versions *answer) {
	for i := range c.writes {
		if w := &c.writes[i]; w.put && w.version == 0 {
			w.version = versions.num()
		}
	}
}

// doubt has those look who wait for records of which nobody knows what they are now.
func (s *Store) doubt(list []written) {
	for i := range list {
		list[i].version = 0
	}
	s.tellWritten(list)
}

// newCall writes a Tx down, which is the caller's again then.
func (s *Store) newCall(ctx context.Context, tx *store.Tx, ops, bytes int) *call {
	c := &call{ctx: ctx, things: ops + len(tx.Append), grows: grows(tx), puts: len(tx.Put), done: make(chan struct{})}
	c.tx, c.writes = packTx(tx, 48*ops+bytes)
	var now time.Time
	for i := range tx.Put[:min(len(tx.Put), maxPuts)] {
		m := &tx.Put[i]
		if !m.VisibleAt.IsZero() {
			if now.IsZero() {
				now = s.ticker().Now()
			}
			if m.VisibleAt.After(now) {
				continue
			}
		}
		if t := (target{m.Key.Queue, m.Route}); !slices.Contains(c.partitions, t) {
			c.partitions = append(c.partitions, t)
		}
	}
	return c
}

// Commit applies tx: one script, which checks everything before it changes anything. What
// it makes ready for a Claim that waits in this process is claimed by the same script.
func (s *Store) Commit(ctx context.Context, tx *store.Tx) error {
	ops, bytes, err := tx.Size()
	if err != nil {
		return err
	}
	done, err := s.begin(ctx, "commit")
	if err != nil {
		return err
	}
	if tx.Empty() {
		done()
		return nil
	}
	c := s.newCall(ctx, tx, ops, bytes)
	c.over = done
	s.submit(c)
	select {
	case <-c.done:
	case <-ctx.Done():
		return ctx.Err() // it goes on, if it has begun
	}
	if r, refused := errors.AsType[*refusal](c.err); refused {
		return r.of(tx)
	}
	return c.err
}
