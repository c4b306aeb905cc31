package abide_test

import (
	"bytes"
	"context"
	"errors"
	"log/slog"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/abidehq/abide"
	"github.com/abidehq/abide/history"
	"github.com/abidehq/abide/internal/teststore"
	"github.com/abidehq/abide/store"
)

// stage is an engine in virtual time, as a program uses it.
type stage struct {
	*testing.T
	*abide.Engine
	store store.Store
	log   *logBook
}

// onStage runs f in virtual time with an engine that serves what there is.
func onStage(t *testing.T, serve []abide.Definition, f func(s *stage)) {
	t.Helper()
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		s := &stage{T: t, store: teststore.New(t), log: &logBook{}}
		defer s.store.Close()
		s.open(serve...)
		defer func() { s.check(s.Engine.Close()) }()
		f(s)
	})
}

// open serves something, in a new engine.
func (s *stage) open(serve ...abide.Definition) {
	s.Helper()
	if s.Engine != nil {
		s.check(s.Engine.Close())
	}
	e, err := abide.New(s.store, abide.Config{Register: serve, Unlisted: true, Logger: slog.New(slog.NewTextHandler(s.log, nil))})
	s.check(err)
	s.Engine = e
}

func (s *stage) check(err error) {
	s.Helper()
	if err != nil {
		s.Fatal(err)
	}
}

// wait lets time pass, and what happens then come to rest.
func (*stage) wait(d time.Duration) {
	<-time.After(d)
	synctest.Wait()
}

// month is a context that ends, so that what never comes is found out.
func (s *stage) month() context.Context {
	ctx, cancel := context.WithTimeout(s.Context(), 30*24*time.Hour)
	s.Cleanup(cancel)
	return ctx
}

// stalled waits until an instance stalls, and checks why.
func (s *stage) stalled(ref abide.Ref, words ...string) {
	s.Helper()
	info, err := s.Get(s.month(), ref)
	for err == nil && info.Status != abide.Stalled && !info.Status.Ended() {
		info, err = s.WaitChange(s.month(), ref, info.Revision)
	}
	s.check(err)
	if info.Status != abide.Stalled {
		s.Fatalf("%v is %s: %v", ref, info.Status, info.Err)
	}
	for _, w := range words {
		if !strings.Contains(info.Reason, w) {
			s.Errorf("the reason does not say %q: %s", w, info.Reason)
		}
	}
}

// play starts an instance and returns its result.
func play[In, Out any](s *stage, o *abide.Orchestration[In, Out], in In, opts ...abide.StartOption) (Out, error) {
	s.Helper()
	i, err := o.Start(s.Context(), s.Engine, in, opts...)
	s.check(err)
	defer synctest.Wait() // so that what others wrote can be read
	return i.Result(s.month())
}

// expect plays something and compares its result.
func expect[In any, Out comparable](s *stage, o *abide.Orchestration[In, Out], in In, want Out) {
	s.Helper()
	if got, err := play(s, o, in); err != nil || got != want {
		s.Errorf("%s: got %v, %v, want %v", o.Name(), got, err, want)
	}
}

// same compares.
func same[T comparable](s *stage, what string, got, want T) {
	s.Helper()
	if got != want {
		s.Errorf("%s: got %v, want %v", what, got, want)
	}
}

// refuses checks that an error is of a kind, and says something.
func refuses(t *testing.T, err, kind error, words ...string) {
	t.Helper()
	if !errors.Is(err, kind) {
		t.Errorf("error %v, want %v", err, kind)
		return
	}
	for _, w := range words {
		if !strings.Contains(err.Error(), w) {
			t.Errorf("error %q does not say %q", err, w)
		}
	}
}

// logBook keeps what is logged.
type logBook struct {
	mu   sync.Mutex
	text bytes.Buffer
}

func (b *logBook) Write(p []byte) (int, error) {
	b.mu.Lock()
	defer b.mu.Unlock()
	return b.text.Write(p)
}

// count says in how many lines some words are.
func (b *logBook) count(words string) int {
	b.mu.Lock()
	defer b.mu.Unlock()
	n := 0
	for line := range strings.Lines(b.text.String()) {
		if strings.Contains(line, words) {
			n++
		}
	}
	return n
}

// badPayload checks the payload because of which an instance has stalled: what kind of event has it,
// and that it can be read.
func (s *stage) badPayload(ref abide.Ref, kind history.Kind, data string) {
	s.Helper()
	info, err := s.Get(s.Context(), ref)
	s.check(err)
	bad := info.BadPayload
	if bad == nil || bad.Kind != kind {
		s.Fatalf("%v has the bad payload %+v, want one of %v", ref, bad, kind)
	}
	list, err := s.Undelivered(s.Context(), ref)
	s.check(err)
	for _, u := range list {
		if u.Message == bad.Message && string(u.Event.Data) == data {
			return
		}
	}
	s.Errorf("%v: %s is not among %+v", ref, data, list)
}

// replay replays a history.
func (s *stage) replay(h *abide.History, serve ...abide.Definition) ([]string, error) {
	r, err := abide.NewReplayer(nil, nil, serve...)
	s.check(err)
	return r.Replay(h)
}
