package redisstore

import (
	"context"
	"fmt"
	"time"

	"github.com/abidehq/abide/internal/base"
	"github.com/abidehq/abide/store"
)

// formatVersion is that of what is stored. A store of another one is not opened.
const formatVersion = "2"

// A process is heard of every beatEvery, and gone when it was not heard of for goneAfter.
const (
	beatEvery = 15 * time.Second
	goneAfter = 45 * time.Second
)

var processScript = newScript("open", false, false, "head", "process")

// process tells the server something about this process.
func (s *Store) process(ctx context.Context, verb string) error {
	m, err := s.eval(ctx, processScript, args{verb, s.me, formatVersion, itoa(goneAfter.Milliseconds())})
	if err != nil {
		return err
	}
	a := read(m)
	if a.text() == "format" {
		return fmt.Errorf("redisstore: open: the data under %s has format %q, and this version of Abide reads format %q: %w", s.prefix, a.text(), formatVersion, store.ErrFormat)
	}
	return a.err
}

func (s *Store) enter(ctx context.Context) error { return s.process(ctx, "enter") }

// leave is best effort: a process that does not say that it leaves is gone after a while.
func (s *Store) leave() {
	ctx, cancel := context.WithTimeout(s.life, time.Second)
	defer cancel()
	if err := s.process(ctx, "leave"); err != nil {
		s.logger.Debug("redisstore: process record not removed", "error", err)
	}
}

// beat tells the server now and then that this process is there.
func (s *Store) beat() {
	for base.Sleep(s.life, s.wall, beatEvery) == nil {
		if err := s.process(s.life, "beat"); err != nil && s.life.Err() == nil {
			s.logger.Warn("redisstore: server unreachable", "error", err)
			continue
		}
		s.inspect(s.life)
	}
}

// Exclude keeps other processes out.
func (s *Store) Exclude(ctx context.Context) (release func() error, err error) {
	done, err := s.begin(ctx, "exclude")
	if err != nil {
		return nil, err
	}
	defer done()
	if err := s.process(ctx, "exclude"); err != nil {
		return nil, fmt.Errorf("redisstore: exclude: %w", err)
	}
	return func() error {
		done, err := s.begin(context.Background(), "release the store")
		if err != nil {
			return nil // a store that was closed is no longer excluded
		}
		defer done()
		if err := s.process(context.Background(), "release"); err != nil {
			return err
		}
		return s.sweep(context.Background()) // what has waited for the release
	}, nil
}
