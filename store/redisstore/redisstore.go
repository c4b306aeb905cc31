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
			Options: []string{"prefix", "durability", "replicas"},
			Example: scheme + "://127.0.0.1:6379/0",
		})
	}
}

// DefaultPrefix is what the names of all keys begin with, in braces.
const DefaultPrefix = "abide"

// Durability says what the store asks of the server.
type Durability string

// What can be asked of a server. See docs/redis.md for what is lost when.
const (
	// Strict refuses a server that does not sync each write before it answers:
	// appendonly yes and appendfsync always.
	Strict Durability = "strict"

	// Trusted takes the operator's word for it, where the server does not tell.
	Trusted Durability = "trusted"

	// Relaxed accepts any server: what was acknowledged may be lost.
	Relaxed Durability = "relaxed"
)

// Options of a store.
type Options struct {
	// Addresses of the server, each as host:port. With several, they are of a master and its
	// replicas, and the store talks to the one that is the master.
	Addresses []string

	// DB is the number of the database.
	DB int

	// Username and Password are for servers that ask for them.
	Username, Password string

	// TLS is not nil for servers that are talked to through TLS.
	TLS *tls.Config

	// Prefix is what the names of all keys begin with; empty means [DefaultPrefix]. Stores
	// with different prefixes share a server and nothing else.
	Prefix string

	// Durability is what the store asks of the server; empty means [Strict].
	Durability Durability

	// Replicas is how many replicas must have a commit before it is acknowledged. Zero means
	// that the master is enough.
	Replicas int

	// Clock is the store's clock. Nil means that of the server, which is what several
	// processes need; tests give one.
	Clock clock.Clock

	// Logger gets what the store has to say; nil means slog.Default.
	Logger *slog.Logger

	// poll, exactly and waitReplicas are for tests: other values than those of the constants.
	poll         time.Duration
	exactly      int
	waitReplicas time.Duration
}

// Store is a store on a Redis server.
type Store struct {
	options Options
	prefix  string
	me      string     // names this open store among others
	clock   base.Clock // nil: the server's
	wall    base.Clock // for what the clock of the store is not about
	logger  *slog.Logger
	client  atomic.Pointer[connection]

	pollEvery time.Duration // how often those who wait look without a hint
	exactly   int           // how many records a count looks at at once

	replicas     atomic.Int64
	waitReplicas time.Duration

	tokens atomic.Uint64 // of the claim call made last

	// What is known of the server: see inspect.
	behind base.Behind
	unfit  atomic.Bool

	// life ends when the store is closed.
	life context.Context //nolint:containedctx // it is that of the goroutines of the store
	end  context.CancelFunc

	// unending is for what goes on whoever waits for it.
	unending context.Context //nolint:containedctx // it is that of groups of commits

	background sync.WaitGroup // goroutines that end with life

	gather gathering

	size struct { // of the server's file, now and then
		sync.Mutex
		at    time.Time
		bytes int64
	}

	reconnecting atomic.Bool
	listening    atomic.Bool // hints of others come in

	// mu guards what follows. Nothing is asked of the server while it is held.
	mu       sync.Mutex
	closed   bool
	calls    sync.WaitGroup                     // under way; Add only with mu and not closed
	waits    *waitlist.List[[]store.Claim]      // Claim calls
	topics   map[target]*topic                  // that they wait for
	awaiting waitlist.Records[uint64, *awaiter] // Await calls, by the digest of their record
	known    versions
	alarm    *waitlist.Alarm
	expireAt time.Time // when a message without a route expires, by the ticker
	watched  bool      // somebody has waited, so hints are wanted
	export   *snapshot
}

// gathering is the commits that wait for others to return.
//
// flights and running are what fly decides by: how many groups are in flight, and
// how many commits are in them. Its mutex is its own, so that a commit that is
// submitted does not contend with calls that wait.
type gathering struct {
	sync.Mutex
	calls   []*call
	flights int // groups under way
	running int // commits in them

	// looks are calls that look for something to claim, and go with the next group.
	looks []*waiter
}

// connection is what commands go through.
type connection struct {
	rueidis.Client
	address string
	cluster bool
	left    chan struct{} // closed when the store talks to another one
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
	return Open(ctx, o)
}

func (d Durability) known() bool {
	return d == "" || d == Strict || d == Trusted || d == Relaxed
}

// Open opens the store on a server. It returns an error that says why if the server is not
// as durable as [Options.Durability] asks.
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
	}
	if err := ctx.Err(); err != nil {
		return nil, err
	}
	s := &Store{
		options: o, prefix: "{" + o.Prefix + "}", clock: o.Clock, wall: base.System{}, logger: o.Logger,
		topics: map[target]*topic{}, awaiting: waitlist.Records[uint64, *awaiter]{},
	}
	s.pollEvery, s.exactly, s.waitReplicas = cmp.Or(o.poll, pollEvery), cmp.Or(o.exactly, exactly), cmp.Or(o.waitReplicas, waitReplicas)
	s.replicas.Store(int64(o.Replicas))
	s.behind.Report = s.reportBehind
	var me [12]byte
	_, _ = rand.Read(me[:]) // it never fails
	s.me = hex.EncodeToString(me[:])
	s.waits = waitlist.New[[]store.Claim](&s.mu, s.ticker(), s.startWanted)
	s.waits.Detached = s.detached
	s.alarm = waitlist.NewAlarm(s.ticker(), s.onAlarm)
	s.life, s.end = context.WithCancel(context.Background())
	s.unending = context.WithoutCancel(s.life)
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
	if err := s.sweep(ctx); err != nil {
		s.end()
		c.Close()
		return nil, err
	}
	s.background.Go(s.beat)
	s.background.Go(s.poll)
	return s, nil
}

// begin starts a call. The call ends with done.
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

// Close ends waiting calls, waits for those under way and leaves the server.
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
	s.leave()
	s.end()
	s.background.Wait()
	s.client.Load().Close()
	return nil
}

// clockArg is the time for scripts: empty if they ask the server.
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

// moment is when a time of the store comes, by the ticker. The answer that says so may be
// late: a clock that both go by may have moved on meanwhile.
//
// With a clock of the server, now is what the answer says; the delay until at is
// counted from when the answer is read, so a look is never early by the server's
// clock, and late by the time that the answer took.
func (s *Store) moment(now, at int64) time.Time {
	at = max(at, now+1)
	if s.clock != nil {
		return store.FromMillis(at)
	}
	return s.wall.Now().Add(durationMS(at - now))
}

// newToken returns what the tokens of a claim call begin with. No other call of any
// process has the same.
//
// me is random and new for each open store, so tokens are unique over processes
// and restarts without asking the server.
func (s *Store) newToken() string {
	return s.me + "-" + strconv.FormatUint(s.tokens.Add(1), 36) + "-"
}

// millis returns a duration in milliseconds, rounded up.
func millis(d time.Duration) int64 {
	return int64((d + time.Millisecond - 1) / time.Millisecond)
}

func durationMS(ms int64) time.Duration { return time.Duration(ms) * time.Millisecond }
