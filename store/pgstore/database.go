package pgstore

import (
	"context"
	"fmt"
	"log/slog"
	"slices"
	"sync/atomic"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgxpool"

	"github.com/abidehq/abide/internal/base"
	"github.com/abidehq/abide/internal/rows"
	"github.com/abidehq/abide/store"
)

// database is the tables, as the core knows them.
type database struct {
	config   *config
	clock    base.Clock // of tests; nil in production
	machine  base.Clock // by which we wait
	log      *slog.Logger
	presence presence
	passed   int // how many records a list passes over in its first statement

	commits *pgxpool.Pool // for groups of commits: durable when they return
	others  *pgxpool.Pool // for claims and reads
	aside   *pgxpool.Pool // for updates that must not wait for groups of commits, or groups for them
	text    *statements

	// What a transaction begins with: BEGIN, and the settings if a pooler may have given us
	// another connection.
	begin        []string
	beginRelaxed []string

	cache     rowCache
	peers     *peers
	lockNext  atomic.Int64 // how many of the next updates lock what they load
	time      *base.Follower
	behind    base.Behind
	deltas    atomic.Int64 // rows of the tally that we wrote since they were folded
	foldSoon  chan struct{}
	process   string       // our row in the table of processes
	acked     atomic.Int64 // the version of the directory of shards that is in it; 0 if there is none
	fenceText string       // checkFence
	number    int64        // our number there; 0 if this process does not listen
	hinted    atomic.Bool
	listening atomic.Pointer[time.Time] // since when the listening connection has been up, or was

	format  int                   // of this program
	unfit   atomic.Pointer[error] // why this program must not work on the tables any more, if so
	onUnfit func()                // has those who wait look

	announcer *announcer

	closing context.Context // ends when the store is closed, and reads with it
	stop    context.CancelFunc
}

var _ rows.Database = (*database)(nil)

// callTime is how long anything may take before we give up on the server: longer than it
// may take there, so that it is the server that says so if it can.
const callTime = time.Minute

func newDatabase(ctx context.Context, c *config, o Options, b *basis) (*database, error) {
	known := b.known
	d := &database{
		config: c, clock: o.Clock, machine: base.System{}, log: o.Logger, presence: o.presence, passed: o.firstPassed, text: b.text,
		peers: newPeers(), process: base.NewUUID(base.System{}.Now()),
		time: base.NewFollower(store.MaxClockLead), format: formatOf(), begin: []string{"BEGIN"}, beginRelaxed: []string{"BEGIN"}, foldSoon: make(chan struct{}, 1),
	}
	d.fenceText = d.text.translate.Replace(checkFence)
	d.behind.Report = func(lead time.Duration) {
		d.log.Warn("clock of the server is behind the store's time", "lead", lead)
	}
	if c.pooler {
		set := pooledSettings(known)
		d.begin = append(d.begin, d.text.sending(set[0]))
		d.beginRelaxed = append(d.beginRelaxed, d.text.sending(set[1]))
	}
	var err error
	if d.commits, err = pool(ctx, c, o, c.writers(), setting(known, false, groupLockWait, false)); err != nil {
		return nil, err
	}
	if d.others, err = pool(ctx, c, o, c.others(), setting(known, true, lockWait, false)); err != nil {
		d.commits.Close()
		return nil, err
	}
	if d.aside = d.others; c.aside() > 0 {
		if d.aside, err = pool(ctx, c, o, c.aside(), setting(known, false, groupLockWait, false)); err != nil {
			d.commits.Close()
			d.others.Close()
			return nil, err
		}
	}
	if c.notify {
		d.number = processNumber(d.process)
		d.cache.process = d.number
	}
	d.announcer = newAnnouncer(d)
	d.closing, d.stop = context.WithCancel(context.Background())
	return d, nil
}

func (d *database) close() {
	d.stop()
	d.commits.Close()
	d.others.Close()
	d.aside.Close()
}

// poolFor returns the connections for an update, and the statements that its transaction begins with.
func (d *database) poolFor(need *rows.ReadSet) (*pgxpool.Pool, []string) {
	if need.LockWait == 0 {
		return d.commits, d.begin
	}
	begin := append(slices.Clone(d.begin), fmt.Sprintf("SET LOCAL lock_timeout = %d", need.LockWait.Milliseconds()))
	if d.aside == d.others && !d.config.pooler {
		begin = append(begin, "SET LOCAL synchronous_commit TO DEFAULT")
	}
	return d.aside, begin
}

// ask returns a question about the time, and the first parameter of a statement that has
// {now}: the time that it must not be before, or, if the clock is that of a test, the time.
func (d *database) ask() (base.Question, int64) {
	q := d.time.Ask()
	if d.clock == nil {
		return q, q.Floor
	}
	return q, q.Time(d.clock.Now().UnixMilli())
}

// answer notes a time of the database, or what its clock shows, and returns the latest time.
func (d *database) answer(q base.Question, now int64) int64 {
	latest, back := d.time.Answer(q, now)
	if back {
		d.log.Warn("clock of the server was set back, followed", "from", store.FromMillis(q.Floor), "to", store.FromMillis(latest))
	}
	return latest
}

// sender is what statements can be sent to: a connection, a pool of them, or a transaction, also
// one that a user began.
type sender interface {
	SendBatch(ctx context.Context, b *pgx.Batch) pgx.BatchResults
}

// staleTries is how many connections are tried that turn out to be lost: more than there
// are, so that after a restart of the server the first call finds a new one.
func (d *database) staleTries() int { return d.config.connections + 1 }

// within returns a context that also ends when the store is closed.
func (d *database) within(ctx context.Context) (context.Context, context.CancelFunc) {
	ctx, cancel := context.WithCancel(ctx)
	stop := context.AfterFunc(d.closing, cancel)
	return ctx, func() {
		stop()
		cancel()
	}
}

// read sends a statement that changes nothing, or nothing that matters if it is done
// twice, and calls scan with what comes back. It is sent again if the connection was lost
// before anything came.
func (d *database) read(ctx context.Context, sql string, args []any, scan func(pgx.Rows) error) error {
	if err := d.fit(); err != nil {
		return err
	}
	ctx, cancel := d.within(ctx)
	defer cancel()
	ctx, end := context.WithTimeout(ctx, callTime)
	defer end()
	if caller := txOf(ctx); caller != nil {
		b := &pgx.Batch{}
		b.Queue(sql, args...).Query(scan)
		return d.withinCaller(caller).SendBatch(ctx, b).Close()
	}
	for try := 1; ; try++ {
		came, err := d.readOnce(ctx, sql, args, scan)
		if err == nil || came || ctx.Err() != nil || !isGone(err) || try >= d.staleTries() {
			return err
		}
	}
}

// readOnce sends a statement on a connection of the pool, and reports whether anything came
// back. A connection that is of no use any more is closed.
func (d *database) readOnce(ctx context.Context, sql string, args []any, scan func(pgx.Rows) error) (came bool, err error) {
	ended := d.config.servers.begin(otherCall)
	defer func() { ended(err) }()
	conn, err := d.others.Acquire(ctx)
	if err != nil {
		return false, err
	}
	defer conn.Release()
	came, err = d.readOn(ctx, conn, sql, args, scan)
	if err != nil && code(err) != "" && isGone(err) {
		_ = conn.Conn().Close(ctx) // it is lost either way
		d.demoted(err)
	}
	return came, err
}

// readOn sends a statement, and reports whether anything came back. Through a pooler the settings
// come first: what is sent at once is one transaction.
func (d *database) readOn(ctx context.Context, to sender, sql string, args []any, scan func(pgx.Rows) error) (came bool, err error) {
	b := &pgx.Batch{}
	if d.config.pooler {
		queue(b, d.beginRelaxed[1:])
	}
	b.Queue(sql, args...).Query(func(r pgx.Rows) error {
		return scan(&firstRow{Rows: r, came: &came})
	})
	return came, to.SendBatch(ctx, b).Close()
}

// firstRow notes that there are rows.
type firstRow struct {
	pgx.Rows
	came *bool
}

func (f *firstRow) Next() bool {
	ok := f.Rows.Next()
	*f.came = *f.came || ok
	return ok
}

// queue adds statements without parameters.
func queue(b *pgx.Batch, statements []string) {
	for _, sql := range statements {
		b.Queue(sql)
	}
}
