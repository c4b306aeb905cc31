package redisstore

import (
	"context"
	"errors"
	"fmt"
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
type call struct {
	ctx    context.Context //nolint:containedctx // it is that of who waits
	tx     string          // for the script
	things int
	grows  bool
	puts   int
	writes int      // records that it changes
	hint   []byte   // their digests
	many   bool     // there are too many of them
	lanes  []target // where it puts something that is ready

	done chan struct{} // closed when it is over; err is set before
	err  error
	over func()
}

// target is where somebody may wait for what a commit puts.
type target struct{ queue, route string }

// submit adds a commit to those that gather.
func (s *Store) submit(c *call) {
	s.gather.Lock()
	defer s.gather.Unlock()
	s.gather.calls = append(s.gather.calls, c)
	s.fly()
}

// fly sends what has gathered, unless so many are under way that it pays to wait for more.
// The lock of those that gather is held.
func (s *Store) fly() {
	g := &s.gather
	for len(g.calls) > 0 && (g.flights == 0 || g.flights < maxFlights && len(g.calls) >= g.running) {
		group := g.take()
		g.flights++
		g.running += len(group)
		go s.flight(group)
	}
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

// flight has a group done.
func (s *Store) flight(group []*call) {
	n := len(group)
	group = slices.DeleteFunc(group, func(c *call) bool {
		err := c.ctx.Err()
		if err != nil { // nobody waits for it any more, and it has not begun
			c.end(err)
		}
		return err != nil
	})
	if len(group) > 0 {
		s.commitGroup(group)
	}
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
func (s *Store) commitGroup(group []*call) {
	wants := s.reserve(group)
	a, hint := s.groupArgs(group, wants)
	sc := commitScript
	if len(wants) > 0 {
		sc = handOverScript
	}
	m, err := s.evalDurably(s.unending, sc, a)
	if err != nil {
		s.unreserve(wants)
		for _, c := range group {
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
	s.handOver(wants, handed)
	s.wake(now, ready)
	s.tellRecords(hint)
	for _, c := range group {
		if answer.err != nil {
			c.err = fmt.Errorf("redisstore: commit: %w", answer.err)
		}
		c.end(c.err)
	}
}

// groupArgs writes a group for the script, and returns which records it changes.
func (s *Store) groupArgs(group []*call, wants []*want) (a args, hint string) {
	puts, mutations, grows, many := 0, 0, false, false
	var hinted []byte
	for _, c := range group {
		puts += c.puts
		mutations += c.writes
		grows = grows || c.grows
		many = many || c.many
		hinted = append(hinted, c.hint...)
	}
	hint = string(hinted)
	if many || len(hinted) > 8*maxHinted {
		hint = manyRecords
	}
	a = make(args, 0, 8+len(group)+8*len(wants))
	a.add(s.listens(), hint)
	a.len(puts)
	a.len(mutations)
	a.yesNo(grows)
	a.len(len(group))
	for _, c := range group {
		a.add(c.tx)
	}
	a.len(len(wants))
	for _, w := range wants {
		a.want(&w.waiter.req, w.token)
	}
	return a, hint
}

// newCall writes a Tx down, which is the caller's again then.
func (s *Store) newCall(ctx context.Context, tx *store.Tx) *call {
	c := &call{ctx: ctx, tx: packTx(tx), things: things(tx), grows: grows(tx), puts: len(tx.Put), done: make(chan struct{})}
	c.writes = len(tx.PutRecords) + len(tx.DeleteRecords)
	c.hint, c.many = recordHint(tx)
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
		if t := (target{m.Key.Queue, m.Route}); !slices.Contains(c.lanes, t) {
			c.lanes = append(c.lanes, t)
		}
	}
	return c
}

// Commit applies tx: one script, which checks everything before it changes anything. What
// it makes ready for a Claim that waits in this process is claimed by the same script.
func (s *Store) Commit(ctx context.Context, tx *store.Tx) error {
	if err := tx.Validate(); err != nil {
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
	c := s.newCall(ctx, tx)
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
