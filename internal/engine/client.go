package engine

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"sync/atomic"
	"time"

	"github.com/abidehq/abide/history"
	"github.com/abidehq/abide/internal/admission"
	"github.com/abidehq/abide/internal/backoff"
	"github.com/abidehq/abide/internal/base"
	"github.com/abidehq/abide/internal/catalog"
	"github.com/abidehq/abide/internal/schema"
	"github.com/abidehq/abide/store"
)

// Client starts, inspects and controls orchestration instances. It needs nothing but the store: a
// process that only starts instances has no engine.
//
// A client changes an instance in two ways only. It puts a message, to the instance or to its control
// queue, and a turn or a control claim does the rest; that never conflicts. Or, to start, fork, restart
// and delete, it puts or deletes the record with the version that it expects, together with the log and
// the messages that go with it; that meets a conflict if another process came first, and is tried
// again a bounded number of times.
type Client struct {
	store  store.Store
	limits store.Limits // of it
	clock  base.Clock
	quotas *quotas // nil if there are none
	fuser  *fuser  // of the engine; nil if there is none

	// catalog has what starts and events are checked against; nil means that they are not.
	catalog *catalog.Catalog
	peers   *Peers
	tenants []string // that the engine of the client runs; nil for all

	// drained is set when the engine of the client serves nothing any more.
	drained atomic.Bool

	limiter, bulk *admission.Limiter // of starts and events, and of many at once

	folds folds // of the histories that Waits has read

	rewound func(n int) // counts instances that were rewound; nil if the client has no engine
}

// NewClient returns a client of what is in a store. It does not check payloads.
func NewClient(s store.Store, clock base.Clock) *Client {
	return &Client{store: s, limits: s.Limits(), clock: clock, peers: &Peers{}, limiter: newLimiter(s, clock, nil, nil), bulk: newLimiter(s, clock, nil, nil)}
}

// NewCheckedClient returns a client that checks starts and events against what workers have
// published.
func NewCheckedClient(s store.Store, clock base.Clock) *Client {
	c := NewClient(s, clock)
	c.catalog = catalog.New(s, clock, nil)
	return c
}

// IfExists is the policy of [Client.Start] for an ID that exists.
type IfExists int

// Policies for an ID that exists.
const (
	// Return returns the existing instance, if it is of the same orchestration, or else ErrExists.
	Return IfExists = iota

	// Reject returns ErrExists.
	Reject

	// Replace replaces an instance that has ended, and returns one that has not.
	Replace
)

// Start describes an instance to start.
type Start struct {
	Ref
	Name    string
	Version string
	Input   []byte
	Tags    map[string]string

	// At is the time of the first turn, zero for at once. After is the same as a delay from now, by
	// the store's clock; then At is ignored.
	At    time.Time
	After time.Duration

	IfExists IfExists

	// Replaceable, if it is not nil, is used instead of IfExists: an existing instance is replaced if
	// its status is among these, and is ErrExists otherwise. One that has not ended is dropped in the
	// commit of the start: see replace.go.
	Replaceable []Status

	// Limits are those under which the instance runs, and Priority is its place among what waits for them: see
	// [Info].
	Limits   []history.Limit
	Priority int32

	// Foreign is what the SDK of another language knows of the start.
	Foreign *history.Foreign

	// New is true if the ID was made for this start: no instance can have it.
	New bool

	// Schema is that of the type of which Input was encoded, and nil if that is not known.
	// Unchecked starts it whatever workers have published.
	Schema    *schema.Schema
	Unchecked bool
}

// Started is the result of a start.
type Started struct {
	Ref

	// Existed is true if the instance existed, and nothing was started.
	Existed bool

	// Unserved is true if no live worker serves the orchestration.
	Unserved bool

	// Revision is the version of the instance's record, by which WaitChange waits for a later one. It
	// is 0 if there is no such one, because the instance existed or has ended.
	Revision int64

	ended bool // it has ended with its start
}

// startTries is how often a start is tried that conflicts with concurrent ones.
const startTries = 10

// Start starts all of the instances, or none: one commit. It returns [ErrQuota] if a tenant
// would have more than it may, and [ErrBusy] if the process does not keep up.
func (c *Client) Start(ctx context.Context, starts ...Start) ([]Started, error) {
	if len(starts) == 0 {
		return nil, nil
	}
	if err := checkStarts(starts); err != nil {
		return nil, err
	}
	if err := c.checkInputs(ctx, starts); err != nil {
		return nil, err
	}
	settle, err := c.quotas.reserve(ctx, starts)
	if err != nil {
		return nil, err
	}
	done, err := c.start(ctx, starts)
	settle(done, err)
	if err == nil {
		c.markUnserved(ctx, starts, done)
	}
	return done, err
}

// start starts instances that keep the rules and the quotas, all in one commit.
//
// The first try takes all IDs to be free, so a start costs no read. A conflict means that one of them
// is taken: then all are looked up (findExisting), those that exist and are returned as they are drop
// out, and the others are tried again. What a commit conflicts with may not be readable yet, as stores
// acknowledge a commit only when it is durable; so a conflict for which no record is found is followed
// by a pause.
func (c *Client) start(ctx context.Context, starts []Start) ([]Started, error) {
	starts = slices.Clone(starts)
	if err := c.setTimes(ctx, starts); err != nil {
		return nil, err
	}
	done := make([]Started, len(starts))
	for i := range starts {
		done[i] = Started{Ref: starts[i].Ref}
	}
	origin := spanFrom(ctx)
	replaced := make([]*replacement, len(starts))
	pause := backoff.Contention(c.clock)
	for try := range startTries {
		err := c.commitStarts(ctx, starts, done, replaced, origin, try)
		if !errors.Is(err, store.ErrConflict) {
			for i := range done {
				if !done[i].Existed && !done[i].ended {
					done[i].Revision = replaced[i].revision() + 1
				}
			}
			if err == nil {
				c.forgetReplaced(ctx, replaced)
			}
			return done, wrap("start", err)
		}
		for i := range starts {
			starts[i].New = false
		}
		if err := c.findExisting(ctx, starts, done, replaced); err != nil {
			return nil, err
		}
		if slices.ContainsFunc(done, func(s Started) bool { return s.Existed }) {
			continue
		}
		// What is in the way is about to be there, or was deleted just now.
		if err := pause.Sleep(ctx); err != nil {
			return nil, wrap("start", err)
		}
	}
	return nil, fmt.Errorf("abide: start: others started and deleted the same instances %d times meanwhile: %w", startTries, store.ErrConflict)
}

// setTimes turns delays into times.
func (c *Client) setTimes(ctx context.Context, starts []Start) error {
	if !slices.ContainsFunc(starts, func(s Start) bool { return s.After > 0 }) {
		return nil
	}
	stats, err := c.store.Stats(ctx)
	if err != nil {
		return wrap("start", err)
	}
	for i := range starts {
		if starts[i].After > 0 {
			starts[i].At = stats.Now.Add(starts[i].After)
		}
	}
	return nil
}

// commitStarts commits the starts of instances that are not known to exist, in the first try together
// with their first turns where that can be. It returns ErrBusy if the process does not keep up.
func (c *Client) commitStarts(ctx context.Context, starts []Start, done []Started, replaced []*replacement, origin span, try int) error {
	permit, err := c.acquire(ctx, len(starts))
	if err != nil {
		return err
	}
	defer permit.Release()
	if c.fuser == nil || try > 0 || store.TransactionOf(ctx) != nil {
		return c.store.Commit(ctx, c.startTx(starts, done, replaced, origin))
	}
	firsts := make([]*firstStart, len(starts))
	for i := range starts {
		if s := &starts[i]; s.At.IsZero() {
			info, b := s.instance(c.clock.Now(), origin)
			firsts[i] = &firstStart{info: &info, body: &b, newID: s.New}
		}
	}
	if len(starts) == 1 {
		ended, err := c.fuser.startFused(firsts[0])
		if !errors.Is(err, errNotFused) {
			done[0].ended = ended
			return err
		}
		return c.store.Commit(ctx, c.startTx(starts, done, replaced, origin))
	}
	return c.commitAll(ctx, starts, done, firsts, origin)
}

// commitAll commits starts in bulk, with the first turns that are ready in time.
func (c *Client) commitAll(ctx context.Context, starts []Start, done []Started, firsts []*firstStart, origin span) error {
	turns := c.fuser.firstTurns(firsts, true)
	plain := make([]Start, 0, len(starts))
	var tx store.Tx
	for i, t := range turns {
		if t == nil {
			plain = append(plain, starts[i])
			continue
		}
		t.prepare()
		merge(&tx, &t.tx)
	}
	merge(&tx, c.startTx(plain, make([]Started, len(plain)), make([]*replacement, len(plain)), origin))
	err := c.store.Commit(ctx, &tx)
	for i, t := range turns {
		if t != nil {
			done[i].ended = err == nil && t.ends
			c.fuser.finishFirst(t, err)
		}
	}
	if errors.Is(err, store.ErrInvalid) { // too large with the turns: nothing was committed
		return c.store.Commit(ctx, c.startTx(starts, done, make([]*replacement, len(starts)), origin))
	}
	return err
}

// instance returns the record of the instance before its first turn, and the body of its start message.
func (s *Start) instance(now time.Time, origin span) (Info, body) {
	info := Info{
		Ref: s.Ref, Name: s.Name, Version: s.Version, Status: Pending, Execution: 1,
		CreatedAt: now, Tags: s.Tags, run: newSeed(), origin: origin, Limits: s.Limits, Priority: s.Priority,
	}
	info.workRun = info.run
	return info, body{kind: bodyStart, run: info.run, info: &info, events: []history.Event{{
		Kind: history.ExecutionStarted, Name: s.Name, Data: s.Input,
		Start: &history.Start{Version: s.Version, Execution: 1, Seed: info.run}, Foreign: s.Foreign,
	}}}
}

func (c *Client) startTx(starts []Start, done []Started, replaced []*replacement, origin span) *store.Tx {
	now := c.clock.Now()
	var tx store.Tx
	for i := range starts {
		s := &starts[i]
		if done[i].Existed {
			continue
		}
		info, b := s.instance(now, origin)
		old := replaced[i]
		if old != nil {
			info.offset, info.kept = old.offset, old.kept
			merge(&tx, &old.tx)
		}
		put := info.putRecord(old.revision())
		put.New = s.New
		tx.PutRecords = append(tx.PutRecords, put)
		tx.Put = append(tx.Put, store.Message{Key: s.Ref.key(), ID: old.startID(info.run), Route: info.keyRoute(), VisibleAt: s.At, Body: b.encode(), New: s.New})
		if len(info.Limits) > 0 {
			tx.Put = append(tx.Put, info.enterLimits(s.At))
		}
	}
	return &tx
}

// findExisting finds out which of the instances exist, and whether that is fine.
func (c *Client) findExisting(ctx context.Context, starts []Start, done []Started, replaced []*replacement) error {
	for i := range starts {
		s := &starts[i]
		info, err := c.Get(ctx, s.Ref)
		replaced[i] = nil
		if errors.Is(err, ErrNotFound) {
			done[i].Existed = false
			continue
		}
		if err != nil {
			return err
		}
		switch {
		case s.replaces(info.Status):
			if replaced[i], err = c.replace(ctx, &info); err != nil {
				return err
			}
		case s.IfExists == Reject || s.Replaceable != nil:
			return fmt.Errorf("abide: start: instance %v is there, %s: %w", s.Ref, info.Status, ErrExists)
		case info.Name != s.Name:
			return fmt.Errorf("abide: start: instance %v is of orchestration %q, not %q: %w", s.Ref, info.Name, s.Name, ErrExists)
		default:
			done[i].Existed, done[i].Revision = true, 0
		}
	}
	return nil
}

// Get returns the current state of an instance, or ErrNotFound.
func (c *Client) Get(ctx context.Context, ref Ref) (Info, error) {
	if err := checkRef(ref); err != nil {
		return Info{}, err
	}
	r, err := c.store.Get(ctx, ref.record())
	return c.info("get", ref, r, err)
}

// Await returns the state of an instance as soon as its revision is greater than
// after.
func (c *Client) Await(ctx context.Context, ref Ref, after int64) (Info, error) {
	if err := checkRef(ref); err != nil {
		return Info{}, err
	}
	r, err := c.store.Await(ctx, ref.record(), after)
	return c.info("await", ref, r, err)
}

func (c *Client) info(verb string, ref Ref, r store.Record, err error) (Info, error) {
	if errors.Is(err, store.ErrNotFound) {
		return Info{}, notFound(verb, ref)
	}
	if err != nil {
		return Info{}, wrap(verb, err)
	}
	return infoOf(r)
}

func notFound(verb string, ref Ref) error {
	return fmt.Errorf("abide: %s: instance %v: %w", verb, ref, ErrNotFound)
}

func wrap(verb string, err error) error {
	if err == nil {
		return nil
	}
	return fmt.Errorf("abide: %s: %w", verb, err)
}

// Wait returns the state of an instance once it has ended.
func (c *Client) Wait(ctx context.Context, ref Ref) (Info, error) {
	info, err := c.Get(ctx, ref)
	for err == nil && !info.Status.Ended() {
		info, err = c.Await(ctx, ref, info.Revision)
	}
	return info, err
}

// History returns the events of an execution: the one that runs or was the last, if
// execution is 0, or the one before it. Older ones are not kept.
func (c *Client) History(ctx context.Context, ref Ref, execution int32) (Info, []history.Event, error) {
	info, err := c.Get(ctx, ref)
	if err != nil {
		return Info{}, nil, err
	}
	from, to, err := info.span(execution)
	if err != nil {
		return info, nil, err
	}
	var events []history.Event
	for entry, err := range store.Entries(ctx, c.store, ref.key(), from) {
		if err != nil {
			return info, nil, wrap("history", err)
		}
		if to >= 0 && from+len(events) == to {
			break
		}
		e, err := history.Parse(entry)
		if err != nil {
			return info, events, fmt.Errorf("abide: history: %v: event %d: %w", ref, len(events)+1, err)
		}
		if int(e.ID) != len(events)+1 {
			break // the next execution has begun since the record was read
		}
		if e.Kind == history.ExecutionStarted {
			info.Name, info.Version = e.Name, e.Start.Version
		}
		events = append(events, e)
	}
	return info, events, nil
}
