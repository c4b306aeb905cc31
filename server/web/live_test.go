package web_test

import (
	"bufio"
	"context"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/abidehq/abide"
	"github.com/abidehq/abide/internal/check"
	"github.com/abidehq/abide/server/web"
)

// stream is what a page hears.
type stream struct {
	t      *testing.T
	events chan string
	end    context.CancelFunc
	over   chan struct{}
}

// pipe is a response that is read while it is written.
type pipe struct {
	header http.Header
	lines  *linesWriter
}

func (p *pipe) Header() http.Header         { return p.header }
func (p *pipe) WriteHeader(int)             {}
func (p *pipe) Write(b []byte) (int, error) { return p.lines.Write(b) }
func (p *pipe) Flush()                      {}

// linesWriter puts the events that it is given onto a channel.
type linesWriter struct {
	rest   string
	events chan string
}

func (l *linesWriter) Write(b []byte) (int, error) {
	l.rest += string(b)
	for {
		event, rest, found := strings.Cut(l.rest, "\n\n")
		if !found {
			return len(b), nil
		}
		l.rest = rest
		l.events <- event
	}
}

// listen opens a stream.
func (w *world) listen(query string) *stream {
	w.t.Helper()
	ctx, cancel := context.WithCancel(w.t.Context())
	s := &stream{t: w.t, events: make(chan string, 100), end: cancel, over: make(chan struct{})}
	r := httptest.NewRequest(http.MethodGet, "/live?"+query, nil).WithContext(ctx)
	go func() {
		defer close(s.over)
		w.handler.ServeHTTP(&pipe{http.Header{}, &linesWriter{events: s.events}}, r)
	}()
	synctest.Wait()
	check.Equal(w.t, "it begins with", <-s.events, "retry: 2000")
	return s
}

// heard returns what has come by now.
func (s *stream) heard() []string {
	synctest.Wait()
	var list []string
	for {
		select {
		case e := <-s.events:
			list = append(list, e)
		default:
			return list
		}
	}
}

// want fails the test unless exactly these events have come.
func (s *stream) want(why string, want ...string) {
	s.t.Helper()
	if got := s.heard(); strings.Join(got, "|") != strings.Join(want, "|") {
		s.t.Errorf("%s: heard %q, want %q", why, got, want)
	}
}

const (
	changed = "event: change\ndata: instances"
	ticked  = "event: change\ndata: tick"
)

// pass lets time pass in a bubble.
func pass(d time.Duration) { <-time.After(d) }

func TestLiveTellsOfInstances(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t)
		all := w.listen("kinds=instances")
		one := w.listen("kinds=instances&tenant=default&id=nap-1")
		w.who = acme
		mine := w.listen("kinds=instances")
		w.who = admin
		pass(10 * time.Second)
		all.want("nothing has happened")
		w.start("nap", "nap-1", "", abide.Running)
		for _, s := range []*stream{all, one} {
			if got := s.heard(); len(got) == 0 || got[0] != changed {
				t.Errorf("at once: heard %q", got)
			}
		}
		mine.want("somebody else's instance")
		pass(3 * time.Second)
		all.heard()
		one.heard()
		pass(500 * time.Millisecond)
		for range 20 {
			w.start("nap", "nap-2", "", abide.Running)
			w.start("nap", "nap-"+time.Now().String(), "acme", abide.Running)
			pass(10 * time.Millisecond)
		}
		pass(900 * time.Millisecond)
		if n := len(all.heard()); n < 1 || n > 2 {
			t.Errorf("%d events in 1.1 seconds, want 1 or 2", n)
		}
		one.want("another instance")
		if n := len(mine.heard()); n < 1 || n > 2 {
			t.Errorf("%d events about my own instances, want 1 or 2", n)
		}
		for _, s := range []*stream{all, one, mine} {
			s.end()
			<-s.over
		}
	})
}

func TestLiveTicks(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t)
		s := w.listen("kinds=tick")
		pass(10*time.Second + 500*time.Millisecond)
		s.want("every two seconds", ticked, ticked, ticked, ticked, ticked)
		quiet := w.listen("kinds=")
		pass(40 * time.Second)
		quiet.want("signs of life", ":", ":")
		// When the engine is closed, so are the streams: whoever serves them waits for them.
		check.OK(t, w.engine.Close())
		<-quiet.over
		<-s.over
	})
}

// unwatched is the transport of a store without its changes.
type unwatched struct {
	abide.Transport
	abide.Operator
}

func TestLiveWithoutAWatcherLooksEveryTwoSeconds(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t, func(cfg *web.Config) {
			t := cfg.Engine.AsClient().Transport()
			cfg.Engine = abide.ClientOver(unwatched{t, t.(abide.Operator)}, nil)
		})
		s := w.listen("kinds=instances")
		pass(4*time.Second + 500*time.Millisecond)
		s.want("every two seconds", changed, changed)
		s.end()
		<-s.over
	})
}

// TestLiveOverHTTP: nothing between the handler and a client keeps events back.
func TestLiveOverHTTP(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	server := httptest.NewServer(w.handler)
	t.Cleanup(server.Close)
	answer, err := http.Get(server.URL + "/live?kinds=instances")
	check.OK(t, err)
	defer answer.Body.Close()
	check.Equal(t, "the content type", answer.Header.Get("Content-Type"), "text/event-stream")
	lines := bufio.NewScanner(answer.Body)
	for lines.Scan() && lines.Text() != "" {
		continue
	}
	w.start("nap", "nap-1", "", abide.Running)
	for lines.Scan() {
		if lines.Text() == "data: instances" {
			return
		}
	}
	t.Error("the stream ends without an event")
}
