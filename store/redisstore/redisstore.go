package redisstore

import (
	"cmp"
	"context"
	"crypto/rand"
	"crypto/tls"
	"encoding/hex"
	"fmt"
	"log/slog"
	"net"
	"net/url"
	"regexp"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"github.com/redis/rueidis"

	"github.com/abidehq/abide/clock"
	"github.com/abidehq/abide/internal/base"
	"github.com/abidehq/abide/internal/waitlist"
	"github.com/abidehq/abide/store"
)

func init() {
	for _, scheme := range []string{"redis", "rediss"} {
		store.Register(scheme, store.Scheme{
			Open:    openURL,
			Options: []string{"prefix", "durability", "replicas", "segments"},
			Example: scheme + "://127.0.0.1:6379/0",
		})
	}
}

// DefaultPrefix is what the names of all keys begin with, in braces.
const DefaultPrefix = "abide"

// Durability is what the store requires of the server.
type Durability string

// Values of Durability. docs/redis.md says what is lost in which failure.
const (
	// Strict refuses a server that does not sync each write before it answers:
	// appendonly yes and appendfsync always.
	Strict Durability = "strict"

	// Trusted accepts a server that does not reveal its configuration, as managed ones do:
	// the operator vouches that it is as Strict requires.
	Trusted Durability = "trusted"

	// Relaxed accepts any server: acknowledged commits may be lost when it crashes.
	Relaxed Durability = "relaxed"
)

// Options of a store.
type Options struct {
	// Addresses of the server, each as host:port. Several are those of a master and its
	// replicas; the store connects to the one that is the master. Those of a cluster are any
	// of its nodes.
	Addresses []string

	// DB is the number of the database. In a cluster it must be 0.
	DB int

	// Username and Password authenticate the connection. Both may be empty.
	Username, Password string

	// TLS configures encrypted connections. Nil means plain TCP.
	TLS *tls.Config

	// Prefix is what the names of all keys begin with; empty means [DefaultPrefix]. Stores
	// with different prefixes share a server and nothing else.
	Prefix string

	// Durability is what the store requires of the server; empty means [Strict].
	Durability Durability

	// Replicas is how many replicas must have a commit before it is acknowledged. Zero means
	// that the master is enough.
	Replicas int

	// Segments is the number of segments of a store that is created: 1 to [MaxSegments]. A
	// commit is of one segment, and on a cluster the segments are spread over the masters. Zero
	// means one on a single server and [DefaultSegments] on a cluster. A store that exists
	// keeps the number that it was created with, and Open returns [store.ErrInvalid] if
	// Segments is another one, unless it is zero.
	Segments int

	// Clock is the store's clock. Nil means that of the server, which several processes need
	// in order to agree on the time; tests set it.
	Clock clock.Clock

	// Logger receives warnings and errors; nil means slog.Default().
	Logger *slog.Logger

	// poll, exactly and waitReplicas are for tests: other values than those of the constants.
	poll         time.Duration
	countBatch   int
	waitReplicas time.Duration
}

// Store is a store on a Redis server.
//
// Most of its state is on the server. In memory it has what this process needs to batch and
// to wait: queued commits, waiting calls, and versions of records that it has written. All
// of that is lost in a crash without consequence.
type Store struct {
	options Options
	prefix  string
	openID  string     // random; names this open store among all processes and times
	clock   base.Clock // nil: the server's
	wall    base.Clock // for pauses, polls and heartbeats, which a test's clock does not drive
	logger  *slog.Logger
	client  atomic.Pointer[connection]

	pollEvery  time.Duration // how often waiting calls retry without a hint
	countBatch int           // records that one script of a count reads

	replicas     atomic.Int64  // that must confirm a commit; changed by tests only
	waitReplicas time.Duration // how long a commit waits for them

	tokens atomic.Uint64 // number of the latest token: see newToken

	// Findings of inspect, each logged when it changes.
	behind base.Behind // how far the server's clock is behind the store's time
	unfit  atomic.Bool // the server's settings are not as durable as required

	// lifetime ends when the store is closed, after the last call has returned.
	lifetime context.Context //nolint:containedctx // it is that of the goroutines of the store
	end      context.CancelFunc

	// uncancelled never ends: groups of commits run under it, whose callers may leave.
	uncancelled context.Context //nolint:containedctx // it is that of groups of commits

	background sync.WaitGroup // goroutines that end with life

	// segments are the parts of the store, at least one. They are set by Open, after the header
	// was read, and do not change.
	segments []*segment

	size struct { // of the servers' append-only files, cached for sizeMaxAge
		sync.Mutex
		at    time.Time
		bytes int64
	}

	reconnecting atomic.Bool // reconnect runs, one at a time
	listening    atomic.Bool // hints are being received: see subscribe

	// mu guards what follows. It is not held during a call to the server.
	mu            sync.Mutex
	closed        bool
	calls         sync.WaitGroup                     // calls and attempts under way; Add only with mu held and not closed
	waits         *waitlist.List[[]store.Claim]      // waiting Claim calls
	topics        map[target]*topic                  // what they wait for; only those with a subscription
	limited       atomic.Bool                        // a call was limited to tenants
	awaiting      waitlist.Records[uint64, *awaiter] // Await calls, by the digest of their record
	known         versions                           // of records that this process wrote last
	outlooks      outlooks                           // where claims may find something, if there are several segments
	alarm         *waitlist.Alarm                    // for the earliest DueAt of a subscription, or expireAt of a segment
	listenStarted bool                               // the goroutine that receives hints was started
	export        *snapshot                          // of the export under way, or nil
}

// commitQueue holds the commits that wait for a group in flight to return.
//
// Its mutex is its own, so that a commit that is submitted does not contend with calls
// that wait. Invariant: 0 <= groupsInFlight <= maxGroupsInFlight; attempts is empty
// whenever groupsInFlight is 0 and the mutex is free.
type commitQueue struct {
	sync.Mutex
	pending         []*pendingCommit
	groupsInFlight  int // groups whose script has been sent
	commitsInFlight int // commits in these groups, as they were taken from pending

	// attempts are busy waiters whose attempt goes with the next group.
	attempts []*waiter
}

// connection is a client of one server, or of one cluster. Calls load it once and use it to
// their end, so one that was replaced may still be in use; it is closed after the
// subscription to hints has been told to move (left).
type connection struct {
	rueidis.Client
	address string
	cluster bool
	left    chan struct{} // closed when the store has another connection
}

var _ store.Store = (*Store)(nil)

var goodPrefix = regexp.MustCompile(`^[A-Za-z0-9_.:-]{1,100}$`)

func openURL(ctx context.Context, u *url.URL) (store.Store, error) {
	o := Options{Prefix: u.Query().Get("prefix"), Durability: Durability(u.Query().Get("durability"))}
	if u.Opaque != "" || u.Host == "" {
		return nil, store.InvalidURL(u, "name a server, such as %s://127.0.0.1:6379/0", u.Scheme)
	}
	for host := range strings.SplitSeq(u.Host, ",") {
		if _, _, err := net.SplitHostPort(host); err != nil {
			host = net.JoinHostPort(strings.Trim(host, "[]"), "6379")
		}
		o.Addresses = append(o.Addresses, host)
	}
	if db := strings.Trim(u.Path, "/"); db != "" {
		n, err := strconv.Atoi(db)
		if err != nil || n < 0 {
			return nil, store.InvalidURL(u, "the path is the number of a database, such as /0")
		}
		o.DB = n
	}
	if u.User != nil {
		o.Username = u.User.Username()
		o.Password, _ = u.User.Password()
	}
	if u.Scheme == "rediss" {
		o.TLS = &tls.Config{MinVersion: tls.VersionTLS12}
	}
	if u.Query().Has("prefix") && !goodPrefix.MatchString(o.Prefix) {
		return nil, store.InvalidOption(u, "prefix", "1 to 100 letters, digits and the characters _ . : -")
	}
	if !o.Durability.known() {
		return nil, store.InvalidOption(u, "durability", "strict, trusted or relaxed")
	}
	if u.Query().Has("replicas") {
		n, err := strconv.Atoi(u.Query().Get("replicas"))
		if err != nil || n < 0 || n > 100 {
			return nil, store.InvalidOption(u, "replicas", "a number from 0 to 100")
		}
		o.Replicas = n
	}
	if u.Query().Has("segments") {
		n, err := strconv.Atoi(u.Query().Get("segments"))
		if err != nil || n < 1 || n > MaxSegments {
			return nil, store.InvalidOption(u, "segments", fmt.Sprintf("a number from 1 to %d", MaxSegments))
		}
		o.Segments = n
	}
	return Open(ctx, o)
}

func (d Durability) known() bool {
	return d == "" || d == Strict || d == Trusted || d == Relaxed
}

// Open opens the store on a server. It returns [store.ErrInvalid] with the reason if the
// server is not as durable as [Options.Durability] requires, [store.ErrFormat] if the data has
// another format, and [store.ErrInUse] if another process holds the store exclusively.
//
// It waits up to retryTimeout for a server that is loading its data, and for one of several
// to be the master. Before it returns it ends expired leases and quarantines expired
// messages once, so that the alarm knows the next expiry even if no call ever waits.
func Open(ctx context.Context, o Options) (*Store, error) {
	if o.Prefix == "" {
		o.Prefix = DefaultPrefix
	}
	if o.Durability == "" {
		o.Durability = Strict
	}
	if o.Logger == nil {
		o.Logger = slog.Default()
	}
	switch {
	case len(o.Addresses) == 0:
		return nil, fmt.Errorf("redisstore: open: no address: %w", store.ErrInvalid)
	case !goodPrefix.MatchString(o.Prefix):
		return nil, fmt.Errorf("redisstore: open: prefix %q: 1 to 100 letters, digits and the characters _ . : - are allowed: %w", o.Prefix, store.ErrInvalid)
	case !o.Durability.known():
		return nil, fmt.Errorf("redisstore: open: durability %q: strict, trusted or relaxed is allowed: %w", o.Durability, store.ErrInvalid)
	case o.Replicas < 0:
		return nil, fmt.Errorf("redisstore: open: %d replicas: must not be negative: %w", o.Replicas, store.ErrInvalid)
	case o.Segments < 0 || o.Segments > MaxSegments:
		return nil, fmt.Errorf("redisstore: open: %d segments: 0 to %d are allowed: %w", o.Segments, MaxSegments, store.ErrInvalid)
	}
	if err := ctx.Err(); err != nil {
		return nil, err
	}
	s := &Store{
		options: o, prefix: "{" + o.Prefix + "}", clock: o.Clock, wall: base.System{}, logger: o.Logger,
		outlooks: newOutlooks(), topics: map[target]*topic{}, awaiting: waitlist.Records[uint64, *awaiter]{},
	}
	s.pollEvery, s.countBatch, s.waitReplicas = cmp.Or(o.poll, pollEvery), cmp.Or(o.countBatch, defaultCountBatch), cmp.Or(o.waitReplicas, waitReplicas)
	s.replicas.Store(int64(o.Replicas))
	s.behind.Report = s.reportBehind
	var me [12]byte
	_, _ = rand.Read(me[:]) // it never fails
	s.openID = hex.EncodeToString(me[:])
	s.waits = waitlist.New[[]store.Claim](&s.mu, s.ticker(), s.startAttempts)
	s.waits.Detached = s.detached
	s.alarm = waitlist.NewAlarm(s.ticker(), s.onAlarm)
	s.lifetime, s.end = context.WithCancel(context.Background())
	s.uncancelled = context.WithoutCancel(s.lifetime)
	c, err := s.connect(ctx)
	if err != nil {
		s.end()
		return nil, err
	}
	s.client.Store(c)
	if err := s.enter(ctx); err != nil {
		s.end()
		c.Close()
		return nil, err
	}
	s.background.Go(s.heartbeat)
	s.background.Go(s.poll)
	return s, nil
}

// enter reads the header, enters this process into the list of those that have the store open,
// and sweeps.
func (s *Store) enter(ctx context.Context) error {
	if err := s.readLayout(ctx); err != nil {
		return err
	}
	if err := s.register(ctx); err != nil {
		return err
	}
	return s.sweepAll(ctx)
}

// begin starts a call, or returns [store.ErrClosed] or the error of ctx. The call ends with
// done, which must be called exactly once.
//
// While a call is under way the connection stays open: Close waits for all of
// them. Calls that wait are ended first, so that it does not wait for long.
func (s *Store) begin(ctx context.Context, verb string) (done func(), err error) {
	if err := ctx.Err(); err != nil {
		return nil, err
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.closed {
		return nil, store.Closed(verb)
	}
	s.calls.Add(1)
	return s.calls.Done, nil
}

// Close ends waiting calls, waits for those under way and disconnects. It may be called twice.
//
// In this order: no new call begins; waiting calls end; calls and attempts that
// are under way return, with the connection still open; the process is taken off
// the list of those that have the store open; background work ends; the
// connection is closed.
func (s *Store) Close() error {
	s.mu.Lock()
	if s.closed {
		s.mu.Unlock()
		s.background.Wait()
		return nil
	}
	s.closed = true
	s.alarm.Stop()
	s.waits.Finish(store.Closed("claim"))
	for _, a := range s.awaiting.All() {
		a.Tell("")
	}
	s.mu.Unlock()
	s.calls.Wait()
	s.unregister()
	s.end()
	s.background.Wait()
	s.client.Load().Close()
	return nil
}

// clockArg is the time argument of scripts: empty if they use the server's clock.
func (s *Store) clockArg() string {
	if s.clock == nil {
		return ""
	}
	return itoa(s.clock.Now().UnixMilli())
}

// ticker is the clock by which the store waits.
func (s *Store) ticker() base.Clock {
	if s.clock == nil {
		return s.wall
	}
	return s.clock
}

// moment converts a time of the store to one of the ticker. now is the store's time when the
// script ran; at is moved to after now, since an attempt at now has been made.
//
// With the server's clock, the delay until at is counted from when the answer is
// read, so an attempt is never early by the server's clock, and late by the time that
// the answer took. Clocks of this machine and of the server need not agree.
func (s *Store) moment(now, at int64) time.Time {
	at = max(at, now+1)
	if s.clock != nil {
		return store.FromMillis(at)
	}
	return s.wall.Now().Add(durationMS(at - now))
}

// newToken returns the prefix of the tokens of one claim, which begins with its owner: the
// script appends a number for each key. openID is random and new for each open store, so
// tokens are unique over processes and restarts without a call to the server.
func (s *Store) newToken(owner string) string {
	return string(store.OwnedToken(owner, s.openID+"-"+strconv.FormatUint(s.tokens.Add(1), 36)+"-"))
}

// millis returns a duration in milliseconds, rounded up.
func millis(d time.Duration) int64 {
	return int64((d + time.Millisecond - 1) / time.Millisecond)
}

func durationMS(ms int64) time.Duration { return time.Duration(ms) * time.Millisecond }
