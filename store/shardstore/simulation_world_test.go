package shardstore_test

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"slices"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/abidehq/abide/internal/base"
	"github.com/abidehq/abide/store"
	"github.com/abidehq/abide/store/memstore"
	"github.com/abidehq/abide/store/shardstore"
)

// The model of the network and of the servers. A call takes a round trip, and the time for which the
// server's processors are busy with calls that came before. A process that does not answer loses its rows
// after a minute, as in PostgreSQL.
const (
	roundTrip   = time.Millisecond
	slowTrip    = 300 * time.Millisecond // of a process with a bad connection
	serverCall  = 150 * time.Microsecond // of one processor
	serverCores = 16
	forgetAfter = time.Minute
)

// world is processes and shards in virtual time.
type world struct {
	t        testing.TB
	machines []*machine
	hosts    []*host

	mu       sync.Mutex
	versions map[int64]*spreading
	reached  func(stage shardstore.Stage) // called with the stage of each version
	closedAt time.Time                    // zero if no slot is closed
	closed   []time.Duration              // how long slots were closed

	costs
}

// costs is how many calls were made for the directory, and for claims.
type costs struct {
	reads, puts, conflicts, wakes, acks, polls, waits atomic.Int64
}

// spreading is a version of the directory on its way to the processes.
type spreading struct {
	at   time.Time
	took map[*host]time.Duration
}

// machine is the server of a shard.
type machine struct {
	*memstore.Store
	name string

	mu   sync.Mutex
	free time.Time     // when its processors are free
	most time.Duration // the longest queue
}

// queue returns how long a call that arrives now waits for the server and is served.
func (m *machine) queue() time.Duration {
	m.mu.Lock()
	defer m.mu.Unlock()
	now := base.System{}.Now()
	if m.free.Before(now) {
		m.free = now
	}
	m.free = m.free.Add(serverCall / serverCores)
	m.most = max(m.most, m.free.Sub(now))
	return m.free.Sub(now) + serverCall
}

// queued returns the longest queue since the last call.
func (m *machine) queued() time.Duration {
	m.mu.Lock()
	defer m.mu.Unlock()
	most := m.most
	m.most = 0
	return most
}

// host is what a process runs on.
type host struct {
	w     *world
	links []*link
	store *shardstore.Store

	mu    sync.Mutex
	slow  bool
	awake chan struct{} // closed while the process is not suspended
	ever  bool          // it was slow or suspended once
}

// link is the connection of a process to a shard.
type link struct {
	*memstore.Process
	host *host
	on   *machine
}

var _ store.Movable = (*link)(nil)

func newWorld(t testing.TB, shards int) *world {
	w := &world{t: t, versions: map[int64]*spreading{}}
	for i := range shards {
		w.machines = append(w.machines, &machine{Store: memstore.New(memstore.Options{}), name: fmt.Sprintf("s%03d", i)})
	}
	return w
}

// open starts a process with all shards but the last few.
func (w *world) open(without int, o shardstore.Options) *host {
	h := &host{w: w, awake: make(chan struct{})}
	close(h.awake)
	var shards []shardstore.Shard
	for _, m := range w.machines[:len(w.machines)-without] {
		l := &link{m.Process(), h, m}
		h.links = append(h.links, l)
		shards = append(shards, shardstore.Shard{Name: m.name, Store: l})
	}
	o.Logger = slog.New(slog.NewTextHandler(io.Discard, nil))
	s, err := shardstore.New(w.t.Context(), shards, o)
	if err != nil {
		w.t.Error(err)
		return nil
	}
	h.store = s
	return h
}

// suspend stops the process for a while. Its rows are removed if that is too long.
func (h *host) suspend(d time.Duration) {
	h.mu.Lock()
	defer h.mu.Unlock()
	awake := make(chan struct{})
	h.awake, h.ever = awake, true
	base.System{}.AfterFunc(d, func() { close(awake) })
	if d > forgetAfter {
		base.System{}.AfterFunc(forgetAfter, func() {
			for _, l := range h.links {
				l.Dead()
			}
		})
	}
}

// setSlow gives the process a slow connection, or a usual one.
func (h *host) setSlow(slow bool) {
	h.mu.Lock()
	defer h.mu.Unlock()
	h.slow, h.ever = slow, true
}

// isDisturbed reports whether the process was slow or suspended.
func (h *host) isDisturbed() bool {
	h.mu.Lock()
	defer h.mu.Unlock()
	return h.ever
}

// run waits while the process is suspended, and returns how long its calls are under way.
func (h *host) run() time.Duration {
	h.mu.Lock()
	awake, slow := h.awake, h.slow
	h.mu.Unlock()
	<-awake
	if slow {
		return slowTrip
	}
	return roundTrip
}

// send is the way of a call to the server, until it is done there.
func (l *link) send(ctx context.Context) error {
	return base.Sleep(ctx, base.System{}, l.host.run()/2+l.on.queue())
}

// answer is the way of the result to the process.
func (l *link) answer() {
	_ = base.Sleep(context.Background(), base.System{}, l.host.run()/2)
}

// remote makes a call of a shard.
func remote[T any](ctx context.Context, l *link, call func() (T, error)) (T, error) {
	var none T
	if err := l.send(ctx); err != nil {
		return none, err
	}
	defer l.answer()
	return call()
}

func (l *link) Get(ctx context.Context, key store.RecordKey) (store.Record, error) {
	if key == store.ShardDirectory {
		l.host.w.reads.Add(1)
	}
	return remote(ctx, l, func() (store.Record, error) { return l.Process.Get(ctx, key) })
}

func (l *link) ReadLog(ctx context.Context, key store.Key, from int) (store.LogPage, error) {
	return remote(ctx, l, func() (store.LogPage, error) { return l.Process.ReadLog(ctx, key, from) })
}

// Commit takes longer than other calls if the connection is slow, so that it may arrive after a later call.
func (l *link) Commit(ctx context.Context, tx *store.Tx) error {
	if trip := l.host.run(); trip > roundTrip {
		if err := base.Sleep(ctx, base.System{}, 2*trip); err != nil {
			return err
		}
	}
	_, err := remote(ctx, l, func() (struct{}, error) { return struct{}{}, l.commit(ctx, tx) })
	return err
}

func (l *link) commit(ctx context.Context, tx *store.Tx) error {
	err := l.Process.Commit(ctx, tx)
	if len(tx.PutRecords) == 0 || tx.PutRecords[0].Record.Key != store.ShardDirectory {
		return err
	}
	l.host.w.puts.Add(1)
	if errors.Is(err, store.ErrConflict) {
		l.host.w.conflicts.Add(1)
	}
	if err == nil {
		l.host.w.put(tx.PutRecords[0].Record.Body)
	}
	return err
}

// put notes a version of the directory when it is first put.
func (w *world) put(body []byte) {
	var d struct {
		Version int64
		Move    struct{ Stage shardstore.Stage }
	}
	if err := json.Unmarshal(body, &d); err != nil {
		w.t.Error(err)
	}
	w.mu.Lock()
	defer w.mu.Unlock()
	if w.versions[d.Version] != nil {
		return
	}
	now := base.System{}.Now()
	w.versions[d.Version] = &spreading{at: now, took: map[*host]time.Duration{}}
	if !w.closedAt.IsZero() {
		w.closed, w.closedAt = append(w.closed, now.Sub(w.closedAt)), time.Time{}
	}
	if d.Move.Stage == shardstore.Closed {
		w.closedAt = now
	}
	if w.reached != nil {
		w.reached(d.Move.Stage)
	}
}

// Await waits as a process does that listens for notifications and then reads the record.
func (l *link) Await(ctx context.Context, key store.RecordKey, after int64) (store.Record, error) {
	r, err := l.Process.Await(ctx, key, after)
	if err != nil {
		return r, err
	}
	l.host.w.wakes.Add(1)
	return remote(ctx, l, func() (store.Record, error) { return r, nil })
}

func (l *link) Acknowledge(ctx context.Context, version int64) error {
	l.host.w.acks.Add(1)
	l.host.w.knows(l.host, version)
	_, err := remote(ctx, l, func() (struct{}, error) { return struct{}{}, l.Process.Acknowledge(ctx, version) })
	return err
}

// knows notes that a process goes by a version of the directory.
func (w *world) knows(h *host, version int64) {
	w.mu.Lock()
	defer w.mu.Unlock()
	if s := w.versions[version]; s != nil {
		if _, known := s.took[h]; !known {
			s.took[h] = base.System{}.Now().Sub(s.at)
		}
	}
}

// Claim is a matter of the process if it is lax or waits: it is told by the server when there is something.
func (l *link) Claim(ctx context.Context, req store.ClaimRequest) ([]store.Claim, error) {
	if req.Wait > 0 {
		l.host.w.waits.Add(1)
	} else {
		l.host.w.polls.Add(1)
	}
	return l.Process.Claim(ctx, req)
}

func (l *link) Settle(ctx context.Context, version int64) error {
	_, err := remote(ctx, l, func() (struct{}, error) { return struct{}{}, l.Process.Settle(ctx, version) })
	return err
}

func (l *link) Tenants(ctx context.Context, yield func(tenant string) error) error {
	_, err := remote(ctx, l, func() (struct{}, error) { return struct{}{}, l.Process.Tenants(ctx, yield) })
	return err
}

func (l *link) Outline(ctx context.Context, tenants []string, yield func(store.Mark) error) error {
	_, err := remote(ctx, l, func() (struct{}, error) { return struct{}{}, l.Process.Outline(ctx, tenants, yield) })
	return err
}

func (l *link) Take(ctx context.Context, things []store.Thing) (store.Cargo, error) {
	return remote(ctx, l, func() (store.Cargo, error) { return l.Process.Take(ctx, things) })
}

func (l *link) Replace(ctx context.Context, guard store.Guard, things []store.Thing, c store.Cargo) ([]store.Mark, error) {
	return remote(ctx, l, func() ([]store.Mark, error) { return l.Process.Replace(ctx, guard, things, c) })
}

// entry is what a writer appends as its nth.
func entry(n int) []byte { return fmt.Appendf(nil, "%d", n) }

// writer appends to the log of a key, and knows what was acknowledged.
type writer struct {
	host  *host
	key   store.Key
	acked int

	mu     sync.Mutex
	waited []time.Duration // what commits took
}

// begin returns what commits took since the last call.
func (w *writer) begin() []time.Duration {
	w.mu.Lock()
	defer w.mu.Unlock()
	waited := w.waited
	w.waited = nil
	return waited
}

// write appends an entry now and then. Nobody else appends to the log, so that each commit must go
// through.
func (w *writer) write(ctx context.Context, pauses func() time.Duration) {
	for base.Sleep(ctx, base.System{}, pauses()) == nil {
		begun := base.System{}.Now()
		err := w.host.store.Commit(context.Background(), &store.Tx{
			Append: []store.Append{{Key: w.key, At: w.acked, Tag: 1, Route: "none", Entries: [][]byte{entry(w.acked)}}},
		})
		if err != nil {
			w.host.w.t.Errorf("commit %d to %v: %v", w.acked, w.key, err)
			return
		}
		w.acked++
		w.mu.Lock()
		w.waited = append(w.waited, base.System{}.Now().Sub(begun))
		w.mu.Unlock()
	}
}

// check compares the log with what was acknowledged.
func (w *writer) check(s *shardstore.Store) {
	t := w.host.w.t
	page, err := s.ReadLog(context.Background(), w.key, 0)
	if err != nil || page.Length != w.acked || len(page.Entries) != w.acked {
		t.Errorf("the log of %v has %d entries, %v; %d commits were acknowledged", w.key, page.Length, err, w.acked)
		return
	}
	for i, e := range page.Entries {
		if !bytes.Equal(e, entry(i)) {
			t.Errorf("entry %d of %v is %s", i, w.key, e)
		}
	}
}

// quantiles returns the median, the 99th percentile and the maximum.
func quantiles(d []time.Duration) string {
	if len(d) == 0 {
		return "none"
	}
	slices.Sort(d)
	at := func(q float64) time.Duration {
		return d[min(len(d)-1, int(q*float64(len(d))))].Round(100 * time.Microsecond)
	}
	return fmt.Sprintf("p50 %v, p99 %v, max %v", at(0.5), at(0.99), at(1))
}
