package redisstore

import (
	"context"
	"encoding/binary"
	"slices"
	"sync"
	"time"

	"github.com/redis/rueidis"

	"github.com/abidehq/abide/internal/backoff"
	"github.com/abidehq/abide/internal/base"
)

// pollEvery is the longest time by which a lost hint delays a waiting call.
const pollEvery = 5 * time.Second

// listenArg tells scripts how many of the subscribers to hints are this process: 1, 0, or
// "all" if that cannot be known. A script publishes nothing if there are no others, which
// spares a single process all hints. With several segments it says where to publish: see
// hint.lua.
func (s *Store) listenArg(seg *segment) string {
	if s.several() {
		return "s" + string([]byte{byte(seg.index >> 8), byte(seg.index)}) + s.prefix + "hints"
	}
	if s.client.Load().cluster {
		return "all" // subscribers may be connected to another node
	}
	return yesNo(s.listening.Load())
}

// startListening subscribes to hints when the first call waits. The lock is held.
func (s *Store) startListening() {
	if !s.listenStarted {
		s.listenStarted = true
		s.background.Go(s.listen)
	}
}

// listen receives hints, on a connection of its own, and reconnects when that is lost. It
// ends with the store.
func (s *Store) listen() {
	pause := backoff.Pause{Clock: s.wall, Min: 10 * time.Millisecond, Max: time.Second}
	for s.lifetime.Err() == nil {
		if s.subscribe() {
			pause.Reset()
		}
		if pause.Sleep(s.lifetime) != nil {
			return
		}
	}
}

// subscribe listens until the connection is lost, and reports whether there was one.
//
// Between two connections hints are lost. So once it is subscribed again, known versions
// are forgotten, and one call of each subscription and every Await call asks the
// server. listening is set after the versions are cleared, and cleared itself before the
// next subscription: a version is relied on only while every hint about it is received.
func (s *Store) subscribe() bool {
	conn := s.client.Load()
	c, _ := conn.Dedicate()
	// Closed, and not returned to the pool: the client would unsubscribe first, and panics if a
	// server that is busy with a script refuses that.
	defer c.Close()
	lost := c.SetPubSubHooks(rueidis.PubSubHooks{
		OnMessage: func(m rueidis.PubSubMessage) { s.hint(m.Message) },
	})
	if err := c.Do(s.lifetime, c.B().Subscribe().Channel(s.prefix+"hints").Build()).Error(); err != nil {
		return false
	}
	s.mu.Lock()
	s.known.clear() // other processes may have changed any record
	s.mu.Unlock()
	s.listening.Store(true)
	defer s.listening.Store(false)
	s.retryAll() // hints before this moment were lost
	select {
	case <-lost:
	case <-conn.left:
	case <-s.lifetime.Done():
	}
	return true
}

// hint handles a hint of another process.
//
// A hint has the ID of its sender, whose own calls need none; the segment, if there are
// several; the time of the server; eight bytes for each record that changed, or manyRecords; and the
// partitions that have messages, with the time from which on. It is called in the
// goroutine of the connection, so it sends nothing to the server itself: attempts run in
// goroutines of their own, and Await calls read in theirs.
func (s *Store) hint(text string) {
	r := reader{s: text}
	if r.short() == s.openID {
		return
	}
	index := 0
	if s.several() {
		index = r.uint16()
	}
	now := r.int64()
	records := r.take(r.uint32())
	var list []readiness
	for r.s != "" && !r.tooShort {
		list = append(list, readiness{queue: r.short(), route: r.long(), at: r.int64()})
	}
	if r.tooShort || index >= len(s.segments) {
		s.logger.Warn("redisstore: hint undecodable", "bytes", len(text))
		return
	}
	s.wake(s.segments[index], now, list)
	s.notifyRecords(records)
}

// poll retries all waiting calls every few seconds, in case hints were lost.
func (s *Store) poll() {
	for base.Sleep(s.lifetime, s.wall, s.pollEvery) == nil {
		s.retryAll()
	}
}

// notifyDigests makes the Await calls read whose record has one of the digests. A record that
// merely shares the digest is read in vain.
func (s *Store) notifyDigests(digests []byte) {
	if len(digests) == 0 {
		return
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	for ; len(digests) >= 8; digests = digests[8:] {
		d := binary.BigEndian.Uint64(digests)
		s.known.forget(d)
		for _, a := range s.awaiting.Of(d) {
			a.Tell("") // replaces a record that it was given and has not received: it may be outdated
		}
	}
}

// checkAwaited compares the versions of all awaited records with those that their calls have
// seen, and makes the calls read whose record has changed. It reads versions only, 1,000 in
// a script, so that a thousand waiting calls cost one round trip in a poll.
func (s *Store) checkAwaited(ctx context.Context) {
	const atOnce = 1000
	bySegment := map[*segment][]*awaiter{}
	for _, w := range s.awaited() {
		bySegment[w.segment] = append(bySegment[w.segment], w)
	}
	var checks sync.WaitGroup
	for seg, waits := range bySegment {
		checks.Go(func() {
			for some := range slices.Chunk(waits, atOnce) {
				s.checkVersions(ctx, seg, some)
			}
		})
	}
	checks.Wait()
}

// checkVersions does so for calls whose records are in one segment.
func (s *Store) checkVersions(ctx context.Context, seg *segment, some []*awaiter) {
	a := args{itoa(int64(len(some)))}
	for _, w := range some {
		a.add(w.rid)
	}
	m, err := s.eval(ctx, seg, versionsScript, a)
	if err != nil {
		s.notifyEach(some, func(*awaiter) bool { return true }) // each gets the error from its own read
		return
	}
	answer := read(m)
	s.notifyEach(some, func(w *awaiter) bool { return answer.num() != w.seen.Load() || answer.err != nil })
}

// notifyEach makes those Await calls of a list read their record for which news is true.
func (s *Store) notifyEach(list []*awaiter, news func(*awaiter) bool) {
	s.mu.Lock()
	defer s.mu.Unlock()
	for _, a := range list {
		if news(a) {
			a.Tell("")
		}
	}
}
