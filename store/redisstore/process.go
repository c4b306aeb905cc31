package redisstore

import (
	"context"
	"errors"
	"fmt"
	"strconv"
	"time"

	"github.com/abidehq/abide/internal/base"
	"github.com/abidehq/abide/store"
)

// The versions of the format of what is stored: formatVersion of a store with one segment, and
// segmentedVersion of one with several, which programs that know of one only must not open.
// Open refuses others.
const (
	formatVersion    = "2"
	segmentedVersion = "3"
)

// A process sends a heartbeat every heartbeatInterval. One without a heartbeat for
// processTimeout counts as dead: it is no obstacle to Exclude, and its exclusive hold ends.
const (
	heartbeatInterval = 15 * time.Second
	processTimeout    = 45 * time.Second
)

var processScript = newScript("open", false, false, "head", "process")

// format returns the version of the format of this store.
func (s *Store) format() string {
	if s.several() {
		return segmentedVersion
	}
	return formatVersion
}

// readLayout reads the header, which is in the first segment, and makes the segments. A store
// that does not exist yet gets as many as the options say; the header is then written by the
// first command enter.
func (s *Store) readLayout(ctx context.Context) error {
	c := s.client.Load()
	header, err := c.Do(ctx, c.B().Hmget().Key(s.prefix+"meta").Field("format", "segments").Build()).AsStrSlice()
	if err != nil {
		return fmt.Errorf("redisstore: open: %w", err)
	}
	n := s.options.Segments
	switch format := header[0]; {
	case format != "":
		if n, err = s.checkLayout(format, header[1]); err != nil {
			return err
		}
	case n == 0 && c.cluster:
		n = DefaultSegments
	case n == 0:
		n = 1
	}
	s.segments = newSegments(s.options.Prefix, n)
	return nil
}

// checkLayout returns the number of segments that a header has. It returns [store.ErrFormat] if
// the format is unknown, and [store.ErrInvalid] if the options want another number.
func (s *Store) checkLayout(format, segments string) (n int, err error) {
	n = 1
	if format == segmentedVersion {
		n, err = strconv.Atoi(segments)
	}
	switch {
	case format != formatVersion && format != segmentedVersion:
		return 0, fmt.Errorf("redisstore: open: the data under %s has format %q, and this version of Abide reads formats %q and %q: %w", s.prefix, format, formatVersion, segmentedVersion, store.ErrFormat)
	case err != nil || n < 1 || n > MaxSegments:
		return 0, fmt.Errorf("redisstore: open: the header under %s has %q segments: %w", s.prefix, segments, store.ErrCorrupt)
	case s.options.Segments != 0 && s.options.Segments != n:
		return 0, fmt.Errorf("redisstore: open: the store under %s was created with %d segments, and is opened with segments=%d; leave the option out, or copy the store into one with another prefix: %w", s.prefix, n, s.options.Segments, store.ErrInvalid)
	}
	return n, nil
}

// processCommand changes the entry of this process in the list of those that have the store
// open, in each segment. The commands are enter, beat, exclude, release and leave; enter also
// checks the format, and writes it into an empty store. The first segment comes first, so that
// it decides between two processes of which one wants the store for itself.
func (s *Store) processCommand(ctx context.Context, verb string) error {
	if err := s.segmentCommand(ctx, s.segments[0], verb); err != nil {
		return err
	}
	if !s.several() {
		return nil
	}
	for i, err := range forEach(s.segments[1:], func(_ int, seg *segment) error { return s.segmentCommand(ctx, seg, verb) }) {
		if err != nil {
			return s.nameSegment(i+1, err)
		}
	}
	return nil
}

func (s *Store) segmentCommand(ctx context.Context, seg *segment, verb string) error {
	m, err := s.eval(ctx, seg, processScript, args{verb, s.openID, s.format(), itoa(processTimeout.Milliseconds()), itoa(int64(len(s.segments)))})
	if err != nil {
		return err
	}
	a := read(m)
	if a.text() != "format" {
		return a.err
	}
	format, segments := a.text(), a.text()
	if a.err != nil {
		return fmt.Errorf("redisstore: open: %w", a.err)
	}
	n, err := s.checkLayout(format, segments)
	if err == nil {
		err = fmt.Errorf("redisstore: open: the store under %s was created with %d segments meanwhile; open it again: %w", s.prefix, n, store.ErrInvalid)
	}
	return err
}

func (s *Store) register(ctx context.Context) error { return s.processCommand(ctx, "enter") }

// unregister is best effort: the entry of a process that is still there ends by processTimeout.
func (s *Store) unregister() {
	ctx, cancel := context.WithTimeout(s.lifetime, time.Second)
	defer cancel()
	if err := s.processCommand(ctx, "leave"); err != nil {
		s.logger.Debug("redisstore: process record not removed", "error", err)
	}
}

// heartbeat keeps the entry of this process alive, and inspects the server.
func (s *Store) heartbeat() {
	for base.Sleep(s.lifetime, s.wall, heartbeatInterval) == nil {
		if err := s.processCommand(s.lifetime, "beat"); err != nil && s.lifetime.Err() == nil {
			s.logger.Warn("redisstore: server unreachable", "error", err)
			continue
		}
		s.inspect(s.lifetime)
	}
}

// Exclude holds the store exclusively until release is called, or this process has died and
// processTimeout has passed. It returns [store.ErrInUse] if another process has the store
// open. While it lasts, calls of other processes are refused by their scripts (time.lua), and
// nothing is quarantined on its own, so that a copy is exact.
func (s *Store) Exclude(ctx context.Context) (release func() error, err error) {
	done, err := s.begin(ctx, "exclude")
	if err != nil {
		return nil, err
	}
	defer done()
	if err := s.processCommand(ctx, "exclude"); err != nil {
		if s.several() { // some segments may be held
			err = errors.Join(err, s.processCommand(context.WithoutCancel(ctx), "release"))
		}
		return nil, fmt.Errorf("redisstore: exclude: %w", err)
	}
	return func() error {
		done, err := s.begin(context.Background(), "release the store")
		if err != nil {
			return nil // a store that was closed is no longer excluded
		}
		defer done()
		if err := s.processCommand(context.Background(), "release"); err != nil {
			return err
		}
		return s.sweepAll(context.Background()) // messages that have expired meanwhile
	}, nil
}
