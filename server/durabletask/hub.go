package durabletask

import (
	"context"
	"errors"
	"slices"
	"sync"

	"github.com/abidehq/abide/internal/backoff"
	"github.com/abidehq/abide/internal/engine"
	"github.com/abidehq/abide/store"
)

// hub is a task hub: a tenant, the names that were used in it, and its workers that are connected here.
//
// A worker without filters takes everything of its hub, and a claim names what it wants. So each name is made
// durable in the hub's record before anything is committed that needs it, and all processes that have workers of
// the hub wait for changes of that record: a worker learns of a new name before, or as soon as, there is work for
// it.
type hub struct {
	s      *Service
	tenant string // as the store has it

	mu       sync.Mutex
	names    names
	version  int64
	changed  chan struct{} // closed when there are other names
	sessions []*session
	watching context.CancelFunc // nil without sessions
	wanted   names              // what calls of use want to add

	adding chan struct{} // holds a value while names are added: one change at a time, of all that are wanted
}

// use makes names known that are about to be needed.
func (h *hub) use(ctx context.Context, n names) error {
	if n.len() == 0 {
		return nil
	}
	if h.wants(n) {
		return nil
	}
	select {
	case h.adding <- struct{}{}:
		defer func() { <-h.adding }()
	case <-ctx.Done():
		return ctx.Err()
	}
	more, known := h.missing(n)
	if known {
		return nil
	}
	all, version, err := addNames(ctx, h.s.store, h.tenant, more)
	if err != nil {
		return err
	}
	h.set(all, version)
	return nil
}

// wants notes names that are to be added with the next change, and reports whether all are known already.
func (h *hub) wants(n names) (known bool) {
	h.mu.Lock()
	defer h.mu.Unlock()
	if h.names.has(&n) {
		return true
	}
	h.wanted.add(n)
	return false
}

// missing returns what a change for n adds: n, and what others want. It adds nothing if n was added meanwhile.
func (h *hub) missing(n names) (more names, known bool) {
	h.mu.Lock()
	defer h.mu.Unlock()
	if h.names.has(&n) {
		return names{}, true
	}
	more, h.wanted = h.wanted, names{}
	more.add(n) // a change that took it may have failed
	return more, false
}

// set keeps the names of a version, unless later ones are known.
func (h *hub) set(n names, version int64) {
	h.mu.Lock()
	defer h.mu.Unlock()
	if version <= h.version {
		return
	}
	h.names, h.version = n, version
	close(h.changed)
	h.changed = make(chan struct{})
}

// get returns the names, and a channel that is closed when there are others.
func (h *hub) get() (names, <-chan struct{}) {
	h.mu.Lock()
	defer h.mu.Unlock()
	return h.names, h.changed
}

// enter adds a session. The names are kept up to date while there is one.
func (h *hub) enter(ctx context.Context, s *session) error {
	n, version, err := readNames(ctx, h.s.store, h.tenant)
	if err != nil {
		return err
	}
	h.set(n, version)
	h.mu.Lock()
	defer h.mu.Unlock()
	h.sessions = append(h.sessions, s)
	if h.watching == nil {
		watching, cancel := context.WithCancel(context.Background())
		h.watching = cancel
		h.s.running.Go(func() { h.watch(watching) })
	}
	return nil
}

// leave removes a session.
func (h *hub) leave(s *session) {
	h.mu.Lock()
	defer h.mu.Unlock()
	h.sessions = slices.DeleteFunc(h.sessions, func(other *session) bool { return other == s })
	if len(h.sessions) == 0 && h.watching != nil {
		h.watching()
		h.watching = nil
	}
}

// watch keeps the names up to date until ctx ends.
func (h *hub) watch(ctx context.Context) {
	pause := backoff.Outage(h.s.cfg.Clock)
	for ctx.Err() == nil {
		h.mu.Lock()
		after := h.version
		h.mu.Unlock()
		n, version, err := awaitNames(ctx, h.s.store, h.tenant, after)
		switch {
		case ctx.Err() != nil, errors.Is(err, store.ErrClosed), errors.Is(err, store.ErrFailed):
			return
		case err != nil:
			_ = pause.Sleep(ctx)
		default:
			pause.Reset()
			h.set(n, version)
		}
	}
}

// starter returns the client by which an instance is best started: that of an engine here that runs it, so that its
// first turn is part of the commit of its start.
func (h *hub) starter(route string) *engine.Client {
	h.mu.Lock()
	defer h.mu.Unlock()
	for _, s := range h.sessions {
		if s.ready.Load() && s.engine.Serves(route) {
			return s.engine.Client
		}
	}
	return h.s.client
}
