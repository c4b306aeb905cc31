package redisstore

import (
	"context"
	"fmt"
	"time"

	"github.com/abidehq/abide/internal/base"
	"github.com/abidehq/abide/store"
)

// formatVersion is the version of the format of what is stored. Open refuses another one.
const formatVersion = "2"

// A process sends a heartbeat every heartbeatInterval. One without a heartbeat for
// processTimeout counts as dead: it is no obstacle to Exclude, and its exclusive hold ends.
const (
	heartbeatInterval = 15 * time.Second
	processTimeout    = 45 * time.Second
)

var processScript = newScript("open", false, false, "head", "process")

// processCommand changes the entry of this process in the list of those that have the store
// open. The commands are enter, beat, exclude, release and leave; enter also checks the
// format, and writes it into an empty store.
func (s *Store) processCommand(ctx context.Context, verb string) error {
	m, err := s.eval(ctx, processScript, args{verb, s.openID, formatVersion, itoa(processTimeout.Milliseconds())})
	if err != nil {
		return err
	}
	a := read(m)
	if a.text() == "format" {
		return fmt.Errorf("redisstore: open: the data under %s has format %q, and this version of Abide reads format %q: %w", s.prefix, a.text(), formatVersion, store.ErrFormat)
	}
	return a.err
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
		return s.sweep(context.Background()) // messages that have expired meanwhile
	}, nil
}
