package catalog

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"log/slog"
	"maps"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/abidehq/abide/internal/base"
	"github.com/abidehq/abide/internal/pages"
	"github.com/abidehq/abide/internal/schema"
	"github.com/abidehq/abide/store"
)

const (
	// fresh is for how long a signature that was read is used without reading it again. One that
	// is not found is looked up each time: a process may have published it just now.
	fresh = 5 * time.Second

	// maxCached is how many names are remembered.
	maxCached = 10_000

	// publishTries is how often a publication is tried that conflicts with others, and
	// publishWithin how long one may take.
	publishTries  = 10
	publishWithin = 5 * time.Second

	// learnDelay is how long events that were learned wait for others before they are published.
	learnDelay = 100 * time.Millisecond
)

// Catalog reads the signatures of a store, and publishes those of this process. It is safe for
// concurrent use. The lock is not held while the store is called.
type Catalog struct {
	store store.Store
	clock base.Clock

	mu     sync.Mutex
	own    map[Name]*Signature // replaced, never changed
	cached map[Name]cachedNames
	wake   chan struct{} // capacity 1: there is something to publish
}

type cachedNames struct {
	signatures []Signature
	at         time.Time
}

// New returns the catalog of a store, for a process that serves what own says.
func New(s store.Store, clock base.Clock, own []Signature) *Catalog {
	c := &Catalog{store: s, clock: clock, own: map[Name]*Signature{}, cached: map[Name]cachedNames{}, wake: make(chan struct{}, 1)}
	for i := range own {
		c.own[own[i].Name] = &own[i]
	}
	return c
}

// Own returns the signature of what this process serves, or nil.
func (c *Catalog) Own(name Name) *Signature {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.own[name]
}

// Get returns the signatures of a name, of the build that was published last first. It returns none
// if the name was never served.
func (c *Catalog) Get(ctx context.Context, name Name) ([]Signature, error) {
	now := c.clock.Now()
	c.mu.Lock()
	known, there := c.cached[name]
	c.mu.Unlock()
	if there && now.Sub(known.at).Abs() < fresh {
		return known.signatures, nil
	}
	r, err := c.store.Get(ctx, name.key())
	if errors.Is(err, store.ErrNotFound) {
		return nil, nil
	}
	if err != nil {
		return nil, err
	}
	signatures, err := parse(&r)
	if err != nil {
		return nil, err
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	if len(c.cached) >= maxCached {
		clear(c.cached)
	}
	c.cached[name] = cachedNames{signatures: signatures, at: now}
	return signatures, nil
}

// All returns the signatures of all names, in the order of their routes, those of orchestrations
// first and those of a name with the build that was published last first. It skips what it cannot read.
func (c *Catalog) All(ctx context.Context) ([]Signature, error) {
	var all []Signature
	for r, err := range pages.Records(ctx, c.store, store.Query{Kind: Kind, Tenant: new(""), Limit: store.MaxPage}) {
		if err != nil {
			return nil, err
		}
		if signatures, err := parse(&r); err == nil {
			all = append(all, signatures...)
		}
	}
	slices.SortStableFunc(all, func(a, b Signature) int { return compare(&a, &b) })
	return all, nil
}

// compare puts orchestrations before activities, and names in order.
func compare(a, b *Signature) int {
	if a.Activity != b.Activity {
		if b.Activity {
			return -1
		}
		return 1
	}
	return strings.Compare(a.Route, b.Route)
}

// Learn notes an event that an orchestration of this process waits for. It is published soon.
func (c *Catalog) Learn(route, event string, s *schema.Schema) {
	name := Name{Route: route}
	c.mu.Lock()
	defer c.mu.Unlock()
	own := c.own[name]
	if own == nil || own.Events[event] == s || len(own.Events) >= MaxEvents {
		return
	}
	next := *own
	if next.Events = maps.Clone(own.Events); next.Events == nil {
		next.Events = map[string]*schema.Schema{}
	}
	next.Events[event] = s
	c.own[name] = &next
	select {
	case c.wake <- struct{}{}:
	default:
	}
}

// Publish publishes what this process serves, if the store does not have it yet.
func (c *Catalog) Publish(ctx context.Context) error {
	var err error
	for range publishTries {
		if err = c.publish(ctx); !errors.Is(err, store.ErrConflict) {
			return err
		}
	}
	return err
}

func (c *Catalog) publish(ctx context.Context) error {
	c.mu.Lock()
	own := slices.SortedFunc(maps.Values(c.own), compare)
	c.mu.Unlock()
	if len(own) == 0 {
		return nil
	}
	records := map[store.RecordKey]store.Record{}
	for r, err := range pages.Records(ctx, c.store, store.Query{Kind: Kind, Tenant: new(""), Limit: store.MaxPage}) {
		if err != nil {
			return err
		}
		records[r.Key] = r
	}
	var tx store.Tx
	for _, s := range own {
		r, there := records[s.key()]
		var all []Signature
		if there {
			all, _ = parse(&r) // one that cannot be read is replaced
		}
		next := *s
		next.At = c.clock.Now()
		merged, changed := merge(&next, all)
		if !changed {
			continue
		}
		w, err := put(s.Name, merged, r.Version)
		if err != nil {
			return err
		}
		tx.PutRecords = append(tx.PutRecords, w)
	}
	if tx.Empty() {
		return nil
	}
	for part := range slices.Chunk(tx.PutRecords, publishPart) {
		if err := c.store.Commit(ctx, &store.Tx{PutRecords: part}); err != nil {
			return err
		}
	}
	return nil
}

// publishPart is how many signatures are published in one commit.
const publishPart = 50

// Run publishes what this process serves, and what it learns, until ctx ends. The first publication is
// made before it returns its channel, which is closed when it has ended; if that fails, it is logged and
// tried again.
func (c *Catalog) Run(ctx context.Context, log *slog.Logger) <-chan struct{} {
	try := func() bool {
		within, cancel := context.WithTimeout(ctx, publishWithin)
		defer cancel()
		err := c.Publish(within)
		if err != nil && ctx.Err() == nil && !errors.Is(err, store.ErrClosed) {
			log.Warn("signatures not published, retrying", "error", err, "after", fresh)
		}
		return err == nil
	}
	done := make(chan struct{})
	ok := try()
	go func() {
		defer close(done)
		for ctx.Err() == nil {
			if ok {
				select {
				case <-ctx.Done():
					return
				case <-c.wake:
				}
				_ = base.Sleep(ctx, c.clock, learnDelay)
			} else {
				_ = base.Sleep(ctx, c.clock, fresh)
			}
			if ctx.Err() == nil {
				ok = try()
			}
		}
	}()
	return done
}

// ID returns a short name of a schema, which is that of its JSON.
func ID(s *schema.Schema) string {
	if s == nil {
		return ""
	}
	if id, ok := ids.Load(s); ok {
		return id.(string)
	}
	sum := sha256.Sum256(s.JSON())
	id := hex.EncodeToString(sum[:6])
	ids.Store(s, id)
	return id
}

// ids has the names of schemas. Those that are read from a store are named without it: see EventSchema.
var ids sync.Map

// EventSchema returns the schema with that ID which one of the signatures has for an event, or nil.
func EventSchema(signatures []Signature, event, id string) *schema.Schema {
	for i := range signatures {
		s := signatures[i].Events[event]
		if s == nil {
			continue
		}
		sum := sha256.Sum256(s.JSON())
		if hex.EncodeToString(sum[:6]) == id {
			return s
		}
	}
	return nil
}
