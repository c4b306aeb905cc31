package engine

import (
	"context"
	"errors"
	"slices"
	"sync"
	"sync/atomic"
	"time"

	"github.com/abidehq/abide/internal/replay"
	"github.com/abidehq/abide/internal/workpool"
	"github.com/abidehq/abide/store"
)

// A fused turn rides in the commit of what causes it: the start of an instance, alone, in bulk or as a
// child, the outcome of an activity, an event, or the end of a child, if this process has caused it and
// has the instance. The message that would have carried it is never put, so that one commit does what
// were two, and no claim is needed. Where it cannot be, the message is put and claimed as ever: fusing
// is a shortcut, never a requirement.
//
// Why it is safe:
//
//   - Nothing is visible before it is durable: a fused turn has one commit, with all that it causes.
//   - No other turn comes between. The append expects the length of the log that the code has seen,
//     and that the key is idle ([store.Append.Idle]): not leased, and without a visible message,
//     which would have come first. A start expects that there is no record. Any of these is a
//     conflict: then nothing was committed, the instance is dropped from the cache, and the message
//     is put.
//   - The outcome of an activity is committed with the end of its lease, alone or in a fused turn.
//     If the outcome of a fused commit is unknown, the activity commits its outcome alone: that is
//     refused if the first commit was applied, as its lease has ended.
//   - Only deterministic code runs before the commit. A step, which has effects, needs a claim: code
//     that calls one in a fused turn is stopped there (replay.ErrStep), and nothing of it is kept.
//   - Nobody waits for slow code, nor for a slow commit. What caused the turn is taken back after
//     fuseWithin (fuseElsewhere, Config.FuseWithin), or fuseCommit while the turn before is being committed, and committed
//     alone. Code
//     that does not return, panics or stalls does so again in a turn with a claim, which deals with it.
//   - An activity that is attempted again is not fused, nor is the end of a child: code that kills the
//     process is then found as poison by deliveries of its message, as ever.
//   - What a caller does in a transaction of its own (store.WithTransaction) is not fused: nothing of it
//     may be committed in another one.
//
// While a fused turn of an instance is under way, more outcomes may come. They wait for it and are
// taken together by the next one: a fan-out of a thousand activities is not a thousand turns.

// How long the outcome of an activity, an event or a start waits before it is committed alone.
const (
	// fuseWithin is how long it waits for code, and fuseElsewhere for code of a worker elsewhere, whose
	// answer waits for its turn on the connection.
	fuseWithin    = 10 * time.Millisecond
	fuseElsewhere = 50 * time.Millisecond

	// fuseCommit is how long it waits for the commit of the turn before: what comes meanwhile is one
	// turn, and not a commit each.
	fuseCommit = 50 * time.Millisecond

	// fuseCheck is how often they are looked at.
	fuseCheck = fuseWithin / 4
)

// maxFused is how many messages a fused turn takes at most, and fusedBytes how large all but the last
// of them may be together.
const (
	maxFused   = 1_000
	fusedBytes = 1 << 20
)

// fuseAgain is after how many messages fusing is tried again with an orchestration whose code ran a
// step, or took too long.
const fuseAgain = 256

// errNotFused is the result of a delivery that has to be committed alone. Nothing was committed.
var errNotFused = errors.New("abide: not fused")

// delivery is a message to an instance that is not committed yet. Its sender waits for the result. If
// that takes too long it is taken back. taken is set by the one that decides: the fused turn that commits
// it, or fuser.check.
type delivery struct {
	message message
	run     uint64 // of the execution that it is for; 0 means any

	// with is committed together with the message: the end of the lease of an activity, or the whole
	// last turn of a child.
	with store.Tx

	taken  atomic.Bool
	result chan error // of a turn, and of being taken back

	// runner is what it waits for, nil if it is a start, and since says from when on: see fuser.check.
	// Both are guarded by fuser.mu.
	runner *fusedRun
	since  time.Time
}

// fusedRun is the runner of a key.
type fusedRun struct {
	waiting    []*delivery // for its next turn
	committing bool        // its turn is being committed
}

// size returns about how many bytes the delivery adds to the commit of its turn.
func (d *delivery) size() int {
	size := 0
	for i := range d.message.events {
		size += len(d.message.events[i].Data)
	}
	for i := range d.with.Append {
		for _, e := range d.with.Append[i].Entries {
			size += len(e)
		}
	}
	for i := range d.with.Put {
		size += len(d.with.Put[i].Body)
	}
	for i := range d.with.PutRecords {
		size += len(d.with.PutRecords[i].Record.Body)
	}
	return size
}

// merge adds all of from to a transaction.
func merge(tx, from *store.Tx) {
	tx.Finish = append(tx.Finish, from.Finish...)
	tx.DeleteKeys = append(tx.DeleteKeys, from.DeleteKeys...)
	tx.Trim = append(tx.Trim, from.Trim...)
	tx.Append = append(tx.Append, from.Append...)
	tx.Put = append(tx.Put, from.Put...)
	tx.Retime = append(tx.Retime, from.Retime...)
	tx.Delete = append(tx.Delete, from.Delete...)
	tx.PutRecords = append(tx.PutRecords, from.PutRecords...)
	tx.DeleteRecords = append(tx.DeleteRecords, from.DeleteRecords...)
}

func newDelivery(ref Ref, id string, b *body) *delivery {
	d := &delivery{run: b.run, result: make(chan error, 2)}
	d.message = message{&store.Message{Key: ref.key(), ID: id, Attempt: 1}, *b}
	return d
}

// fuser runs fused turns. A key has one runner at a time.
type fuser struct {
	e      *Engine
	within time.Duration // how long a message waits for code
	pool   *workpool.Pool
	slots  chan struct{} // one for each fused turn that runs
	times  *storeTime

	mu   sync.Mutex
	runs map[store.Key]*fusedRun
	skip map[string]int // by orchestration, how many messages are not fused

	// awaited has the deliveries whose senders wait, and some that have a result by now. While there
	// are any, check is called every now and then.
	awaited  []*delivery
	checking bool

	// queued has the last message that this process has put, of keys of which it has not claimed that
	// message: a fused turn would be in conflict with it, and its code would have run for nothing.
	queued map[store.Key]queuedMessage
}

// queuedMessage is a message that was put, or is about to be.
type queuedMessage struct {
	id string
	at time.Time
}

// maxQueued is how many keys with messages are remembered, and queuedFor for how long: others take the
// turn of an instance, too.
const (
	maxQueued = 16_384
	queuedFor = time.Second
)

func newFuser(e *Engine) *fuser {
	within := fuseWithin
	switch {
	case e.cfg.FuseWithin > 0:
		within = e.cfg.FuseWithin
	case e.cfg.Elsewhere != nil:
		within = fuseElsewhere
	}
	return &fuser{
		e: e, within: within, times: &e.siblings.times, pool: workpool.New(e.claiming.Done(), e.cfg.MaxTurns), slots: make(chan struct{}, e.cfg.MaxTurns),
		runs: map[store.Key]*fusedRun{}, skip: map[string]int{}, queued: map[store.Key]queuedMessage{},
	}
}

// begin takes a slot for a fused turn, and counts it as work. It returns false if as many turns run
// as may, claimed or fused, or the engine closes.
func (f *fuser) begin() bool {
	if int(f.e.turning.running.Load())+len(f.slots) >= cap(f.slots) {
		return false
	}
	select {
	case f.slots <- struct{}{}:
	default:
		return false
	}
	if !f.e.addWork() {
		<-f.slots
		return false
	}
	return true
}

func (f *fuser) end() {
	f.e.work.Done()
	<-f.slots
}

// wants reports whether a message of an orchestration should be fused.
func (f *fuser) wants(route string) bool {
	f.mu.Lock()
	defer f.mu.Unlock()
	if f.skip[route] == 0 {
		return true
	}
	f.skip[route]--
	return false
}

// avoid has messages of an orchestration not fused for a while.
func (f *fuser) avoid(route string) {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.skip[route] = fuseAgain
}

// deliver commits a message together with the turn that it causes. It returns errNotFused if nothing
// was committed and the sender has to commit it alone; another error is that of a commit whose
// outcome is unknown.
func (f *fuser) deliver(ctx context.Context, d *delivery) error {
	key := d.message.Key
	f.mu.Lock()
	run := f.runs[key]
	if f.e.cfg.Unfused || !f.e.RunsFor(key.Tenant) || run == nil && f.isQueued(key) {
		f.mu.Unlock()
		return errNotFused
	}
	begins := run == nil
	if begins {
		run = &fusedRun{}
		f.runs[key] = run
	}
	run.waiting = append(run.waiting, d)
	f.watch(d, run)
	f.mu.Unlock()
	if begins {
		if !f.begin() {
			f.giveUp(key)
			return errNotFused
		}
		f.pool.Do(func() {
			defer f.end()
			f.run(key)
		})
	}
	return f.await(ctx, d)
}

// running reports whether a fused turn of the instance is under way.
func (f *fuser) running(key store.Key) bool {
	f.mu.Lock()
	defer f.mu.Unlock()
	return f.runs[key] != nil
}

// notePuts notes which instances a commit has messages for, before it is made.
func (f *fuser) notePuts(tx *store.Tx) {
	for i := range tx.Put {
		if m := &tx.Put[i]; m.Key.Queue == queueTurns && m.VisibleAt.IsZero() {
			f.enqueue(m.Key, m.ID)
		}
	}
}

func (f *fuser) enqueue(key store.Key, id string) {
	now := f.e.clock.Now()
	f.mu.Lock()
	defer f.mu.Unlock()
	if len(f.queued) >= maxQueued {
		clear(f.queued)
	}
	f.queued[key] = queuedMessage{id, now}
}

// claimed notes that the messages of a key were claimed.
func (f *fuser) claimed(c *store.Claim) {
	f.mu.Lock()
	defer f.mu.Unlock()
	last, there := f.queued[c.Key]
	if there && slices.ContainsFunc(c.Messages, func(m store.Message) bool { return m.ID == last.id }) {
		delete(f.queued, c.Key)
	}
}

// isQueued reports whether a message waits for a turn of the key. The lock is held.
func (f *fuser) isQueued(key store.Key) bool {
	last, there := f.queued[key]
	return there && f.e.clock.Now().Sub(last.at) < queuedFor
}

// await returns the result of a delivery. If ctx ends first, the outcome is unknown.
func (f *fuser) await(ctx context.Context, d *delivery) error {
	select {
	case err := <-d.result:
		return err
	case <-ctx.Done():
		return ctx.Err()
	}
}

// watch has a delivery taken back when it has waited for too long. The lock is held. One timer serves
// all deliveries: most have their result long before it fires.
func (f *fuser) watch(d *delivery, run *fusedRun) {
	d.runner, d.since = run, f.e.clock.Now()
	f.awaited = append(f.awaited, d)
	if !f.checking {
		f.checking = true
		f.e.clock.AfterFunc(fuseCheck, f.check)
	}
}

// check takes back the deliveries that have waited for too long.
func (f *fuser) check() {
	now := f.e.clock.Now()
	f.mu.Lock()
	defer f.mu.Unlock()
	f.awaited = slices.DeleteFunc(f.awaited, func(d *delivery) bool {
		limit := f.within
		if d.runner != nil && d.runner.committing {
			limit = fuseCommit
		}
		if now.Sub(d.since) < limit {
			return d.taken.Load() // its result is about to come, or has
		}
		if d.taken.CompareAndSwap(false, true) {
			d.result <- errNotFused
		}
		return true
	})
	if f.checking = len(f.awaited) > 0; f.checking {
		f.e.clock.AfterFunc(fuseCheck, f.check)
	}
}

// setCommitting notes that the turn of a key is about to be committed. What waits for its runner
// meanwhile does not wait for code.
func (f *fuser) setCommitting(key store.Key) {
	f.mu.Lock()
	defer f.mu.Unlock()
	if run := f.runs[key]; run != nil {
		run.committing = true
	}
}

// giveUp has all deliveries to a key committed alone that no turn has taken.
func (f *fuser) giveUp(key store.Key) {
	f.mu.Lock()
	left := f.runs[key].waiting
	delete(f.runs, key)
	f.mu.Unlock()
	for _, d := range left {
		if d.taken.CompareAndSwap(false, true) {
			d.result <- errNotFused
		}
	}
}

// run runs fused turns of an instance for as long as there are deliveries to it.
func (f *fuser) run(key store.Key) {
	ended := false
	defer func() {
		if !ended { // the code of users has ended the goroutine, as failing tests do
			f.giveUp(key)
		}
	}()
	for {
		f.mu.Lock()
		batch := f.nextBatch(key)
		queued := f.isQueued(key)
		f.mu.Unlock()
		if len(batch) == 0 {
			ended = true
			return
		}
		err := errNotFused
		if !queued {
			err = f.turn(key, batch)
		}
		for _, d := range batch {
			d.taken.Store(true)
			d.result <- err
		}
	}
}

// nextBatch removes the deliveries that the next turn of a key takes. If there are none, the runner
// ends. Those that were taken back are dropped. The lock is held.
func (f *fuser) nextBatch(key store.Key) []*delivery {
	run := f.runs[key]
	all := slices.DeleteFunc(run.waiting, func(d *delivery) bool { return d.taken.Load() })
	if len(all) == 0 {
		delete(f.runs, key)
		return nil
	}
	if run.committing { // it is over, and what comes now is code
		run.committing = false
		now := f.e.clock.Now()
		for _, d := range all {
			d.since = now
		}
	}
	n := 0
	for size := 0; n < min(len(all), maxFused) && size < fusedBytes; n++ {
		size += all[n].size()
	}
	run.waiting = all[n:]
	return all[:n]
}

// turn runs one fused turn of a cached instance. An error other than errNotFused is that of a commit
// whose outcome is unknown.
func (f *fuser) turn(key store.Key, batch []*delivery) error {
	e := f.e
	now, known := f.times.now(e.clock.Now())
	if !known {
		return errNotFused
	}
	in := e.cache.take(e.working, key)
	if in == nil {
		return errNotFused
	}
	if !fusible(in, batch) || e.builds.leaves(&in.info) || !f.wants(in.info.Route()) {
		e.cache.put(key, in)
		return errNotFused
	}
	t := f.newTurn(in, key, now)
	t.fused = batch
	messages := make([]message, len(batch))
	for i, d := range batch {
		d.message.PutAt = now
		messages[i] = d.message
	}
	return f.finish(t, t.runFused(messages))
}

// fusible reports whether the instance waits for nothing but messages, and these are for its present
// execution.
func fusible(in *instance, batch []*delivery) bool {
	info := &in.info
	if in.exec == nil || !in.loaded || in.ledger.yielded || info.Status != Running || info.partial || info.forgiven != 0 || !info.trial.empty() {
		return false
	}
	for _, d := range batch {
		if d.run != 0 && d.run != info.run {
			return false
		}
	}
	return true
}

// newTurn returns a turn without a claim. What it would have brought along is what this process knows.
func (f *fuser) newTurn(in *instance, key store.Key, now time.Time) *turn {
	e := f.e
	t := &turn{e: e, in: in, started: e.clock.Now(), ctx: e.working, stop: func(error) {}, unclaimed: true}
	t.claim = &store.Claim{Key: key, Route: in.info.keyRoute(), LogLength: in.length, LogTag: in.tag, Now: now}
	t.fired = t.firedRoom[:0]
	return t
}

// finish puts the instance of a fused turn back into the cache if it was committed, and drops it
// otherwise.
func (f *fuser) finish(t *turn, err error) error {
	e, key := f.e, t.claim.Key
	if (err == nil || errors.Is(err, errNothing) && !t.changed) && t.in.exec != nil {
		e.cache.put(key, t.in)
	} else {
		e.closers.end(t.in)
	}
	if t.inFlight {
		e.cache.returned(key)
	}
	switch {
	case err == nil:
		e.count.Turns.Add(1)
		e.count.Fused.Add(1)
		e.meters.turns.Record(t.ctx, e.clock.Now().Sub(t.started).Seconds())
		return nil
	case errors.Is(err, replay.ErrStep), errors.Is(err, errAbandoned):
		f.avoid(orchestrationOf(t.claim.Route))
		return errNotFused
	case t.inFlight && !unchanged(err):
		return err
	}
	return errNotFused
}

// errNothing is the error of a fused turn that appends nothing: its messages are too late, or nobody
// waits for them. That is not for an instance of the cache to say, which may have been overtaken by
// another process: only an append finds out.
var errNothing = errors.New("abide: the turn appends nothing")

// runFused builds the transaction of a fused turn and commits it.
func (t *turn) runFused(messages []message) error {
	if err := t.work(messages); err != nil {
		return err
	}
	if len(t.entries) == 0 {
		return errNothing
	}
	if t.replacesDelivered() {
		return errNotFused
	}
	t.putNext()
	t.answerParent()
	for i, d := range t.fused {
		if !d.taken.CompareAndSwap(false, true) {
			for _, other := range t.fused[:i] {
				other.taken.Store(false)
			}
			return errAbandoned
		}
	}
	t.e.fuser.setCommitting(t.claim.Key)
	return t.commit()
}

// replacesDelivered reports whether the turn starts a child with the ID of one whose end is delivered with it: the
// end is committed first, or the child would not be found to have ended.
func (t *turn) replacesDelivered() bool {
	for _, c := range t.children {
		for _, d := range t.fused {
			for i := range d.with.PutRecords {
				if d.with.PutRecords[i].Record.Key == c.info.Ref.record() {
					return true
				}
			}
		}
	}
	return false
}

// endDeliveries adds what is committed with the messages that the turn takes, and puts the messages
// that it leaves to a later turn.
func (t *turn) endDeliveries() {
	var left map[string]bool // most turns leave none
	if len(t.keep) > 0 {
		left = make(map[string]bool, len(t.keep))
		for _, id := range t.keep {
			left[id] = true
		}
	}
	for _, d := range t.fused {
		merge(&t.tx, &d.with)
		if left[d.message.ID] {
			t.tx.Put = append(t.tx.Put, store.Message{Key: d.message.Key, ID: d.message.ID, Body: d.message.encode()})
		}
	}
}

// RunsFor reports whether the engine runs instances of a tenant.
func (e *Engine) RunsFor(tenant string) bool {
	return e.cfg.Tenants == nil || slices.Contains(e.cfg.Tenants, tenant)
}

// addWork counts work that no loop has claimed. It returns false if the engine closes.
func (e *Engine) addWork() bool {
	e.closing.RLock()
	defer e.closing.RUnlock()
	if e.claiming.Err() != nil {
		return false
	}
	e.work.Add(1)
	return true
}
