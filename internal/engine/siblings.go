package engine

import (
	"sync"
	"sync/atomic"

	"github.com/abidehq/abide/store"
)

// siblings are the engines of one process that share a store: that of a server, and one for each worker that
// is connected to it. They know which of them has an instance in memory, so that its turns go there: the
// worker that has run the last turn needs only what is new, and another one the whole history.
//
// It is a hint. A turn that another one runs after all is right, and the instance in memory is found to
// be overtaken, as it is if another process runs the turn.
type siblings struct {
	times storeTime

	n atomic.Int64 // of instances; most processes have none

	mu        sync.Mutex
	instances map[store.Key]*instance // that a sibling has in its cache, or uses for a turn
}

func newSiblings() *siblings { return &siblings{instances: map[store.Key]*instance{}} }

// hold notes that an engine has the instance.
func (p *siblings) hold(key store.Key, in *instance, e *Engine) {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.instances[key] == in {
		return
	}
	in.holder = e
	p.instances[key] = in
	p.n.Store(int64(len(p.instances)))
}

// drop notes that an engine does not have the instance any more.
func (p *siblings) drop(key store.Key, in *instance) {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.instances[key] == in {
		delete(p.instances, key)
		p.n.Store(int64(len(p.instances)))
	}
}

// holder returns the engine that has an instance, or nil.
func (p *siblings) holder(key store.Key) *Engine {
	if p.n.Load() == 0 {
		return nil
	}
	p.mu.Lock()
	defer p.mu.Unlock()
	if in := p.instances[key]; in != nil {
		return in.holder
	}
	return nil
}

// handOver gives a claim to the sibling that has the instance, if that has a free slot.
func (e *Engine) handOver(c *store.Claim) bool {
	to := e.siblings.holder(c.Key)
	if to == nil || to == e {
		return false
	}
	route, build := CutBuild(c.Route)
	may := build == to.cfg.Build
	if build == "" {
		may = !to.builds.leavesRoute(route)
	}
	return may && to.Serves(route) && to.adopt(c)
}

// adopt runs the turn of a claim that a sibling has made. It returns false if there is no free slot, or the
// engine closes.
func (e *Engine) adopt(c *store.Claim) bool {
	if !e.turning.enter(len(e.fuser.slots)) {
		return false
	}
	if !e.addWork() {
		e.turning.running.Add(-1)
		return false
	}
	j := &job{Claim: c, slots: e.turning, adopted: true}
	e.fuser.pool.Do(func() { e.runJob(j, e.turn) })
	return true
}

// at returns the fuser of the engine that has the instance: this one, unless a sibling has it.
func (f *fuser) at(key store.Key) *fuser {
	if e := f.e.siblings.holder(key); e != nil {
		return e.fuser
	}
	return f
}
