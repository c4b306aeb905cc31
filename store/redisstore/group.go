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

// Commits of this process to a segment that arrive while others are in flight are queued, and go to the
// server as a group: one script applies them one after another, and reports the outcome of
// each. They share the fixed cost of a script and the sync. The server serves no other
// client while a script runs, so the operations and bytes of a group are limited; a commit
// that is larger than the limits goes alone.
const (
	maxGroupsInFlight = 2    // one runs on the server while the next is on its way
	maxGroupCommits   = 64   // commits in a group
	maxGroupOps       = 1000 // operations of the commits of a group
	maxGroupBytes     = 1 << 20
)

// pendingCommit is a Commit call, from submit until its group has ended.
//
// It is written by Commit until it is submitted, then by the goroutine of its
// group, until done is closed; then Commit reads err. It holds no part of the
// caller's Tx: tx is an encoded copy, so that the caller may change the Tx as soon
// as Commit has returned, although the group may still be in flight.
type pendingCommit struct {
	ctx        context.Context //nolint:containedctx // of the Commit call
	tx         string          // encoded for the script
	ops        int             // counted against maxGroupOps
	grows      bool            // it needs memory on the server: see grows
	puts       int             // messages, each of which takes a number
	writes     []written       // records that it changes, puts before deletes
	partitions []destination   // where it puts messages that are visible now

	done    chan struct{} // closed when the outcome is known; err is set before
	err     error         // nil, a *refusal, or why the outcome is unknown
	release func()        // allows Close to proceed; called by the group, as the caller may have left
}

// submit adds a commit to the queue of its segment, and sends it if a group may go now.
func (s *Store) submit(seg *segment, c *pendingCommit) {
	seg.commits.Lock()
	defer seg.commits.Unlock()
	seg.commits.pending = append(seg.commits.pending, c)
	s.sendGroups(seg)
}

// sendGroups sends the pending commits as groups, unless so many are in flight that it pays
// to wait for more. The lock of the queue is held.
//
// The rule len(pending) >= commitsInFlight is what makes groups grow under load. With
// one group in flight, a second one is sent only if it is at least as large: callers
// of the first come back with their next commit about when it returns, and a
// small group that goes ahead of them would split them for good.
//
// Attached attempts go with the first group that is sent. If no group is in
// flight and none is pending, no later group is certain to come, so each gets an
// attempt of its own: an attached attempt never waits for a commit that may not
// happen.
func (s *Store) sendGroups(seg *segment) {
	g := &seg.commits
	for len(g.pending) > 0 && (g.groupsInFlight == 0 || g.groupsInFlight < maxGroupsInFlight && len(g.pending) >= g.commitsInFlight) {
		group, attempts := g.nextGroup(), g.attempts
		g.attempts = nil
		g.groupsInFlight++
		g.commitsInFlight += len(group)
		go s.runGroup(seg, group, attempts)
	}
	if g.groupsInFlight == 0 { // no group will take them
		for _, w := range g.attempts {
			go s.attempt(w)
		}
		g.attempts = nil
	}
}

// attachToGroup makes the attempt of a busy waiter part of the next group of commits, if a
// group is in flight. It reports whether it has; if not, the caller makes the attempt.
//
// Without it a busy process would send a claim script between any two groups,
// which mostly finds nothing: what is put is leased to waiting calls by the
// script that puts it. What an attached attempt finds is mostly what its group
// puts, and it leases that before it gets to a partition.
//
// It does not apply to a call with Wait 0, which must not wait for a commit; to
// stores with replicas, where the claim would have to wait for them as the commits
// do; and beyond maxReservations, since each one makes the script longer. With several
// segments the outlook of the call says instead that no attempt is needed.
func (s *Store) attachToGroup(w *waiter) bool {
	if w.Request.Wait == 0 || s.replicas.Load() > 0 || s.several() {
		return false
	}
	g := &s.segments[0].commits
	g.Lock()
	defer g.Unlock()
	if g.groupsInFlight == 0 || len(g.attempts) == maxReservations {
		return false
	}
	g.attempts = append(g.attempts, w)
	return true
}

// nextGroup removes the commits of the next group from the queue, in the order of their
// arrival. The group has at least one commit, even if that one exceeds the limits.
func (g *commitQueue) nextGroup() []*pendingCommit {
	n, bytes, things := 0, 0, 0
	for n < len(g.pending) && n < maxGroupCommits {
		c := g.pending[n]
		bytes += len(c.tx)
		things += c.ops
		if n > 0 && (bytes > maxGroupBytes || things > maxGroupOps) {
			break
		}
		n++
	}
	taken := g.pending[:n:n]
	g.pending = g.pending[n:]
	if len(g.pending) == 0 {
		g.pending = nil
	}
	return taken
}

// runGroup sends a group with the attempts that are attached to it, and ends its commits.
//
// A commit whose context has ended by now is ended here, without being sent: it is the
// last moment at which its outcome is certain. If no commit is left, the attached
// attempts are made one by one.
//
// It yields before it sends the next group: callers whose commit or claim has just
// returned get to run, and their next commits come along.
func (s *Store) runGroup(seg *segment, group []*pendingCommit, attempts []*waiter) {
	n := len(group)
	group = slices.DeleteFunc(group, func(c *pendingCommit) bool {
		err := c.ctx.Err()
		if err != nil { // its caller has left, and it was not sent
			c.end(err)
		}
		return err != nil
	})
	if len(group) > 0 {
		s.commitGroup(seg, group, attempts)
	} else {
		for _, w := range attempts {
			go s.attempt(w)
		}
	}
	runtime.Gosched()
	seg.commits.Lock()
	defer seg.commits.Unlock()
	seg.commits.groupsInFlight--
	seg.commits.commitsInFlight -= n
	s.sendGroups(seg)
}

// end sets the outcome and wakes the caller. The reference to the store is released last,
// so that Close does not return before the caller can see the outcome.
func (c *pendingCommit) end(err error) {
	c.err = err
	close(c.done)
	c.release()
}

// commitGroup runs the script of a group and distributes its answer.
//
// The order of what follows the answer is part of the contract. Await calls are
// notified, and claims handed over, before the commits return: a caller whose commit
// has returned must not find a waiting call that does not know of it yet. If the
// answer is lost or cannot be read, the outcome is unknown: reservations are cancelled
// (what was leased for them ends by time), the versions of the records count as
// unknown, and every caller gets the error.
//
// The script runs under uncancelled: the commits of several callers share it, so that
// none of their contexts may end it, and Close waits for it.
//
// The answer is, in this order: "ok"; the store's time; the partitions that have become
// ready; for each reservation what was claimed; the earliest expiry of the messages
// that were put; the refusals, each with the number of its commit; the versions of
// records put at any version; whether leases or messages have expired (due); the
// earliest expiry of all. committed.lua writes it.
func (s *Store) commitGroup(seg *segment, group []*pendingCommit, attempts []*waiter) {
	reservations := s.reserve(group, attempts)
	a := s.groupArgs(seg, group, reservations)
	sc := commitScript
	if len(reservations) > 0 {
		sc = handOverScript
	}
	m, err := s.evalDurably(s.uncancelled, seg, sc, a)
	if err != nil {
		s.cancelReservations(seg, reservations)
		for _, c := range group {
			s.markUnknown(c.writes)
			c.end(err)
		}
		return
	}
	answer := read(m)
	answer.text()
	now := answer.num()
	ready := s.parseReady(answer.sub())
	handed := answer.sub()
	s.noteExpiry(seg, now, answer.num())
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
			c.readVersions(versions)
			answer.note(versions.err)
		}
		switch {
		case answer.err != nil:
			s.markUnknown(c.writes)
			c.err = fmt.Errorf("redisstore: commit: %w", answer.err)
		case c.err == nil:
			s.notifyWritten(c.writes)
		}
	}
	due := answer.num() == 1
	s.noteExpiry(seg, now, answer.num())
	s.handOver(seg, reservations, handed, due)
	s.wake(seg, now, ready)
	for _, c := range group {
		c.end(c.err)
	}
}

// groupArgs encodes a group for the script. What the script needs to know before it reads
// the commits comes first: how many message numbers to set aside, how many records will
// change, and whether to check the memory limit. The hint is made here, of the records that
// the commits would change: the digests of refused ones cost other processes a read.
func (s *Store) groupArgs(seg *segment, group []*pendingCommit, reservations []*reservation) args {
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
	a := make(args, 0, 8+len(group)+8*len(reservations))
	a.add(s.listenArg(seg), hint)
	a.len(puts)
	a.len(writes)
	a.yesNo(grows)
	a.len(len(group))
	for _, c := range group {
		a.add(c.tx)
	}
	a.len(len(reservations))
	for _, w := range reservations {
		a.claimRequest(&w.waiter.Request, w.token)
	}
	return a
}

// readVersions takes the versions of records that were put at any version from the answer,
// in the order of the commits that were applied. Other versions are known before: the
// expected one, plus one.
func (c *pendingCommit) readVersions(versions *answer) {
	for i := range c.writes {
		if w := &c.writes[i]; w.put && w.version == 0 {
			w.version = versions.num()
		}
	}
}

// markUnknown forgets the versions of records whose commit has an unknown outcome, and makes
// the Await calls of these records read them.
func (s *Store) markUnknown(list []written) {
	for i := range list {
		list[i].version = 0
	}
	s.notifyWritten(list)
}

// newCommit encodes a Tx. The result refers to no part of it.
//
// It also notes the partitions to which the Tx puts messages that are visible at once,
// for reserve: of the first maxPuts messages only, and by the clock of this process. Both
// are guesses that cost nothing if wrong. The script decides what is ready; a call that
// was reserved in vain waits on, and one that was not is woken by the answer.
func (s *Store) newCommit(ctx context.Context, tx *store.Tx, ops, bytes int) *pendingCommit {
	c := &pendingCommit{ctx: ctx, ops: ops + len(tx.Append), grows: grows(tx), puts: len(tx.Put), done: make(chan struct{})}
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
		d := destination{target: target{m.Key.Queue, m.Route}}
		if s.limited.Load() {
			d.tenant = m.Key.Tenant
		}
		if !slices.Contains(c.partitions, d) {
			c.partitions = append(c.partitions, d)
		}
	}
	return c
}

// Commit applies tx, as part of a group: see the package comment. What it makes ready for a
// Claim that waits in this process is claimed by the same script.
//
// It returns [store.ErrTooLarge] if the tenants of tx are in different segments,
// [store.ErrClaimLost] and [store.ErrConflict] as the contract says, and
// [store.ErrFull] if the server is at its memory limit: then nothing has changed. After the
// error of ctx, a connection error, or too few replicas in time, the outcome is unknown.
func (s *Store) Commit(ctx context.Context, tx *store.Tx) error {
	ops, bytes, err := tx.Size()
	if err != nil {
		return err
	}
	seg, err := s.segmentOfTx(tx)
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
	c := s.newCommit(ctx, tx, ops, bytes)
	c.release = done
	s.submit(seg, c)
	select {
	case <-c.done:
	case <-ctx.Done():
		return ctx.Err() // it is applied nevertheless if it was sent
	}
	if r, refused := errors.AsType[*refusal](c.err); refused {
		return r.errorFor(tx)
	}
	return c.err
}
