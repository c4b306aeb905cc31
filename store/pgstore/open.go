package pgstore

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"net/netip"
	"net/url"
	"os"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgconn"
	"github.com/jackc/pgx/v5/pgxpool"

	"github.com/abidehq/abide/clock"
	"github.com/abidehq/abide/internal/rows"
	"github.com/abidehq/abide/store"
)

func init() {
	scheme := store.Scheme{Example: "postgres://user@host/database", Options: append(ownOptions, driverOptions...), Open: openURL}
	store.Register("postgres", scheme)
	store.Register("postgresql", scheme)
}

// Options that a URL may have: ours, and those of the driver, which mean what they mean to
// every PostgreSQL program.
var (
	ownOptions    = []string{"schema", "connections", "notify", "migrate", "pooler"}
	driverOptions = []string{
		"sslmode", "sslrootcert", "sslcert", "sslkey", "sslpassword", "sslnegotiation", "channel_binding",
		"target_session_attrs", "application_name", "connect_timeout", "host", "port", "user", "password", "dbname",
		"passfile", "service", "servicefile", "krbsrvname", "krbspn", "options",
	}
)

// DefaultSchema is the schema of a store whose URL does not name one.
const DefaultSchema = "abide"

// DefaultConnections is how many connections a process opens at most if the URL does not
// say.
const DefaultConnections = 8

// minConnections is how many are needed: one for commits, one for claims and reads, one
// to listen.
const minConnections = 3

// Options of a store that no URL has.
type Options struct {
	// Clock is for tests: the store's time is that of this clock instead of the database's.
	// It must be nil where more than one process has the store open.
	Clock clock.Clock

	// Logger is told what goes wrong behind the scenes: a connection that was lost, say.
	// Nil means slog.Default.
	Logger *slog.Logger

	// Tracer, if not nil, is told of each statement.
	Tracer pgx.QueryTracer

	presence    presence // of tests that do not wait for a minute
	firstPassed int      // of tests whose lists gather sooner
}

// gatherTime is how long a group of commits waits for the callers of the group before. A group costs
// 0.4 ms of the server's CPU and as much of ours, whatever it has.
const gatherTime = 500 * time.Microsecond

// config is a URL, understood.
type config struct {
	conn        *pgx.ConnConfig
	schema      string
	connections int
	notify      bool
	migrate     bool
	anyServer   bool     // target_session_attrs was set, by the URL or the environment
	pooler      bool     // a pooler is in between that gives each transaction another connection
	prepares    bool     // it keeps prepared statements: found out when the store is opened
	servers     *servers // if there are several to choose from
	unverified  bool     // nothing says whether to use TLS, and the server is on another machine
}

func openURL(ctx context.Context, u *url.URL) (store.Store, error) {
	s, err := Open(ctx, u.String(), Options{})
	if err != nil {
		return nil, err
	}
	return s, nil
}

// Open opens the store in the database that a URL names, and makes its tables, or brings
// them up to date, unless the URL says migrate=off. It returns [store.ErrInUse] if another
// process has the store for itself, and [store.ErrFormat] if the tables are of a newer
// program, or missing.
func Open(ctx context.Context, rawURL string, o Options) (*Store, error) {
	c, err := parse(rawURL)
	if err != nil {
		return nil, err
	}
	if o.Logger == nil {
		o.Logger = slog.Default()
	}
	if o.firstPassed == 0 {
		o.firstPassed = firstPassed
	}
	if o.presence == (presence{}) {
		o.presence = defaultPresence
	}
	if !c.anyServer && c.conn.ValidateConnect == nil {
		c.conn.ValidateConnect = pgconn.ValidateConnectTargetSessionAttrsReadWrite
	}
	if c.servers = newServers(c); c.servers != nil {
		c.servers.choose(ctx)
	}
	b, err := prepare(ctx, c, o)
	if err != nil {
		return nil, err
	}
	if c.unverified {
		o.Logger.Warn("sslmode is not set: the server is not verified, and the connection may be plain text; set sslmode=verify-full", "host", c.conn.Host)
	}
	d, err := newDatabase(ctx, c, o, b)
	if err != nil {
		return nil, err
	}
	s := &Store{db: d, Core: rows.New(rows.Options{Clock: o.Clock, Writers: c.writers(), Aside: true, Gather: gatherTime})}
	d.onUnfit = func() { s.Hint(rows.Hint{}) }
	if err := d.enter(ctx); err != nil {
		d.close()
		return nil, err
	}
	s.Start(d)
	s.begin()
	return s, nil
}

// parse understands a URL.
func parse(rawURL string) (*config, error) {
	u, err := url.Parse(rawURL)
	if err != nil {
		return nil, fmt.Errorf("pgstore: malformed URL (is every special character percent-encoded?): %w", store.ErrInvalid)
	}
	query := u.Query()
	c := &config{schema: query.Get("schema"), connections: DefaultConnections}
	if c.schema == "" {
		c.schema = DefaultSchema
	}
	if len(c.schema) > 63 { // PostgreSQL would cut it off, and two could become one
		return nil, store.InvalidOption(u, "schema", "a name of at most 63 bytes")
	}
	if text := query.Get("connections"); text != "" {
		if c.connections, err = strconv.Atoi(text); err != nil || c.connections < minConnections || c.connections > 1000 {
			return nil, store.InvalidOption(u, "connections", fmt.Sprintf("%d to 1000", minConnections))
		}
	}
	if c.pooler, err = choice(u, query, "pooler", "none", "transaction"); err != nil {
		return nil, err
	}
	off, err := choice(u, query, "notify", "on", "off")
	if err != nil {
		return nil, err
	}
	c.notify = !off && !c.pooler
	if off, err = choice(u, query, "migrate", "on", "off"); err != nil {
		return nil, err
	}
	c.migrate = !off
	c.anyServer = query.Has("target_session_attrs") || os.Getenv("PGTARGETSESSIONATTRS") != ""
	for _, name := range ownOptions {
		query.Del(name)
	}
	u.RawQuery = strings.ReplaceAll(query.Encode(), "+", "%20") // to PostgreSQL programs a plus is a plus
	if c.conn, err = pgx.ParseConfig(u.String()); err != nil {
		return nil, fmt.Errorf("pgstore: %w: %w", err, store.ErrInvalid)
	}
	c.unverified = !query.Has("sslmode") && os.Getenv("PGSSLMODE") == "" && c.isRemote()
	if c.conn.ConnectTimeout == 0 {
		c.conn.ConnectTimeout = 10 * time.Second
	}
	if c.conn.RuntimeParams["application_name"] == "" {
		c.conn.RuntimeParams["application_name"] = "abide"
	}
	c.conn.DialFunc = dial
	c.conn.OnNotice = noteUnreplicated
	if c.pooler {
		c.conn.DefaultQueryExecMode = pgx.QueryExecModeCacheDescribe
	}
	return c, nil
}

// isRemote reports whether one of the servers is, or may be, on another machine.
func (c *config) isRemote() bool {
	hosts := []string{c.conn.Host}
	for _, f := range c.conn.Fallbacks {
		hosts = append(hosts, f.Host)
	}
	return slices.ContainsFunc(hosts, func(host string) bool {
		ip, err := netip.ParseAddr(host)
		return host != "localhost" && !strings.HasPrefix(host, "/") && (err != nil || !ip.IsLoopback())
	})
}

// choice reports whether an option has its second value.
func choice(u *url.URL, query url.Values, name, first, second string) (bool, error) {
	switch query.Get(name) {
	case "", first:
		return false, nil
	case second:
		return true, nil
	}
	return false, store.InvalidOption(u, name, first+", "+second)
}

// writers is how many of the connections are for groups of commits: with two, one group
// is worked out while the other is synced.
func (c *config) writers() int {
	if c.connections < 5 {
		return 1
	}
	return 2
}

// aside is how many of the connections are for renewals, releases, and commits that wait for
// a lock. If there is none, they use those for claims and reads.
func (c *config) aside() int {
	if c.connections < 6 {
		return 0
	}
	return 1
}

// others is how many of the connections are for claims and reads.
func (c *config) others() int {
	n := c.connections - c.writers() - c.aside()
	if c.notify {
		n--
	}
	return n
}

// quoted returns the schema as an identifier.
func (c *config) quoted() string { return pgx.Identifier{c.schema}.Sanitize() }

// basis is what a store finds, or makes, in the database before it is opened.
type basis struct {
	known []string    // the settings that the server has
	text  *statements // as they are sent
}

// prepare sees to it that the tables are there and are ours, and the functions too where statements
// are called.
func prepare(ctx context.Context, c *config, o Options) (b *basis, err error) {
	conn, err := c.connect(ctx)
	if err != nil {
		return nil, unreachable(c, err)
	}
	defer func() { err = errors.Join(err, conn.Close(ctx)) }()
	if c.migrate {
		_, err = migrate(ctx, conn, c.schema)
	} else {
		err = upToDate(ctx, conn, c.schema)
	}
	if err != nil {
		return nil, err
	}
	b = &basis{text: newStatements(c.quoted(), o.Clock != nil)}
	if b.known, err = knownSettings(ctx, conn); err != nil || !c.pooler {
		return b, err
	}
	if c.prepares, err = keepsPrepared(ctx, conn); err != nil {
		return nil, failed("ask the pooler", err)
	}
	if c.prepares {
		c.conn.DefaultQueryExecMode = pgx.QueryExecModeCacheStatement
		return b, nil
	}
	return b, useFunctions(ctx, conn, c, b.text, pooledSettings(b.known), o.Logger)
}

// connect opens a connection that belongs to no pool.
func (c *config) connect(ctx context.Context) (*pgx.Conn, error) {
	conn := c.conn.Copy()
	c.servers.configure(conn)
	return pgx.ConnectConfig(ctx, conn)
}

// unreachable returns the error of a server that cannot be connected to.
func unreachable(c *config, err error) error {
	return fmt.Errorf("pgstore: connect to %s:%d: %w", c.conn.Host, c.conn.Port, err)
}

// pool returns a pool of connections. They are set to what our statements count on.
func pool(ctx context.Context, c *config, o Options, size int, set string) (*pgxpool.Pool, error) {
	pc, err := pgxpool.ParseConfig("")
	if err != nil {
		return nil, fmt.Errorf("pgstore: %w", err)
	}
	pc.ConnConfig = c.conn.Copy()
	pc.ConnConfig.Tracer = o.Tracer
	pc.MaxConns = int32(size)
	pc.MinConns = 0
	pc.MaxConnIdleTime = 10 * time.Minute
	pc.MaxConnLifetime = time.Hour
	pc.MaxConnLifetimeJitter = 10 * time.Minute
	// A connection that was lost is found by its next use, which then takes another: asking
	// each time would be a round trip more.
	pc.ShouldPing = func(context.Context, pgxpool.ShouldPingParams) bool { return false }
	pc.BeforeConnect = func(_ context.Context, conn *pgx.ConnConfig) error {
		c.servers.configure(conn)
		return nil
	}
	if !c.pooler {
		pc.AfterConnect = func(ctx context.Context, conn *pgx.Conn) error {
			_, err := conn.Exec(ctx, set, pgx.QueryExecModeSimpleProtocol)
			return err
		}
	}
	p, err := pgxpool.NewWithConfig(ctx, pc)
	if err != nil {
		return nil, fmt.Errorf("pgstore: %w", err)
	}
	return p, nil
}
