package redisstore

import (
	"context"
	"encoding/binary"
	"time"

	"github.com/redis/rueidis"

	"github.com/abidehq/abide/internal/backoff"
	"github.com/abidehq/abide/internal/base"
)

// pollEvery is how long nobody waits longer than, whatever became of the hints.
const pollEvery = 5 * time.Second

// listens says to scripts how many of those who listen to hints are this process.
func (s *Store) listens() string {
	if s.client.Load().cluster {
		return "all" // those who listen may do so at another server
	}
	return yesNo(s.listening.Load())
}

// watch begins to listen to hints when somebody waits for the first time. The lock is held.
func (s *Store) watch() {
	if !s.watched {
		s.watched = true
		s.background.Go(s.listen)
	}
}

// listen receives hints, on a connection of its own.
func (s *Store) listen() {
	pause := backoff.Pause{Clock: s.wall, Min: 10 * time.Millisecond, Max: time.Second}
	for s.life.Err() == nil {
		if s.subscribe() {
			pause.Reset()
		}
		if pause.Sleep(s.life) != nil {
			return
		}
	}
}

// subscribe listens until the connection is lost, and reports whether there was one.
//
// Between two connections hints are lost. So when it hears again, known versions
// are forgotten, and one call of each subscription and every Await call asks the
// server. listening is set only then: a version is not relied on before.
func (s *Store) subscribe() bool {
	conn := s.client.Load()
	c, _ := conn.Dedicate()
	// Closed, and not given back: that would unsubscribe first, and the client panics if a server
	// that is busy with a script refuses it.
	defer c.Close()
	lost := c.SetPubSubHooks(rueidis.PubSubHooks{
		OnMessage: func(m rueidis.PubSubMessage) { s.hint(m.Message) },
	})
	if err := c.Do(s.life, c.B().Subscribe().Channel(s.prefix+"hints").Build()).Error(); err != nil {
		return false
	}
	s.mu.Lock()
	s.known.clear() // others may have changed anything
	s.mu.Unlock()
	s.listening.Store(true)
	defer s.listening.Store(false)
	s.lookAgain() // what was said before was not heard
	select {
	case <-lost:
	case <-conn.left:
	case <-s.life.Done():
	}
	return true
}

// hint reads what another process says has changed.
//
// A hint has the name of its sender, whose own calls have been told already; the
// time of the server; eight bytes for each record that changed, or that there
// were many; and the partitions that have something, with the time from which on.
// It comes in the goroutine of the connection, so nothing is asked of the server
// here.
func (s *Store) hint(text string) {
	r := reader{s: text}
	if r.short() == s.me {
		return
	}
	now := r.int64()
	records := r.take(r.uint32())
	var list []readiness
	for r.s != "" && !r.tooShort {
		list = append(list, readiness{queue: r.short(), route: r.long(), at: r.int64()})
	}
	if r.tooShort {
		s.logger.Warn("redisstore: hint undecodable", "bytes", len(text))
		return
	}
	s.wake(now, list)
	s.tellRecords(records)
}

// poll has everybody who waits look now and then.
func (s *Store) poll() {
	for base.Sleep(s.life, s.wall, s.pollEvery) == nil {
		s.lookAgain()
	}
}

// tellDigests has those who wait for records look.
func (s *Store) tellDigests(digests []byte) {
	if len(digests) == 0 {
		return
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	for ; len(digests) >= 8; digests = digests[8:] {
		d := binary.BigEndian.Uint64(digests)
		s.known.forget(d)
		for _, a := range s.awaiting.Of(d) {
			a.Tell("") // what it was told may be out of date by now
		}
	}
}

// checkAwaited looks whether records that somebody waits for have changed unheard.
func (s *Store) checkAwaited(ctx context.Context) {
	const atOnce = 1000
	waits := s.awaited()
	for ; len(waits) > 0; waits = waits[min(atOnce, len(waits)):] {
		some := waits[:min(atOnce, len(waits))]
		a := args{itoa(int64(len(some)))}
		for _, w := range some {
			a.add(w.rid)
		}
		m, err := s.eval(ctx, versionsScript, a)
		if err != nil {
			s.tellEach(some, func(*awaiter) bool { return true }) // they find out what is wrong
			continue
		}
		answer := read(m)
		s.tellEach(some, func(w *awaiter) bool { return answer.num() != w.seen.Load() || answer.err != nil })
	}
}

// tellEach has those of the Await calls ask the server for which news is true.
func (s *Store) tellEach(list []*awaiter, news func(*awaiter) bool) {
	s.mu.Lock()
	defer s.mu.Unlock()
	for _, a := range list {
		if news(a) {
			a.Tell("")
		}
	}
}
