package engine

import (
	"context"
	"errors"
	"slices"
	"sync"
	"time"

	"github.com/abidehq/abide/store"
)

// gateCommits commits what enters or leaves a gate together with what the gate does about it: the task is put, and
// the record of the gate written, in the commit that would have put a message to the gate. That spares the
// messages and a claim of the gate, which every piece of work would have to wait for. Commits that come while one is under
// way are one batch, as they are for a claim.
//
// It is a shortcut, never a requirement: a commit goes on with its messages, as ever, if
//
//   - it is about several gates or a keyed one, or enters at a later time, or withdraws work;
//   - the limit has a rate, or code has declared another rule than is known;
//   - work waits at the gate, or there is no room: what waits is admitted in its order by claims alone;
//   - the commit of the batch is refused. Which of its parts was the reason nobody knows.
//
// Why it is safe: the record of the gate is expected at the version that was read, so that neither another process
// nor a claim comes between. The record of a gate without keys is never deleted, or a version could be
// that of another record. Claims of the gate in this process wait for a batch that is under way, and a batch
// for a claim, so that they do not conflict again and again.
type gateCommits struct {
	e     *Engine
	store store.Store // below the feed

	mu    sync.Mutex
	lines map[store.Key]*gateLine
}

// gateLine is the commits that wait for a gate, and the lock of its record.
type gateLine struct {
	free chan struct{} // has an element unless a batch or a claim holds the record

	// What follows is guarded by gateCommits.mu.
	users   int // of the line
	waiting []*gateCommit
	running bool
	slow    time.Time // until then commits go on with their messages
}

// gateCommit is a commit that waits for a batch.
type gateCommit struct {
	tx    *store.Tx
	items []gateMessage // what enters and leaves, in the order of tx.Put
	done  chan error
}

// errByMessage is the result of a commit that has to go on with its messages. Nothing was committed.
var errByMessage = errors.New("abide: the gate takes messages")

// maxGateBatch is how many operations a batch has at most, about, and gateSlow for how long a gate takes messages after
// a conflict.
const (
	maxGateBatch = 1_000
	gateSlow     = 100 * time.Millisecond
)

func newGateCommits(e *Engine, s store.Store) *gateCommits {
	return &gateCommits{e: e, store: s, lines: map[store.Key]*gateLine{}}
}

// lock locks a gate until the function that it returns is called.
func (f *gateCommits) lock(key store.Key) (unlock func()) {
	f.mu.Lock()
	line := f.line(key)
	line.users++
	f.mu.Unlock()
	<-line.free
	return func() {
		line.free <- struct{}{}
		f.mu.Lock()
		defer f.mu.Unlock()
		line.users--
		f.forget(key, line)
	}
}

// line returns the line of a gate. mu is held.
func (f *gateCommits) line(key store.Key) *gateLine {
	line := f.lines[key]
	if line == nil {
		line = &gateLine{free: make(chan struct{}, 1)}
		line.free <- struct{}{}
		f.lines[key] = line
	}
	return line
}

// forget drops the line of a gate that nobody uses. mu is held.
func (f *gateCommits) forget(key store.Key, line *gateLine) {
	if line.users == 0 && !line.running && !f.e.clock.Now().Before(line.slow) {
		delete(f.lines, key)
	}
}

// commit commits a transaction, with what its gate does if that can be.
func (f *gateCommits) commit(ctx context.Context, tx *store.Tx) error {
	key, items, ok := gateOfCommit(tx)
	if !ok || store.TransactionOf(ctx) != nil {
		return f.store.Commit(ctx, tx)
	}
	c := &gateCommit{tx: tx, items: items, done: make(chan error, 1)}
	f.mu.Lock()
	line := f.line(key)
	if f.e.clock.Now().Before(line.slow) {
		f.mu.Unlock()
		return f.store.Commit(ctx, tx)
	}
	line.waiting = append(line.waiting, c)
	begins := !line.running
	line.running = true
	f.mu.Unlock()
	if begins {
		go f.run(key, line)
	}
	if err := <-c.done; !errors.Is(err, errByMessage) {
		return err
	}
	return f.store.Commit(ctx, tx)
}

// gateOfCommit returns the gate that all of a transaction's messages to gates are for, and what they say. It returns
// false if there are none, or if they have to be sent.
func gateOfCommit(tx *store.Tx) (key store.Key, items []gateMessage, ok bool) {
	if slices.ContainsFunc(tx.Finish, func(done store.Finish) bool { return done.Lease.Key.Queue == queueLimits }) {
		return key, nil, false // the claim of a gate holds its lock, and must not wait for that of another
	}
	for i := range tx.Put {
		m := &tx.Put[i]
		if m.Key.Queue != queueLimits {
			continue
		}
		if _, _, keyed := splitGate(m.Key.Name); keyed || !m.VisibleAt.IsZero() || items != nil && m.Key != key {
			return key, nil, false
		}
		item, err := decodeGateMessage(m.Body, m.Key.Tenant)
		if err != nil || item.kind != gateEnter && item.kind != gateLeave || len(item.limits) != 1 || item.limits[0].Rate > 0 {
			return key, nil, false
		}
		key = m.Key
		items = append(items, item)
	}
	return key, items, items != nil
}

// run commits batches for as long as there are commits.
func (f *gateCommits) run(key store.Key, line *gateLine) {
	for {
		f.mu.Lock()
		batch := line.take()
		if len(batch) == 0 {
			line.running = false
			if line.users == 0 {
				f.forget(key, line)
			}
			f.mu.Unlock()
			return
		}
		f.mu.Unlock()
		<-line.free
		f.commitBatch(key, line, batch)
		line.free <- struct{}{}
	}
}

// take removes the commits of the next batch.
func (l *gateLine) take() []*gateCommit {
	n, size, bytes := 0, 0, 0
	for ; n < len(l.waiting) && size < maxGateBatch && bytes < fusedBytes; n++ {
		tx := l.waiting[n].tx
		size += len(tx.Put) + len(tx.PutRecords) + len(tx.Append) + len(tx.Finish) + len(tx.Delete)
		d := delivery{with: *tx}
		bytes += d.size()
	}
	batch := l.waiting[:n:n]
	l.waiting = l.waiting[n:]
	return batch
}

// commitBatch commits what can be, and tells each its result.
func (f *gateCommits) commitBatch(key store.Key, line *gateLine, batch []*gateCommit) {
	p, err := f.plan(key)
	if err != nil {
		p = &fastPlan{}
	}
	var taken []*gateCommit
	for _, c := range batch {
		if p.take(c) {
			taken = append(taken, c)
		} else {
			c.done <- errByMessage
		}
	}
	if len(taken) == 0 {
		return
	}
	if p.state.firstUntil().IsZero() {
		p.state.dropLook(&p.tx, key) // of a unit that was withdrawn
	}
	p.tx.PutRecords = append(p.tx.PutRecords, p.state.put(key.Tenant, p.now))
	err = f.store.Commit(context.Background(), &p.tx)
	if err != nil && unchanged(err) {
		if errors.Is(err, store.ErrConflict) {
			f.mu.Lock()
			line.slow = f.e.clock.Now().Add(gateSlow)
			f.mu.Unlock()
		}
		err = errByMessage
	}
	for _, c := range taken {
		c.done <- err
		for i := range c.items {
			if m := &c.items[i]; err == nil && m.kind == gateEnter {
				f.e.meters.limitWaits.Record(context.Background(), 0)
				f.e.suspectTask(&m.admits)
			}
		}
	}
}

// fastPlan is what a batch does at a gate. It admits nothing if it has no rule.
type fastPlan struct {
	now   time.Time
	limit limitState
	rule  rule
	state gateState
	tx    store.Tx
}

// plan reads the gate. The plan has no rule if the gate takes messages.
func (f *gateCommits) plan(key store.Key) (*fastPlan, error) {
	now, known := f.e.siblings.times.now(f.e.clock.Now())
	if !known {
		return nil, errByMessage
	}
	p := &fastPlan{now: now}
	ctx := context.Background()
	r, err := f.store.Get(ctx, gateRecord(key.Tenant, key.Name))
	if err != nil {
		return nil, err
	}
	if p.state, err = gateOf(r); err != nil {
		return nil, err
	}
	if p.limit, err = f.e.rules.limit(ctx, f.store, key.Tenant, key.Name, f.e.clock.Now()); err != nil {
		return nil, err
	}
	if rule := p.limit.rule(); p.state.waiting == 0 && !rule.paused && rule.every == 0 {
		p.rule = rule
	}
	return p, nil
}

// take adds a commit to the batch, if all that enters by it is admitted.
func (p *fastPlan) take(c *gateCommit) bool {
	if p.rule.concurrency == 0 {
		return false
	}
	state := p.state
	state.holders = slices.Clone(state.holders)
	for i := range c.items {
		m := &c.items[i]
		if m.kind == gateLeave {
			state.free(m.work, m.entry)
			continue
		}
		limit := p.limit
		if p.rule.room(&state, p.now) == 0 || limit.learn(m.limits[m.at], m.declared) {
			return false
		}
		state.holders = append(state.holders, gateHolder{work: m.work, entry: m.entry, at: p.now})
		state.admitted++
	}
	p.state = state
	tx := *c.tx
	tx.Put = make([]store.Message, 0, len(c.tx.Put))
	next := 0
	for i := range c.tx.Put {
		m := c.tx.Put[i]
		if m.Key.Queue == queueLimits {
			item := &c.items[next]
			if next++; item.kind == gateLeave {
				continue
			}
			m = item.admits
		}
		tx.Put = append(tx.Put, m)
	}
	merge(&p.tx, &tx)
	return true
}
