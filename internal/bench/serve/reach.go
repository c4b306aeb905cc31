package serve

import (
	"bufio"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"strings"
	"sync"
	"time"

	"github.com/abidehq/abide"
	"github.com/abidehq/abide/internal/bench"
	"github.com/abidehq/abide/server/api"
)

// follower reads a stream of changes.
type follower struct {
	body  io.ReadCloser
	lines *bufio.Reader
}

// streamBuffer is how much of a stream its client reads ahead, in bytes.
const streamBuffer = 1024

func newFollower(body io.ReadCloser) *follower {
	return &follower{body: body, lines: bufio.NewReaderSize(body, streamBuffer)}
}

// streamEvent is an event of a stream. One that says nothing has no name.
type streamEvent struct{ id, name, data string }

// next returns the next event.
func (f *follower) next() (streamEvent, error) {
	var e streamEvent
	for {
		line, err := f.lines.ReadString('\n')
		if err != nil {
			if errors.Is(err, io.EOF) {
				err = io.ErrUnexpectedEOF // a stream does not end
			}
			return e, fmt.Errorf("bench: read a stream: %w", err)
		}
		field, value, _ := strings.Cut(strings.TrimSuffix(line, "\n"), ": ")
		switch field {
		case "":
			if line == "\n" {
				return e, nil
			}
		case "id":
			e.id = value
		case "event":
			e.name = value
		case "data":
			e.data = value
		}
	}
}

// read reads changes until the stream ends, which is an error, and notes them.
func (f *follower) read(rc *reach) error {
	for next := 0; ; {
		e, err := f.next()
		now := time.Now()
		switch {
		case err != nil:
			return err
		case e.name == "" || e.name == "change" && !strings.Contains(e.data, rc.run):
			continue // it says that it is there, or is about something else
		case e.name != "change":
			return fmt.Errorf("bench: a stream has the event %q: %s", e.name, e.data)
		}
		if err := rc.note(next, e, now); err != nil {
			return err
		}
		next++
	}
}

// reach notes when changes reach streams. All streams are told the same, in the same order.
type reach struct {
	run     string // what the names of instances begin with
	streams int

	mu        sync.Mutex
	known     map[string]int // by ID: where in the list
	list      []reached
	told      int64           // in all
	completed map[string]bool // instances whose end has reached all
}

// reached is a change, and how many streams were told of it, the last of them when.
type reached struct {
	data    string
	change  api.Change
	streams int
	last    time.Time
}

func newReach(run string, streams int) *reach {
	return &reach{run: run, streams: streams, known: map[string]int{}, completed: map[string]bool{}}
}

// note notes that a stream which was told of so many changes is told of the next one. What
// is not the next one for all of them was lost or told twice somewhere.
func (rc *reach) note(next int, e streamEvent, now time.Time) error {
	rc.mu.Lock()
	defer rc.mu.Unlock()
	i, known := rc.known[e.id]
	if !known {
		i = len(rc.list)
		c := reached{data: e.data}
		if err := json.Unmarshal([]byte(e.data), &c.change); err != nil {
			return fmt.Errorf("bench: read a change: %w", err)
		}
		rc.known[e.id], rc.list = i, append(rc.list, c)
	}
	if i != next {
		return fmt.Errorf("bench: a stream was told of change %d when it was the turn of change %d: %s", i+1, next+1, e.data)
	}
	c := &rc.list[i]
	if c.data != e.data {
		return fmt.Errorf("bench: a stream was told %s, and another one %s", e.data, c.data)
	}
	c.streams++
	rc.told++
	if now.After(c.last) {
		c.last = now
	}
	if c.streams == rc.streams && c.change.Status == string(abide.Completed) {
		rc.completed[c.change.ID] = true
	}
	return nil
}

// progress returns how many instances have completed as far as all streams know, and how
// much all of them were told.
func (rc *reach) progress() (completed int, told int64) {
	rc.mu.Lock()
	defer rc.mu.Unlock()
	return len(rc.completed), rc.told
}

// check returns an error unless all streams know of the end of n instances.
func (rc *reach) check(n int, id func(i int) string) error {
	rc.mu.Lock()
	defer rc.mu.Unlock()
	for i := range n {
		if !rc.completed[id(i)] {
			return fmt.Errorf("bench: not all streams were told that instance %s has completed", id(i))
		}
	}
	for i := range rc.list {
		if c := &rc.list[i]; c.streams != rc.streams {
			return fmt.Errorf("bench: %d of %d streams were told %s", c.streams, rc.streams, c.data)
		}
	}
	return nil
}

// latency returns how long it took until changes had reached all streams.
func (rc *reach) latency() *bench.Histogram {
	rc.mu.Lock()
	defer rc.mu.Unlock()
	h := &bench.Histogram{}
	for i := range rc.list {
		c := &rc.list[i]
		h.Record(c.last.Sub(c.change.At))
	}
	return h
}
