package shardstore

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"sync/atomic"

	"github.com/abidehq/abide/store"
)

// routing is a directory, with the shards that it names. It counts the changes that go by it: before
// a process acknowledges a later directory, those that go by an earlier one have ended.
type routing struct {
	dir     *Directory
	body    []byte        // of the record of the directory
	slots   [Slots]*shard // nil if the program does not know the shard
	tenants map[string]*shard

	under   atomic.Int64 // changes that go by it
	retired atomic.Bool  // there is a later one
	once    sync.Once
	idle    chan struct{} // closed when it is retired and none goes by it
}

func (s *Store) newRouting(d *Directory) *routing {
	r := &routing{dir: d, body: d.encode(), tenants: make(map[string]*shard, len(d.Tenants)), idle: make(chan struct{})}
	for i, name := range d.Slots {
		r.slots[i] = s.byName[name]
	}
	for tenant, name := range d.Tenants {
		r.tenants[tenant] = s.byName[name]
	}
	return r
}

// of returns the shard of a tenant, or nil if the program does not know it.
func (r *routing) of(tenant string) *shard {
	if len(r.tenants) > 0 {
		if sh, ok := r.tenants[tenant]; ok {
			return sh
		}
	}
	return r.slots[SlotOf(tenant)]
}

// locate returns the shard of a tenant.
func (r *routing) locate(tenant string) (*shard, error) {
	if sh := r.of(tenant); sh != nil {
		return sh, nil
	}
	return nil, fmt.Errorf("shardstore: tenant %q is on shard %q, which this process was not configured with", tenant, r.dir.Of(tenant))
}

// closed reports whether nobody may change anything of a tenant.
func (r *routing) closed(tenant string) bool {
	return r.dir.Move != nil && r.dir.Move.Stage == Closed && r.dir.covers(tenant)
}

// leave ends a change that goes by the routing.
func (r *routing) leave() {
	if r.under.Add(-1) == 0 && r.retired.Load() {
		r.once.Do(func() { close(r.idle) })
	}
}

// retire notes that there is a later one.
func (r *routing) retire() {
	r.retired.Store(true)
	if r.under.Load() == 0 {
		r.once.Do(func() { close(r.idle) })
	}
}

// enter returns the routing for a change, which ends with leave.
func (s *Store) enter() *routing {
	for {
		r := s.routing.Load()
		r.under.Add(1)
		if s.routing.Load() == r {
			return r
		}
		r.leave() // it was retired before it was entered
	}
}

// errClosed is the error of a change to a tenant that nobody may change at the moment.
var errClosed = errors.New("the tenant is being moved")

// change makes a change on the shard that locate returns. While locate returns errClosed it waits, and
// while the process is fenced off too: until it has read the directory, and acknowledged it.
func (s *Store) change(ctx context.Context, locate func(r *routing) (*shard, error), do func(st store.Store) error) error {
	if s.mover {
		return store.ReadOnly("commit")
	}
	for fenced := 0; ; {
		news := s.news()
		r := s.enter()
		sh, err := locate(r)
		if err == nil && sh != nil {
			var st store.Store
			if st, err = sh.use(); err == nil {
				err = do(st)
			}
		}
		r.leave()
		switch {
		case errors.Is(err, store.ErrFenced):
			if fenced++; fenced > 1 && store.TransactionOf(ctx) != nil {
				return fmt.Errorf("shardstore: the transaction is not one of the database of shard %s, where the tenant is: %w", sh.name, store.ErrInvalid)
			}
			s.fenced(sh)
		case errors.Is(err, errClosed):
		case sh == nil:
			return err
		default:
			return sh.failed(err)
		}
		select {
		case <-news:
		case <-ctx.Done():
			return ctx.Err()
		case <-s.background.Done():
			return store.Closed("commit")
		}
	}
}

// storeOf returns the shard of a tenant, and its store, to read from.
func (s *Store) storeOf(tenant string) (*shard, store.Store, error) {
	sh, err := s.routing.Load().locate(tenant)
	if err != nil {
		return nil, nil, err
	}
	st, err := sh.use()
	return sh, st, err
}

// follow is a call that waits on the shard of a tenant, and is told when the tenant is elsewhere.
type follow struct {
	tenant string
	on     *shard
	cancel context.CancelFunc
}

// follow returns a context that ends when the tenant is on another shard than sh. The caller calls
// stop.
func (s *Store) follow(ctx context.Context, tenant string, sh *shard) (followed context.Context, stop func()) {
	followed, cancel := context.WithCancel(ctx)
	f := &follow{tenant, sh, cancel}
	s.mu.Lock()
	s.follows[f] = struct{}{}
	s.mu.Unlock()
	if s.routing.Load().of(tenant) != sh {
		cancel() // it moved before it was followed
	}
	return followed, func() {
		s.mu.Lock()
		delete(s.follows, f)
		s.mu.Unlock()
		cancel()
	}
}

// adopt goes by a directory from now on, if it is later than the one so far.
func (s *Store) adopt(d *Directory) {
	s.mu.Lock()
	old := s.routing.Load()
	if old != nil && old.dir.Version >= d.Version {
		s.mu.Unlock()
		return
	}
	s.routing.Store(s.newRouting(d))
	if old != nil {
		old.retire()
		s.retired = append(s.retired, old)
	}
	s.mu.Unlock()
	s.reportUnknown(d)
	s.announce()
	s.wakeAcknowledger()
	if m := d.Move; m != nil && m.Stage == Closed {
		s.reopenLater(d)
	}
}

// reportUnknown logs the shards of a directory that the program does not know.
func (s *Store) reportUnknown(d *Directory) {
	for _, name := range d.Shards {
		if s.byName[name] == nil {
			s.log.Error("directory names a shard that is not configured", "shard", name, "version", d.Version)
		}
	}
}

// announce has those who wait look again: the directory has changed, or a shard is up again.
func (s *Store) announce() {
	s.mu.Lock()
	defer s.mu.Unlock()
	r := s.routing.Load()
	for f := range s.follows {
		if r != nil && r.of(f.tenant) != f.on {
			f.cancel()
		}
	}
	close(s.changed)
	s.changed = make(chan struct{})
}

// news returns a channel that is closed when the directory has changed or a shard is up again.
func (s *Store) news() <-chan struct{} {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.changed
}
