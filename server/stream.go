package server

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"net/http"
	"strings"
	"sync"
	"time"

	"github.com/danielgtaylor/huma/v2"
	"github.com/danielgtaylor/huma/v2/adapters/humago"

	"github.com/abidehq/abide/internal/base"
	"github.com/abidehq/abide/internal/ratelimit"
	"github.com/abidehq/abide/server/api"
	"github.com/abidehq/abide/server/auth"
)

// Limits of streams.
const (
	// streamBeat is how often a stream says something when there is nothing to say, so that
	// nobody in between takes the connection for dead.
	streamBeat = 15 * time.Second

	// streamFlush is how long events may wait for others to go along: a stream on which
	// much happens is not sent in crumbs.
	streamFlush = 25 * time.Millisecond

	// streamWrite is how long a client may leave no room for what is sent to it. Then it
	// is dropped.
	streamWrite = 10 * time.Second

	// streamLife is how long a stream lasts. A client comes back to where it was, and has
	// to show its token once more.
	streamLife = 10 * time.Minute

	// streamRetry is how long a client is asked to wait before it comes back.
	streamRetry = 2 * time.Second

	// streamCheck is how often the credentials of a stream are looked at again: one whose
	// token or session was revoked ends within this time.
	streamCheck = 30 * time.Second

	// MaxStreams is how many streams there may be at a time, those of the page included.
	MaxStreams = 10_000

	// MaxStreamsOfCaller is how many a token, a person or a certificate may have,
	// MaxStreamsOfAddress how many an address, and MaxStreamsOfTenant how many all those
	// together who have this tenant, and not all tenants.
	MaxStreamsOfCaller  = 2_000
	MaxStreamsOfAddress = 4_000
	MaxStreamsOfTenant  = 4_000
)

// live is the requests that last long: streams, and waits.
type live struct {
	draining context.Context
	drain    context.CancelFunc
	frames   frames

	mu      sync.Mutex
	streams map[string]int // by whose they are; those of all under the empty name
}

func newLive() *live {
	ctx, cancel := context.WithCancel(context.Background())
	return &live{draining: ctx, drain: cancel, frames: frames{kept: map[string][]byte{}}, streams: map[string]int{}}
}

// enter counts a stream until leave is called, or returns a problem if there are too many.
func (l *live) enter(who *auth.Identity, remote string) (leave func(), p *api.Problem) {
	type seat struct {
		of, what string
		most     int
	}
	seats := []seat{
		{"", "of this server", MaxStreams},
		{"caller/" + caller(who), "of this caller", MaxStreamsOfCaller},
		{"address/" + ratelimit.Source(remote), "of this address", MaxStreamsOfAddress},
	}
	for _, tenant := range who.Tenants {
		seats = append(seats, seat{"tenant/" + tenant, "of tenant " + tenant, MaxStreamsOfTenant})
	}
	l.mu.Lock()
	defer l.mu.Unlock()
	for _, s := range seats {
		if l.streams[s.of] < s.most {
			continue
		}
		status, code := http.StatusTooManyRequests, api.CodeRate
		if s.of == "" {
			status, code = http.StatusServiceUnavailable, api.CodeUnavailable
		}
		return nil, newProblem(status, code, "too many streams "+s.what, fmt.Sprintf("%d are allowed at a time", s.most))
	}
	for _, s := range seats {
		l.streams[s.of]++
	}
	return func() {
		l.mu.Lock()
		defer l.mu.Unlock()
		for _, s := range seats {
			if l.streams[s.of]--; l.streams[s.of] == 0 {
				delete(l.streams, s.of)
			}
		}
	}, nil
}

// openStream returns a context for a stream, which ends when the client is gone, when the
// server is about to stop, when the stream has gone on for long enough, or when its
// credentials are not good any more. It returns a problem if there are too many streams.
func (s *Server) openStream(ctx context.Context, r *http.Request) (_ context.Context, end func(), p *api.Problem) {
	q := requestOf(ctx)
	who, _ := auth.Of(ctx)
	leave, p := s.live.enter(&who, q.remote)
	if p != nil {
		return nil, nil, p
	}
	ctx, cancel := context.WithCancel(ctx)
	life := s.clock.AfterFunc(streamLife, cancel)
	drain := context.AfterFunc(s.live.draining, cancel)
	unwatch := func() {}
	if s.cfg.Auth != nil && !q.told {
		unwatch = s.watch(r, who, cancel)
	}
	return ctx, func() {
		unwatch()
		life()
		drain()
		cancel()
		leave()
	}, nil
}

// watch calls cancel once the credentials of a request are not good any more, until what it
// returns is called.
func (s *Server) watch(r *http.Request, who auth.Identity, cancel func()) (stop func()) {
	var mu sync.Mutex
	ended := false
	var next func() bool
	var look func()
	look = func() {
		if !s.cfg.Auth.Still(r, who) {
			cancel()
			return
		}
		mu.Lock()
		defer mu.Unlock()
		if !ended {
			next = s.clock.AfterFunc(streamCheck, look)
		}
	}
	next = s.clock.AfterFunc(streamCheck, look)
	return func() {
		mu.Lock()
		defer mu.Unlock()
		ended = true
		next()
	}
}

// Drain has the server say that it is not ready, so that no more requests are sent to it. It
// ends all streams and all requests that wait for something to happen, and those that come
// after it at once. Others are answered all the same. A program calls it when it is about to stop, such as from
// [http.Server.RegisterOnShutdown], so that it need not wait for those who wait.
func (s *Server) Drain() {
	s.draining.Store(true)
	s.live.drain()
}

// event returns an event as a stream has it. The ID may be empty.
func event(name, id string, data any) ([]byte, error) {
	body, err := json.Marshal(data)
	if err != nil {
		return nil, fmt.Errorf("event %s: %w", name, err)
	}
	var b bytes.Buffer
	if id != "" {
		b.WriteString("id: " + id + "\n")
	}
	b.WriteString("event: " + name + "\ndata: ")
	b.Write(body) // JSON has no line breaks
	b.WriteString("\n\n")
	return b.Bytes(), nil
}

// keptFrames is how many events are kept in the form in which streams have them.
const keptFrames = 1024

// frames keeps events in the form in which streams have them, so that one that goes to a
// thousand clients is encoded once.
type frames struct {
	mu   sync.Mutex
	kept map[string][]byte
	ring [keptFrames]string
	next int
}

// of returns the event with that ID, which encode makes unless it is there.
func (f *frames) of(id string, encode func() ([]byte, error)) ([]byte, error) {
	f.mu.Lock()
	defer f.mu.Unlock()
	if frame, ok := f.kept[id]; ok {
		return frame, nil
	}
	frame, err := encode()
	if err != nil {
		return nil, err
	}
	delete(f.kept, f.ring[f.next])
	f.ring[f.next], f.kept[id] = id, frame
	f.next = (f.next + 1) % keptFrames
	return frame, nil
}

// stream is a connection on which events are sent to a client.
type stream struct {
	clock base.Clock
	out   http.ResponseWriter
	conn  *http.ResponseController
	stop  context.CancelFunc // when the client is gone

	mu      sync.Mutex
	failed  bool
	closed  bool
	flushed time.Time
	late    func() bool // stops the flush that is to come, if not nil
	beat    func() bool // stops the next beat
	seen    string      // the ID up to which the client need not look again
	told    string      // the latest ID that it was told
}

// stream answers with events for as long as f sends some. The context of f is that of
// openStream.
func (s *Server) stream(f func(ctx context.Context, st *stream)) (*huma.StreamResponse, error) {
	return &huma.StreamResponse{Body: func(hctx huma.Context) {
		r, w := humago.Unwrap(hctx)
		ctx, end, p := s.openStream(hctx.Context(), r)
		if p != nil {
			s.refuse(hctx, p)
			return
		}
		defer end()
		h := w.Header()
		h.Set("Content-Type", "text/event-stream")
		h.Set("Cache-Control", "no-store")
		h.Set("X-Accel-Buffering", "no") // a proxy that collects what it passes on would hold up events
		ctx, cancel := context.WithCancel(ctx)
		defer cancel()
		st := &stream{clock: s.clock, out: w, conn: http.NewResponseController(w), stop: cancel}
		defer st.close()
		f(ctx, st)
	}}, nil
}

// open tells the client that nothing escapes it from now on.
func (st *stream) open() {
	st.send(fmt.Appendf(nil, "retry: %d\n: open\n\n", streamRetry.Milliseconds()))
	st.mu.Lock()
	defer st.mu.Unlock()
	st.beat = st.clock.AfterFunc(streamBeat, st.pulse)
}

// close ends the stream.
func (st *stream) close() {
	st.mu.Lock()
	defer st.mu.Unlock()
	st.closed = true
	if st.beat != nil {
		st.beat()
	}
	if st.late != nil {
		st.late()
	}
	if !st.failed {
		defer st.deadline()()
		_ = st.conn.Flush() // the client may be gone
	}
}

// pulse says that the stream is alive, and how far the client has come even if there was
// nothing in it for it.
func (st *stream) pulse() {
	st.mu.Lock()
	defer st.mu.Unlock()
	if st.closed || st.failed {
		return
	}
	beat := ": still here\n\n"
	if st.seen != st.told {
		st.told = st.seen
		beat = "id: " + st.seen + "\n\n"
	}
	st.write([]byte(beat))
	st.flush()
	st.beat = st.clock.AfterFunc(streamBeat, st.pulse)
}

// see notes that the client need not be told of anything up to an ID.
func (st *stream) see(id string) {
	st.mu.Lock()
	defer st.mu.Unlock()
	st.seen = id
}

// send sends an event, at once or together with others that come right after it. It waits
// while the client leaves no room.
func (st *stream) send(frame []byte) {
	st.mu.Lock()
	defer st.mu.Unlock()
	if st.failed || st.closed {
		return
	}
	st.told = st.seen
	st.write(frame)
	if st.late != nil {
		return
	}
	wait := streamFlush - st.clock.Now().Sub(st.flushed)
	if wait <= 0 || wait > streamFlush {
		st.flush()
		return
	}
	st.late = st.clock.AfterFunc(wait, func() {
		st.mu.Lock()
		defer st.mu.Unlock()
		st.late = nil
		if !st.closed {
			st.flush()
		}
	})
}

// write writes to the buffer of the connection. The lock is held.
func (st *stream) write(data []byte) {
	if st.failed {
		return
	}
	defer st.deadline()()
	if _, err := st.out.Write(data); err != nil {
		st.fail()
	}
}

// flush sends what is in the buffer. The lock is held.
func (st *stream) flush() {
	if st.failed {
		return
	}
	defer st.deadline()()
	st.flushed = st.clock.Now()
	if err := st.conn.Flush(); err != nil {
		st.fail()
	}
}

// deadline gives the client some time to make room, until what it returns is called: with
// HTTP/2, a stream on which time is up is reset, even if there is nothing to write.
// Connections go by the machine's clock.
func (st *stream) deadline() (over func()) {
	_ = st.conn.SetWriteDeadline(base.System{}.Now().Add(streamWrite)) // what has no deadline is a test's
	return func() {
		if !st.failed { // one that is late stays late
			_ = st.conn.SetWriteDeadline(time.Time{})
		}
	}
}

// fail gives up on the client. The lock is held.
func (st *stream) fail() {
	st.failed = true
	st.stop()
}

// lastEvent returns where a client left off: what the header says, which a browser sets
// when it comes back, or else the query.
func lastEvent(header, query string) string {
	if header = strings.TrimSpace(header); header != "" {
		return header
	}
	return query
}

// eventsSchema describes a stream of events in the API's document.
func (s *Server) eventsSchema(description string) map[string]*huma.Response {
	return map[string]*huma.Response{"200": {
		Description: description,
		Content:     map[string]*huma.MediaType{"text/event-stream": {Schema: &huma.Schema{Type: huma.TypeString}}},
	}}
}
