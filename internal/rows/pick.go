package rows

import (
	"errors"
	"time"

	"github.com/abidehq/abide/store"
)

// pick is a look into the database for keys to lease. It knows what came meanwhile: for
// each partition, the earliest time.
type pick struct {
	number  uint64
	touched map[*partition]int64
}

func (p *pick) note(l *partition, at int64) {
	if p.touched == nil {
		p.touched = map[*partition]int64{}
	}
	if known, ok := p.touched[l]; !ok || at < known {
		p.touched[l] = at
	}
}

// errNothing says that all that was picked went to quarantine.
var errNothing = errors.New("nothing is left of what was picked")

// pick leases keys, and notes what it learns about the partitions. Messages that were delivered
// too often go to quarantine, and it looks again if nothing is left.
func (f *Frame) pick(req *store.ClaimRequest, v *view) ([]store.Claim, error) {
	for {
		claims, err := f.pickOnce(req, v)
		if !errors.Is(err, errNothing) {
			return claims, err
		}
	}
}

func (f *Frame) pickOnce(req *store.ClaimRequest, v *view) ([]store.Claim, error) {
	ask := f.ask(req, v)
	q, p := v.queue, &pick{}
	f.mu.Lock()
	if f.closed {
		f.mu.Unlock()
		return nil, store.Closed("claim")
	}
	f.looks++
	p.number = f.looks
	ask.AfterTenant = q.lastTenant
	v.picks[p] = true
	v.users++
	f.mu.Unlock()

	q0 := f.question()
	got, err := f.db.Pick(f.looking, ask)
	leased := leases(got)

	f.mu.Lock()
	delete(v.picks, p)
	v.users--
	if err != nil {
		defer f.mu.Unlock()
		if f.closed {
			return nil, store.Closed("claim")
		}
		return nil, err
	}
	f.observe(q0, got.Now)
	q.lastTenant = got.LastTenant
	f.learn(v, got, p, leased, q0.at)
	f.mu.Unlock()

	if got.Expires <= got.Now {
		if err := f.sweep(q, got.Now); err != nil {
			f.giveBack(got)
			return nil, err
		}
	}
	claims, err := f.deliver(got)
	if err != nil && !errors.Is(err, errNothing) {
		f.giveBack(got)
		return nil, err
	}
	return claims, err
}

// leases returns the earliest end of the leases that were made, by partition.
func leases(got *Picked) map[int64]int64 {
	if got == nil || len(got.Keys) == 0 {
		return nil
	}
	leased := map[int64]int64{}
	names := map[[2]string]int64{}
	for i := range got.Keys {
		row := &got.Keys[i].Row
		name := [2]string{row.Key.Queue, row.Route}
		if at, ok := names[name]; !ok || row.Until < at {
			names[name] = row.Until
		}
	}
	for name, at := range names {
		leased[PartitionOf(name[0], name[1])] = at
	}
	return leased
}

// learn notes what a pick says about the partitions: that there is nothing before Next, but for
// what came meanwhile and what it leased.
func (f *Frame) learn(v *view, got *Picked, p *pick, leased map[int64]int64, began time.Time) {
	next := got.Next
	v.backlog = next == 0
	if len(got.Keys) == 0 {
		next = max(next, got.Now+1) // what is ready and was not to be had is looked for again, but not at once
		if next <= f.monotonic(began)+f.offset {
			f.offset, f.offsetAt = got.Now-f.monotonic(began), began // we believed it to be later than it is
		}
	}
	expiring := v.queue.expiring
	for _, l := range v.partitions {
		at := next
		if l == expiring {
			at = got.Expires
		}
		if came, ok := p.touched[l]; ok {
			at = min(at, came)
		}
		l.set(at)
	}
	v.looked = max(v.looked, p.number)
	for id, at := range leased {
		if l := f.partitions[id]; l != nil {
			f.lower(l, at)
		}
	}
	if v.queue.idle > 0 && f.nextDue(v.queue) < v.queue.alarmAt {
		f.serve(v.queue) // what others wait for may be sooner than they knew
	}
}

// ask returns what a Pick is asked for.
func (f *Frame) ask(req *store.ClaimRequest, v *view) *Pick {
	ask := &Pick{
		Queue: req.Queue, Partitions: v.ids, Expiring: PartitionOf(req.Queue, ""),
		Max: req.Max, MaxMessages: req.MaxMessages, MaxAttempts: req.MaxAttempts, Lease: millis(req.Lease),
		Tokens: make([]string, req.Max),
	}
	if ask.MaxMessages == 0 {
		ask.MaxMessages = store.DefaultMessages
	}
	for i := range ask.Tokens {
		ask.Tokens[i] = f.token()
	}
	return ask
}

// deliver makes claims of what was picked. What was delivered too often goes to
// quarantine before.
func (f *Frame) deliver(got *Picked) ([]store.Claim, error) {
	var over []*call
	claims := make([]store.Claim, 0, len(got.Keys))
	for i := range got.Keys {
		k := &got.Keys[i]
		if len(k.Exhausted) > 0 {
			over = append(over, f.exhaustionCall(k))
		}
		if len(k.Messages) > 0 {
			claims = append(claims, claim(&k.Row, k.Messages, got.Now))
		}
	}
	if len(over) > 0 {
		if err := f.submit("claim", over...); err != nil {
			return nil, err
		}
	}
	if len(claims) == 0 && len(got.Keys) > 0 {
		return nil, errNothing
	}
	return claims, nil
}

// overrun is the call that puts what was delivered too often into quarantine.
func (f *Frame) exhaustionCall(k *PickedKey) *call {
	over := &exhaustion{lease: store.Lease{Key: k.Row.Key, Token: store.Token(k.Row.Token)}}
	size := 0
	for i := range k.Exhausted {
		over.messages = append(over.messages, exhaustedMessage{k.Exhausted[i].ID, k.Exhausted[i].Seq})
		size += len(k.Exhausted[i].Body) + opSize
	}
	return newCall(f.ctx, operation{exhausted: over}, size)
}

// giveBack releases what was picked for nobody.
func (f *Frame) giveBack(got *Picked) {
	f.mu.Lock()
	defer f.mu.Unlock()
	for i := range got.Keys {
		f.letGo(store.Lease{Key: got.Keys[i].Row.Key, Token: store.Token(got.Keys[i].Row.Token)})
	}
}
