package rows

import (
	"context"
	"time"

	"github.com/abidehq/abide/internal/base"
	"github.com/abidehq/abide/store"
)

// Core implements Commit, Claim, Renew, Release, Await and Import of a
// [github.com/abidehq/abide/store.Store] on a [Database]. A backend embeds it and adds the
// reads. The package comment has its design.
type Core struct {
	*env
	commits *committer // groups commits, and runs the groups
	claims  *claimer   // serves Claim calls
	records *watcher   // serves Await calls
	polls   *poller    // finds what no hint told of

	announcer *announcer // decides what other processes are told
}

// Options of a core.
type Options struct {
	// Clock measures waits. Nil means the machine's.
	Clock base.Clock

	// Writers is how many groups of commits may be in flight at once: 1 if a second one
	// would only wait for the first.
	Writers int

	// Aside says that the database has a connection for renewals, releases and calls that
	// wait for a row lock, which groups of commits do not use: updates whose ReadSet has a
	// LockWait run on it. Without it Update must not return ErrLocked.
	Aside bool

	// Gather is how long a group waits at most for the callers of the group before, if there were
	// several, and other processes use the database. Zero means not at all.
	Gather time.Duration

	// MaxGroup is the most commits of a group. Zero means 512.
	MaxGroup int

	// Poll is the interval at which the database is queried for changes that no hint
	// announced, while hints arrive. PollUnhinted is the longest interval while they do not.
	// Zero means 30 seconds, and 1 second.
	Poll         time.Duration
	PollUnhinted time.Duration
}

// New returns a core. Start must be called before any other method.
func New(o Options) *Core {
	if o.Clock == nil {
		o.Clock = base.System{}
	}
	if o.MaxGroup == 0 {
		o.MaxGroup = 512
	}
	if o.Poll == 0 {
		o.Poll = 30 * time.Second
	}
	if o.PollUnhinted == 0 {
		o.PollUnhinted = time.Second
	}
	e := &env{clock: o.Clock, o: o, time: newStoreTime(o.Clock), life: newLifecycle(), token: newTokens()}
	f := &Core{env: e, records: newWatcher(e)}
	f.commits = newCommitter(e, f.run, f.verify)
	f.claims = newClaimer(e, f.commits)
	f.polls = newPoller(e, f.claims, f.records)
	f.announcer = newAnnouncer(e, f.claims)
	e.time.setBack = f.hintAll
	return f
}

// Start begins to work on the database.
func (f *Core) Start(db Database) {
	f.db = db
	for range max(f.o.Writers, 1) {
		f.life.writers.Go(f.commits.runGroups)
	}
	if f.o.Aside {
		f.life.writers.Go(f.commits.runAside)
	}
}

// closeGrace is how long queries under way have to end when the store is closed. After one
// that ends by itself the leases that it made are known and released. One that is cancelled
// may leave leases that nobody holds, until they expire.
const closeGrace = 5 * time.Second

// CloseCore ends waiting calls, releases prefetched and orphaned leases, waits for groups in
// flight, and reports whether the core was open. The backend closes the database after it.
func (f *Core) CloseCore() bool {
	if !f.life.close() {
		f.life.tasks.Wait()
		f.life.writers.Wait()
		return false
	}
	f.commits.refuse()
	f.polls.stopAll()
	f.claims.endAll()
	late := f.clock.AfterFunc(closeGrace, f.life.stop)
	f.life.tasks.Wait()
	late()
	f.commits.drain()
	f.life.writers.Wait()
	f.life.cancel()
	return true
}

// Limits returns those of the contract.
func (f *Core) Limits() store.Limits { return store.ContractLimits() }

// Check returns the error of a call that cannot be made: that of ctx if it has ended, or
// store.ErrClosed. Reads of a backend begin with it.
func (f *Core) Check(ctx context.Context, verb string) error { return f.life.check(ctx, verb) }

// Hold stops the move of expired messages to quarantine while hold is true: an excluded
// store does not change by itself. It waits for a sweep under way.
func (f *Core) Hold(hold bool) { f.claims.hold(hold) }

// Waiting returns the number of Claim calls that wait.
func (f *Core) Waiting() int { return f.claims.waiting() }

// Ended is closed when the store is closed.
func (f *Core) Ended() <-chan struct{} { return f.life.closing }

// Hint is called by the backend with what another process announced.
func (f *Core) Hint(h Hint) {
	if f.life.check(f.life.ctx, "hint") != nil {
		return
	}
	if len(h.Due)+len(h.Reserved)+len(h.Records) == 0 {
		f.hintAll()
		return
	}
	f.claims.announced(h.Due, h.Reserved)
	f.records.announced(h.Records)
}

// Rewatch is called by the backend when another process has begun to listen: that one does not know yet
// which records calls of this one await.
func (f *Core) Rewatch() {
	if f.life.check(f.life.ctx, "rewatch") == nil {
		f.records.watchAll()
	}
}

// hintAll discards everything that is cached about the database, and queries it again for
// calls that wait.
func (f *Core) hintAll() {
	f.claims.announcedAll()
	f.records.announcedAll()
	f.polls.hintsChanged()
}
