package remote

import (
	"bufio"
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"iter"
	"net/http"
	"strings"
	"time"

	"github.com/abidehq/abide"
	"github.com/abidehq/abide/internal/backoff"
	"github.com/abidehq/abide/server/api"
)

const (
	// streamSilence is how long a stream may say nothing before its connection counts as
	// broken: a server says that it is there several times in that time.
	streamSilence = 45 * time.Second

	// maxEvent is the longest line of a stream.
	maxEvent = 16 << 20
)

// Changes returns the instances that change by what the server commits: see
// [abide.Watcher]. A connection that breaks is made again, and it goes on where it was. If
// that is not possible, because nothing has changed yet by which the place could be named,
// it ends with [abide.ErrMissed].
func (e *transport) Changes(ctx context.Context, after string) iter.Seq2[abide.Change, error] {
	// It counts from now on, also if it is ranged over later.
	w := &watch{e: e, ctx: ctx, after: after}
	w.connect()
	return func(yield func(abide.Change, error) bool) {
		defer w.close()
		w.run(yield)
	}
}

// watch is a reader of changes.
type watch struct {
	e     *transport
	ctx   context.Context
	after string

	events *events // of the connection, if there is one
	err    error   // of making it
	opened bool    // there was a connection
}

// connect makes a connection, or notes why it cannot.
func (w *watch) connect() {
	w.events, w.err = w.e.stream(w.ctx, "/api/v1/instances/stream", w.after)
	w.opened = w.opened || w.err == nil
}

func (w *watch) close() {
	if w.events != nil {
		w.events.close()
		w.events = nil
	}
}

func (w *watch) run(yield func(abide.Change, error) bool) {
	pause := backoff.Pause{Clock: w.e.clock, Min: pauseLeast, Max: pauseMost}
	for w.ctx.Err() == nil {
		if w.events == nil && w.err == nil { // it is ranged over once more
			w.connect()
		}
		if w.err != nil {
			if w.ctx.Err() == nil && (!again(w.err) || !w.e.c.reached.Load()) {
				yield(abide.Change{}, w.err)
				return
			}
			if pause.Sleep(w.ctx) != nil {
				return
			}
			if w.opened && w.after == "" {
				yield(abide.Change{}, abide.ErrMissed)
				return
			}
			w.connect()
			continue
		}
		ev, err := w.events.next()
		if err != nil {
			w.close()
			w.err = fmt.Errorf("remote: changes: %w: %w", err, ErrUnreachable)
			continue
		}
		pause.Reset()
		w.after = w.events.last
		switch ev.name {
		case "missed":
			yield(abide.Change{}, abide.ErrMissed)
			return
		case "change":
			var c api.Change
			if err := json.Unmarshal(ev.data, &c); err != nil {
				yield(abide.Change{}, fmt.Errorf("remote: a change is not understood: %w", err))
				return
			}
			if !yield(c.Change(w.after), nil) {
				return
			}
		}
	}
}

// streamed is an event of a stream.
type streamed struct {
	name string
	data []byte
}

// events are those of a connection.
type events struct {
	last   string // the ID of the last event
	lines  *bufio.Scanner
	cancel context.CancelFunc
	body   io.Closer
	quiet  func() // the connection is not silent
	stop   func()
}

// stream makes a connection for a stream. It returns when the server has begun to answer.
func (e *transport) stream(ctx context.Context, path, after string) (*events, error) {
	ctx, cancel := context.WithCancel(ctx)
	silence := newSilence(e.clock, cancel)
	req, err := http.NewRequestWithContext(ctx, http.MethodGet, e.c.base+path, http.NoBody)
	if err == nil {
		req.Header.Set("Accept", "text/event-stream")
		if after != "" {
			req.Header.Set("Last-Event-ID", after)
		}
		var resp *http.Response
		if resp, err = e.c.http.Do(req); err == nil {
			e.c.reached.Store(true)
			if resp.StatusCode == http.StatusOK {
				lines := bufio.NewScanner(resp.Body)
				lines.Buffer(nil, maxEvent)
				return &events{last: after, lines: lines, cancel: cancel, body: resp.Body, quiet: silence.reset, stop: silence.stop}, nil
			}
			data, _ := io.ReadAll(io.LimitReader(resp.Body, maxAnswer)) // what cannot be read is not a problem of ours
			_ = resp.Body.Close()
			err = failure(resp.StatusCode, data)
		} else {
			err = fmt.Errorf("remote: %w: %w", err, ErrUnreachable)
		}
	}
	silence.stop()
	cancel()
	return nil, err
}

// next returns the next event. One without data says only how far the stream has come.
func (s *events) next() (streamed, error) {
	var ev streamed
	for s.lines.Scan() {
		s.quiet()
		line := s.lines.Bytes()
		if len(line) == 0 {
			if ev.data != nil {
				return ev, nil
			}
			ev = streamed{}
			continue
		}
		field, value, _ := bytes.Cut(line, []byte(":"))
		value = bytes.TrimPrefix(value, []byte(" "))
		switch string(field) {
		case "event":
			ev.name = string(value)
		case "data":
			if ev.data != nil {
				ev.data = append(ev.data, '\n')
			}
			ev.data = append(ev.data, value...)
		case "id":
			if !strings.Contains(string(value), "\x00") {
				s.last = string(value)
			}
		}
	}
	if err := s.lines.Err(); err != nil {
		return ev, err
	}
	return ev, errors.New("the stream has ended")
}

func (s *events) close() {
	s.stop()
	s.cancel()
	_ = s.body.Close() // nobody reads it any more
}
