package engine

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"slices"
	"strings"
	"sync"
	"time"
	"unicode/utf8"

	"github.com/abidehq/abide/internal/backoff"
	"github.com/abidehq/abide/internal/builds"
	"github.com/abidehq/abide/store"
)

// An instance that is pinned has all its turns run by workers of one build. Its key has a route of its own,
// name@version@build, which only engines of that build claim; so nothing has to be checked when a turn is
// claimed, and messages, timers and events need not know of builds. A start is put under the route of the
// orchestration alone, by clients that know no builds either. The engine that claims the first turn chooses
// the build ([builds.Settings.Choose]):
//
//   - its own: the commit of the turn puts the build into the record and sets the route.
//   - another one: one commit puts the build into the record and changes the route, and the claim is
//     released without counting (handOver). A crash between the two costs a lease. The commit expects the
//     version of the record, so that it fails if the lease was lost and another engine has run the turn.
//
// A turn that fuses with its start is of the engine's own build, or is not fused. Continue-as-new of
// PinnedUntilContinue forgets the build, and so its next execution begins like a start.
//
// Settings are one record, for which each engine with a build waits: a change reaches it within the time that
// the store takes to tell. Which other builds are alive is known from the roster, and up to rosterFresh old.

// Pin says which builds run the turns of an instance.
type Pin int

const (
	// Follow has any worker that serves the orchestration run the next turn.
	Follow Pin = iota

	// Pinned has workers of the build that ran the first turn run all turns, also after
	// continue-as-new.
	Pinned

	// PinnedUntilContinue has workers of the build that ran the first turn of an execution run all
	// turns of that execution.
	PinnedUntilContinue
)

// pinnedRoute returns the route of an orchestration's instances that are pinned to a build: name@version@build.
// It is that of the orchestration if there is no build.
func pinnedRoute(route, build string) string {
	if build == "" {
		return route
	}
	if !strings.Contains(route, "@") {
		route += "@"
	}
	return route + "@" + build
}

// CutBuild returns the orchestration of a route, name or name@version, and the build that its instances are
// pinned to, if they are.
func CutBuild(route string) (orchestration, build string) {
	name, rest, _ := strings.Cut(route, "@")
	version, build, pinned := strings.Cut(rest, "@")
	if !pinned {
		return route, ""
	}
	return Route(name, version), build
}

func orchestrationOf(route string) string {
	route, _ = CutBuild(route)
	return route
}

// CheckBuild reports whether instances can be pinned to a build.
func CheckBuild(build string) error {
	switch {
	case build == "":
		return fmt.Errorf("abide: the build is empty: %w", ErrInvalid)
	case len(build) > MaxBuild:
		return fmt.Errorf("abide: the build has %d bytes, at most %d are allowed: %w", len(build), MaxBuild, ErrInvalid)
	case !utf8.ValidString(build), strings.ContainsFunc(build, func(r rune) bool { return r < ' ' || r == 0x7f }):
		return fmt.Errorf("abide: the build %q is not UTF-8 or has control characters: %w", build, ErrInvalid)
	}
	return nil
}

// ErrNoBuild is the error of an engine that pins instances and has no build.
var ErrNoBuild = errors.New("this program has no build")

// checkPins reports whether the build can have what is pinned.
func (c *Config) checkPins() error {
	for route, pin := range c.Pins {
		switch {
		case pin == Follow:
			continue
		case pin != Pinned && pin != PinnedUntilContinue:
			return fmt.Errorf("abide: orchestration %q has the unknown build policy %d: %w", route, pin, ErrInvalid)
		case c.Build == "":
			return fmt.Errorf("abide: the instances of orchestration %q are pinned to builds, and %w: set Config.Build, or build it from a repository: %w", route, ErrNoBuild, ErrInvalid)
		}
		if err := CheckBuild(c.Build); err != nil {
			return fmt.Errorf("abide: the instances of orchestration %q are pinned to builds: %w", route, err)
		}
	}
	return nil
}

// pinned returns the routes whose instances are pinned.
func (c *Config) pinned() []string {
	var routes []string
	for route, pin := range c.Pins {
		if pin != Follow && slices.Contains(c.Routes, route) {
			routes = append(routes, route)
		}
	}
	slices.Sort(routes)
	return routes
}

// builders is what an engine knows of builds. A nil one is of an engine without a build.
type builders struct {
	e      *Engine
	pinned []string
	ready  chan struct{} // closed when the settings have been read

	mu       sync.Mutex // not held while the store is called
	settings builds.Settings
	away     map[string]bool // routes that are left to other builds, as this one is drained
	changed  chan struct{}   // closed when away changes
}

func newBuilders(e *Engine) *builders {
	if e.cfg.Build == "" || len(e.cfg.Routes) == 0 {
		return nil
	}
	return &builders{e: e, pinned: e.cfg.pinned(), ready: make(chan struct{}), changed: make(chan struct{})}
}

// run keeps the settings until the engine is closed.
func (b *builders) run() {
	e := b.e
	pause := backoff.Outage(e.clock)
	known := false
	for e.claiming.Err() == nil {
		err := b.next(known)
		if err == nil {
			err = b.leave()
		}
		switch {
		case err == nil && !known:
			known = true
			close(b.ready)
			pause.Reset()
		case err == nil:
			pause.Reset()
		case errors.Is(err, store.ErrClosed), errors.Is(err, store.ErrFailed):
			return
		default:
			_ = pause.Sleep(e.claiming)
		}
	}
}

// next reads the settings the first time, and makes the builds that this engine pins known. After that it waits
// for a change. While this build is drained it returns every rosterFresh, as workers come and go.
func (b *builders) next(known bool) error {
	e := b.e
	if !known {
		return b.take(b.announce())
	}
	settings := b.get()
	ctx, cancel := context.WithCancel(e.claiming)
	defer cancel()
	if settings.Drained(e.cfg.Build) {
		defer e.clock.AfterFunc(rosterFresh, cancel)()
	}
	settings, err := builds.Await(ctx, e.store, settings.Version)
	if ctx.Err() != nil {
		return nil
	}
	return b.take(settings, err)
}

// take keeps settings. Those that cannot be read, as a later release has written them, are ignored until they change:
// instances wait for nothing because of them.
func (b *builders) take(settings builds.Settings, err error) error {
	if errors.Is(err, store.ErrCorrupt) {
		b.e.log.Error("settings of builds unreadable, ignored", "error", err)
		err = nil
	}
	if err == nil {
		b.set(settings)
	}
	return err
}

// announce makes this build known if it pins instances, and returns the settings.
func (b *builders) announce() (builds.Settings, error) {
	e := b.e
	if len(b.pinned) == 0 {
		return builds.Read(e.claiming, e.store)
	}
	return builds.Change(e.claiming, e.store, func(s *builds.Settings) (bool, error) {
		own := s.Find(e.cfg.Build)
		if own != nil && slices.Equal(own.Routes, b.pinned) {
			return false, nil
		}
		s.Add(e.cfg.Build, e.clock.Now()).Routes = b.pinned
		return true, nil
	})
}

func (b *builders) get() builds.Settings {
	b.mu.Lock()
	defer b.mu.Unlock()
	return b.settings
}

func (b *builders) set(s builds.Settings) {
	b.mu.Lock()
	defer b.mu.Unlock()
	b.settings = s
}

// leave decides which routes are left to other builds: if this build is drained, those that a live worker of a
// build which is not drained serves.
func (b *builders) leave() error {
	e, settings := b.e, b.get()
	away := map[string]bool{}
	if settings.Drained(e.cfg.Build) {
		workers, err := e.Client.peers.get(e.claiming, e.Client, e.clock.Now())
		if err != nil {
			return err
		}
		for i := range workers {
			if w := &workers[i]; w.Build != e.cfg.Build && !settings.Drained(w.Build) {
				for _, route := range w.Routes {
					if e.Serves(route) {
						away[route] = true
					}
				}
			}
		}
	}
	b.mu.Lock()
	defer b.mu.Unlock()
	if !maps.Equal(b.away, away) {
		b.away = away
		close(b.changed)
		b.changed = make(chan struct{})
	}
	return nil
}

// routes returns what the engine claims turns of, and what is closed when that changes. It waits until the
// settings have been read.
func (b *builders) routes() ([]string, <-chan struct{}) {
	if b == nil {
		return nil, nil
	}
	select {
	case <-b.ready:
	case <-b.e.claiming.Done():
	}
	b.mu.Lock()
	defer b.mu.Unlock()
	var routes []string
	for _, route := range b.e.cfg.Routes {
		if !b.away[route] {
			routes = append(routes, route)
		}
	}
	for _, route := range b.pinned {
		routes = append(routes, pinnedRoute(route, b.e.cfg.Build))
	}
	return routes, b.changed
}

// leaves reports whether the turns of an instance are left to other builds.
func (b *builders) leaves(info *Info) bool {
	return info.Build == "" && b.leavesRoute(info.Route())
}

// leavesRoute reports whether the instances of an orchestration that are not pinned are left to other builds.
func (b *builders) leavesRoute(route string) bool {
	if b == nil {
		return false
	}
	b.mu.Lock()
	defer b.mu.Unlock()
	return b.away[route]
}

// startsHere reports whether this build may run the first turn of an instance, as far as it is known without
// a call of the store.
func (b *builders) startsHere(info *Info) bool {
	if b == nil {
		return true
	}
	select {
	case <-b.ready:
	default:
		return false
	}
	settings := b.get()
	switch {
	case !settings.Set():
		return true
	case b.leaves(info):
		return false
	case b.e.cfg.Pins[info.Route()] == Follow:
		return true
	}
	workers, fresh := b.e.Client.peers.peek(b.e.clock.Now())
	return fresh && b.choose(&settings, info, workers) == b.e.cfg.Build
}

// choose returns the build for an instance that is to be pinned.
func (b *builders) choose(settings *builds.Settings, info *Info, workers []Worker) string {
	own := b.e.cfg.Build
	live := []string{own}
	for i := range workers {
		if w := &workers[i]; slices.Contains(w.Pinned, info.Route()) && !slices.Contains(live, w.Build) {
			live = append(live, w.Build)
		}
	}
	return settings.Choose(info.Tenant, info.ID, own, live)
}

// errHandedOver is the error of a turn whose instance is pinned to another build.
var errHandedOver = errors.New("abide: the instance was handed over to another build")

// pin chooses the build of an instance that is to be pinned and is not yet, if this is the first turn of its
// execution. It returns errHandedOver if that is another one.
func (t *turn) pin(messages []message) error {
	info, own := &t.in.info, t.e.cfg.Build
	if info.Build != "" || info.Status.Ended() || info.Status.parked() {
		return nil
	}
	route, build := CutBuild(t.claim.Route)
	if route != info.Route() || build == "" && t.e.cfg.Pins[route] == Follow {
		return nil
	}
	i := slices.IndexFunc(messages, func(m message) bool { return m.kind == bodyStart && m.run == info.run })
	if i < 0 {
		return nil
	}
	if build == "" {
		build = own
		if settings := t.e.builds.get(); settings.Set() {
			workers, err := t.e.Client.peers.get(t.ctx, t.e.Client, t.claim.Now)
			if err != nil {
				return err
			}
			build = t.e.builds.choose(&settings, info, workers)
		}
	}
	if build != own {
		return t.handOver(build, messages[i].Message)
	}
	info.Build, t.pinned, t.changed = own, own, true
	return nil
}

// handOver pins an instance to another build. Its start message keeps its place, and its key gets the route of
// the build.
func (t *turn) handOver(build string, start *store.Message) error {
	info, err := t.e.Client.Get(t.ctx, t.in.info.Ref)
	if err != nil {
		return err
	}
	if info.run != t.in.info.run || info.Build != "" || info.Status.Ended() || info.Status.parked() {
		return fmt.Errorf("abide: %v has changed: %w", info.Ref, store.ErrConflict)
	}
	info.Build = build
	again := store.Message{Key: start.Key, ID: start.ID, Route: info.keyRoute(), Body: start.Body}
	tx := store.Tx{Put: []store.Message{again}, PutRecords: []store.PutRecord{info.putRecord(info.Revision)}}
	if err := t.e.store.Commit(t.ctx, &tx); err != nil {
		return err
	}
	t.e.log.Debug("instance handed over", info.about(), "build", build)
	return errHandedOver
}

// Peers are the workers of the roster, as they were not long ago.
type Peers struct {
	mu      sync.Mutex // not held while the store is called
	at      time.Time
	workers []Worker
	reading bool
}

// get returns the workers of the roster, read again if they are older than rosterFresh. While one caller reads
// them, others get those that were read before.
func (p *Peers) get(ctx context.Context, c *Client, now time.Time) ([]Worker, error) {
	here := c.clock.Now()
	p.mu.Lock()
	known := !p.at.IsZero()
	if workers := p.workers; known && (here.Sub(p.at) < rosterFresh || p.reading) {
		p.mu.Unlock()
		return workers, nil
	}
	p.reading = true
	p.mu.Unlock()
	workers, err := liveWorkers(ctx, c.store, now)
	p.mu.Lock()
	defer p.mu.Unlock()
	p.reading = false
	if err != nil {
		return nil, err
	}
	p.workers, p.at = workers, here
	return workers, nil
}

// peek returns the workers of the roster as they are known, and whether they are not older than rosterFresh.
func (p *Peers) peek(here time.Time) (workers []Worker, fresh bool) {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.workers, !p.at.IsZero() && here.Sub(p.at) < rosterFresh
}
