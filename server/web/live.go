package web

import (
	"context"
	"errors"
	"fmt"
	"io"
	"iter"
	"maps"
	"net/http"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/abidehq/abide"
	"github.com/abidehq/abide/internal/base"
	"github.com/abidehq/abide/server/auth"
)

// Kinds of things that change.
const (
	liveInstances = "instances"
	liveTick      = "tick" // all that nobody tells about changes of: every two seconds
)

const (
	livePace  = time.Second // at most one event in this time
	tickEvery = 2           // paces
	pingEvery = 15          // paces without an event, after which there is a sign of life

	// liveWrite is how long a browser may leave no room for what is sent to it. Then it is
	// dropped.
	liveWrite = 10 * time.Second
)

// live streams what kinds of things have changed, one line each, at most once a second. The
// page then asks for itself once more, so that nothing is shown that its reader may not
// see.
func (s *site) live(w http.ResponseWriter, r *http.Request) {
	req := s.request(r)
	if !req.who.Role.Includes(auth.Read) {
		s.fail(w, r, errReadOnly)
		return
	}
	sub := &subscriber{who: req.who, wants: map[string]bool{}, woken: make(chan struct{}, 1), changed: map[string]bool{}, over: make(chan struct{})}
	for kind := range strings.SplitSeq(req.value("kinds"), ",") {
		sub.wants[kind] = true
	}
	if id := req.value("id"); id != "" {
		tenant := strings.TrimPrefix(req.value("tenant"), mark)
		sub.only = &abide.Ref{Tenant: tenantName(tenant), ID: strings.TrimPrefix(id, mark)}
	}
	defer s.hub.add(sub)()

	h := w.Header()
	h.Set("Content-Type", "text/event-stream")
	h.Set("Cache-Control", "no-store")
	h.Set("X-Accel-Buffering", "no")
	out := http.NewResponseController(w)
	if !write(w, out, "retry: 2000\n\n") {
		return
	}
	s.stream(r.Context(), w, out, sub)
}

// write sends text, and reports whether the client has taken it in time. The stream goes on
// for longer than that; not every writer has a deadline. Connections go by the machine's
// clock.
func write(w io.Writer, out *http.ResponseController, text string) bool {
	_ = out.SetWriteDeadline(base.System{}.Now().Add(liveWrite))
	if _, err := io.WriteString(w, text); err != nil || out.Flush() != nil {
		return false
	}
	_ = out.SetWriteDeadline(time.Time{})
	return true
}

// stream writes events until the client is gone. What changes is told at once, unless
// something was told within the last pace: then it goes with the next event.
func (s *site) stream(ctx context.Context, w io.Writer, out *http.ResponseController, sub *subscriber) {
	pace := make(chan struct{}, 1)
	for paces, quiet, ready := 0, 0, true; ; {
		woken := sub.woken
		if !ready {
			woken = nil
		}
		stop := s.clock.AfterFunc(livePace, func() { pace <- struct{}{} })
		paced := false
		select {
		case <-ctx.Done():
			stop()
			return
		case <-sub.over:
			stop()
			return
		case <-woken:
			if !stop() {
				<-pace // it came in the same moment, and counts from the event on
			}
		case <-pace:
			paced, ready = true, true
			paces, quiet = paces+1, quiet+1
		}
		kinds := sub.take()
		if paced && paces%tickEvery == 0 {
			kinds = append(kinds, sub.ticked(s.hub.watcher == nil)...)
		}
		switch {
		case len(kinds) > 0:
			ready, quiet = false, 0
			if !send(w, out, kinds) {
				return
			}
		case quiet >= pingEvery:
			quiet = 0
			if !write(w, out, ":\n\n") {
				return
			}
		}
	}
}

// send writes an event, and reports whether the client is there.
func send(w io.Writer, out *http.ResponseController, kinds []string) bool {
	var b strings.Builder
	b.WriteString("event: change\n")
	for _, kind := range slices.Compact(slices.Sorted(slices.Values(kinds))) {
		fmt.Fprintf(&b, "data: %s\n", kind)
	}
	b.WriteString("\n")
	return write(w, out, b.String())
}

// subscriber is the event stream of an open page.
type subscriber struct {
	who   auth.Identity
	wants map[string]bool
	only  *abide.Ref // the instance that the page is about, if it is about one

	woken chan struct{}
	over  chan struct{}

	mu      sync.Mutex
	changed map[string]bool
}

// take returns what has changed since it was last called.
func (sub *subscriber) take() []string {
	sub.mu.Lock()
	defer sub.mu.Unlock()
	kinds := slices.Collect(maps.Keys(sub.changed))
	clear(sub.changed)
	return kinds
}

// ticked returns what may have changed, as some time has passed.
func (sub *subscriber) ticked(unwatched bool) []string {
	var kinds []string
	if sub.wants[liveTick] {
		kinds = append(kinds, liveTick)
	}
	if unwatched && sub.wants[liveInstances] {
		kinds = append(kinds, liveInstances)
	}
	return kinds
}

// tell notes that an instance has changed, if the page is about it.
func (sub *subscriber) tell(ref abide.Ref) {
	if !sub.wants[liveInstances] || sub.only != nil && *sub.only != ref || !sub.who.Allows(ref.Tenant) {
		return
	}
	sub.mu.Lock()
	sub.changed[liveInstances] = true
	sub.mu.Unlock()
	select {
	case sub.woken <- struct{}{}:
	default:
	}
}

// hub tells all pages which instances change. It listens only while there is a page.
type hub struct {
	site    *site
	watcher abide.Watcher

	mu   sync.Mutex
	subs map[*subscriber]bool
	stop context.CancelFunc
}

func newHub(s *site) *hub {
	h := &hub{site: s, subs: map[*subscriber]bool{}}
	if s.engine != nil {
		h.watcher, _ = s.engine.Transport().(abide.Watcher)
	}
	return h
}

// add adds a page, and returns what removes it.
func (h *hub) add(sub *subscriber) (remove func()) {
	h.mu.Lock()
	defer h.mu.Unlock()
	h.subs[sub] = true
	if h.stop == nil && h.watcher != nil {
		var ctx context.Context
		ctx, h.stop = context.WithCancel(context.Background()) // it is stopped with the last page
		go h.listen(ctx, h.watcher.Changes(ctx, ""))           // from now on, not from when it is listened to
	}
	return func() {
		h.mu.Lock()
		defer h.mu.Unlock()
		delete(h.subs, sub)
		if len(h.subs) == 0 && h.stop != nil {
			h.stop()
			h.stop = nil
		}
	}
}

// listen tells the pages until ctx ends. Who misses a change learns of the next one, and
// has shown the state of the moment: nothing is made of changes one by one.
func (h *hub) listen(ctx context.Context, changes iter.Seq2[abide.Change, error]) {
	for ctx.Err() == nil {
		var last error
		for c, err := range changes {
			if err != nil {
				last = err
				break
			}
			h.each(func(sub *subscriber) { sub.tell(c.Ref) })
		}
		if errors.Is(last, abide.ErrStopping) {
			h.end(ctx)
			return
		}
		changes = h.watcher.Changes(ctx, "")
		if ctx.Err() == nil {
			h.each(func(sub *subscriber) { sub.wake() })
			wait(ctx, h.site)
		}
	}
}

// wait waits for a pace.
func wait(ctx context.Context, s *site) {
	passed := make(chan struct{})
	stop := s.clock.AfterFunc(livePace, func() { close(passed) })
	defer stop()
	select {
	case <-ctx.Done():
	case <-passed:
	}
}

// wake notes that anything may have changed.
func (sub *subscriber) wake() {
	if ref := sub.only; ref != nil {
		sub.tell(*ref)
		return
	}
	for _, tenant := range sub.who.Tenants {
		sub.tell(abide.Ref{Tenant: tenant})
	}
	if sub.who.Tenants == nil {
		sub.tell(abide.Ref{})
	}
}

func (h *hub) each(f func(*subscriber)) {
	h.mu.Lock()
	defer h.mu.Unlock()
	for sub := range h.subs {
		f(sub)
	}
}

// end ends all streams: the engine is being closed, and its server waits for them.
func (h *hub) end(ctx context.Context) {
	h.mu.Lock()
	defer h.mu.Unlock()
	if ctx.Err() != nil {
		return // others have come since
	}
	for sub := range h.subs {
		close(sub.over)
		delete(h.subs, sub)
	}
	h.stop()
	h.stop = nil
}
