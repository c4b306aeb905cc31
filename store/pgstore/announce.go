package pgstore

import (
	"context"
	"encoding/base64"
	"strconv"
	"strings"
	"sync"
	"time"

	"github.com/jackc/pgx/v5"

	"github.com/abidehq/abide/internal/backoff"
	"github.com/abidehq/abide/internal/base"
	"github.com/abidehq/abide/internal/rows"
)

// A notification is the ID of the process that sent it, a space, and a list, separated by commas,
// with numbers in base 36: "partition@time" says that something can be claimed in a partition at a
// time, "#number" names a record, "partition!key" a key that is reserved for the receiver. A list
// that is too long for one notification is split; one that is too long for maxNotifications is
// sent as a star, which says that anything may have changed.
//
// There are three kinds of channels. On that of the schema all processes hear of partitions. On
// its own each process hears of what is for it alone: keys that are reserved for it, and changes
// of records that it awaits. On the channel of watches processes say which records they await, and,
// with an empty list, that they have begun to listen: then the others repeat what they await. Until
// it has heard that, a process announces changes of records to all.
//
// The server wakes all listening connections for each notification, whatever its channel, so that
// few notifications matter more than short ones: see the announcer of internal/rows.
//
// Notifications are hints. They are sent after commits and not in them: NOTIFY takes a lock that
// is held until the transaction ends, and would have all commits of all processes wait for one
// another's syncs. Close returns when the last ones are sent. A process that dies before that, within
// announceEvery of a commit as a rule, has told nobody, and the others find out by polling.
const (
	everything       = "*"
	maxNotification  = 7500 // PostgreSQL allows 8,000 bytes
	maxNotifications = 16   // some thousand partitions and records

	// announceEvery is how long announcements are gathered into one statement.
	announceEvery = 2 * time.Millisecond

	// learnTime is how long a process has to listen until it knows what the others await.
	learnTime = 2 * time.Second
)

// announcer gathers announcements, and sends them from a goroutine of its own.
type announcer struct {
	db   *database
	wake chan struct{} // with room for one

	mu      sync.Mutex
	all     *contents           // for all processes
	to      map[int64]*contents // for one, by its number
	watches map[int64]bool      // records that this process awaits
}

// contents is what notifications say.
type contents struct {
	due      map[int64]int64
	records  map[int64]bool
	reserved map[rows.ID]int64 // the partitions of keys
}

func newContents() *contents {
	return &contents{due: map[int64]int64{}, records: map[int64]bool{}, reserved: map[rows.ID]int64{}}
}

func (c *contents) empty() bool { return len(c.due)+len(c.records)+len(c.reserved) == 0 }

func newAnnouncer(d *database) *announcer {
	return &announcer{db: d, wake: make(chan struct{}, 1), all: newContents(), to: map[int64]*contents{}, watches: map[int64]bool{}}
}

// Announce sends hints to other processes. While this process is alone it sends nothing: a
// process that opens the store queries for everything by itself.
func (d *database) Announce(a *rows.Announcement) {
	if d.config.notify && !d.Alone() {
		d.announcer.add(a)
	}
}

// Watch asks other processes to announce changes of records to this one.
func (d *database) Watch(records []int64) {
	if d.config.notify && !d.Alone() {
		d.announcer.watch(records)
	}
}

// Hinted reports whether the listening connection is up.
func (d *database) Hinted() bool { return d.hinted.Load() }

// knowsAwaited reports whether this process has listened for long enough to know which records the
// others await.
func (d *database) knowsAwaited() bool {
	since := d.listening.Load()
	return d.Hinted() && since != nil && d.machine.Now().Sub(*since) >= learnTime
}

func (a *announcer) add(n *rows.Announcement) {
	awaited := map[int64]map[int64]bool{}
	a.db.peers.of(n.Records, awaited)
	toAll := a.db.peers.deaf.Load() || !a.db.knowsAwaited()
	a.mu.Lock()
	defer a.mu.Unlock()
	for partition, at := range n.Due {
		if known, ok := a.all.due[partition]; !ok || at < known {
			a.all.due[partition] = at
		}
	}
	if toAll {
		for _, number := range n.Records {
			a.all.records[number] = true
		}
	}
	for process, keys := range n.Reserved {
		for _, k := range keys {
			a.contentsFor(process).reserved[k.Key] = k.Partition
		}
	}
	for process, records := range awaited {
		for number := range records {
			a.contentsFor(process).records[number] = true
		}
	}
	a.wakeIf(!a.all.empty() || len(a.to) > 0)
}

// contentsFor returns what is gathered for a process. The caller holds the lock.
func (a *announcer) contentsFor(process int64) *contents {
	c := a.to[process]
	if c == nil {
		c = newContents()
		a.to[process] = c
	}
	return c
}

func (a *announcer) watch(records []int64) {
	a.mu.Lock()
	defer a.mu.Unlock()
	for _, number := range records {
		a.watches[number] = true
	}
	a.wakeIf(len(a.watches) > 0)
}

func (a *announcer) wakeIf(gathered bool) {
	if !gathered {
		return
	}
	select {
	case a.wake <- struct{}{}:
	default:
	}
}

// run sends what was gathered, until ctx ends. The rest is sent when the store is closed (leave).
// The end of ctx does not cancel what is being sent: a process that commits and closes at once
// would tell nobody.
func (a *announcer) run(ctx context.Context) {
	for {
		select {
		case <-a.wake:
		case <-ctx.Done():
			return
		}
		a.send(context.WithoutCancel(ctx))
		if base.Sleep(ctx, a.db.machine, announceEvery) != nil {
			return
		}
	}
}

// send sends what was gathered, if there is anything. If that fails, or takes longer than leaveTime,
// the other processes find out by polling.
func (a *announcer) send(ctx context.Context) {
	ctx, cancel := context.WithTimeout(ctx, leaveTime)
	defer cancel()
	channels, payloads := a.take()
	if len(channels) == 0 {
		return
	}
	if err := a.db.read(ctx, notify, []any{channels, payloads}, drain); err != nil {
		a.db.log.Warn("notification of other processes failed", "error", err)
	}
}

// take returns the notifications of what was gathered, with their channels.
func (a *announcer) take() (channels, payloads []string) {
	a.mu.Lock()
	all, to, watches := a.all, a.to, a.watches
	a.all, a.to, a.watches = newContents(), map[int64]*contents{}, map[int64]bool{}
	a.mu.Unlock()
	schema := a.db.config.schema
	add := func(channel string, list []string) {
		for _, payload := range list {
			channels, payloads = append(channels, channel), append(payloads, payload)
		}
	}
	if !all.empty() {
		add(channel(schema), all.encode(a.db.process, maxNotifications))
	}
	for process, c := range to {
		add(ownChannel(schema, process), c.encode(a.db.process, maxNotifications))
	}
	if len(watches) > 0 {
		c := contents{records: watches}
		add(watchChannel(schema), c.encode(a.db.process, maxInterest))
	}
	return channels, payloads
}

// channel is the name of the channel of a schema, ownChannel that of a process, and watchChannel
// the one on which processes say what they await.
func channel(schema string) string {
	return "abide_" + strconv.FormatUint(uint64(rows.TenantOf(schema)), 36)
}

func ownChannel(schema string, process int64) string {
	return channel(schema) + "_" + strconv.FormatUint(uint64(process), 36)
}

func watchChannel(schema string) string { return channel(schema) + "_watch" }

// notify sends notifications.
const notify = `SELECT pg_notify(c, p) FROM unnest($1::text[], $2::text[]) AS u (c, p)`

// encode returns the notifications that say it, or one that says that anything may have changed if
// there would be more than most.
func (c *contents) encode(process string, most int) (hints []string) {
	b := []byte(process + " ")
	begin := len(b)
	add := func(item string) {
		if len(b) > begin && len(b)+len(item)+1 > maxNotification {
			hints = append(hints, string(b))
			b = b[:begin]
		}
		if len(b) > begin {
			b = append(b, ',')
		}
		b = append(b, item...)
	}
	for partition, at := range c.due {
		add(strconv.FormatInt(partition, 36) + "@" + strconv.FormatInt(at, 36))
	}
	for number := range c.records {
		add("#" + strconv.FormatInt(number, 36))
	}
	for key, partition := range c.reserved {
		add(strconv.FormatInt(partition, 36) + "!" + base64.RawURLEncoding.EncodeToString(key[:]))
	}
	if hints = append(hints, string(b)); len(hints) > most {
		return []string{process + " " + everything}
	}
	return hints
}

// decodeHint returns the contents of a notification and its sender. One that cannot be decoded
// may be of a newer program: it says that anything may have changed.
func decodeHint(payload string) (process string, h rows.Hint) {
	process, list, _ := strings.Cut(payload, " ")
	h.Due = map[int64]int64{}
	for item := range strings.SplitSeq(list, ",") {
		if !decodeItem(item, &h) {
			return process, rows.Hint{}
		}
	}
	return process, h
}

// decodeItem adds an item of a notification to a hint, and reports whether it could be decoded.
func decodeItem(item string, h *rows.Hint) bool {
	if digits, ok := strings.CutPrefix(item, "#"); ok {
		number, err := strconv.ParseInt(digits, 36, 64)
		h.Records = append(h.Records, number)
		return err == nil
	}
	i := strings.IndexAny(item, "@!")
	if i < 0 {
		return false
	}
	partition, err := strconv.ParseInt(item[:i], 36, 64)
	if err != nil {
		return false
	}
	if item[i] == '@' {
		h.Due[partition], err = strconv.ParseInt(item[i+1:], 36, 64)
		return err == nil
	}
	key, err := base64.RawURLEncoding.DecodeString(item[i+1:])
	if err != nil || len(key) != len(rows.ID{}) {
		return false
	}
	h.Reserved = append(h.Reserved, rows.Reservation{Partition: partition, Key: rows.ID(key)})
	return true
}

// Bounds of the delay before the next attempt to connect.
const (
	reconnectLeast = 50 * time.Millisecond
	reconnectMost  = 5 * time.Second
)

// listen passes notifications of other processes to the core, on a connection of its own, until
// ctx ends. After each connect the core is told that anything may have changed, because
// notifications that were sent before are lost; and again when the connection is lost, so that it
// polls at short intervals from then on.
func (s *Store) listen(ctx context.Context) {
	pause := s.db.pause()
	for ctx.Err() == nil {
		err := s.listenOnce(ctx, pause)
		s.db.hinted.Store(false)
		if ctx.Err() != nil {
			return
		}
		s.Hint(rows.Hint{})
		s.db.log.Warn("listening connection lost, polling", "error", err)
		if pause.Sleep(ctx) != nil {
			return
		}
	}
}

func (s *Store) listenOnce(ctx context.Context, pause *backoff.Pause) error {
	conn, err := s.db.config.connect(ctx)
	if err != nil {
		return err
	}
	defer func() { _ = conn.Close(context.WithoutCancel(ctx)) }() // it has nothing to say
	schema := s.db.config.schema
	for _, name := range []string{channel(schema), ownChannel(schema, s.db.number), watchChannel(schema)} {
		if _, err := conn.Exec(ctx, "LISTEN "+pgx.Identifier{name}.Sanitize()); err != nil {
			return err
		}
	}
	if _, err := conn.Exec(ctx, s.db.text.sql(noteListening), s.db.process, watchChannel(schema)); err != nil {
		return err
	}
	s.db.listening.Store(new(s.db.machine.Now()))
	s.db.hinted.Store(true)
	pause.Reset()
	s.Hint(rows.Hint{})
	for {
		n, err := conn.WaitForNotification(ctx)
		if err != nil {
			return err
		}
		process, hint := decodeHint(n.Payload)
		switch {
		case process == s.db.process:
		case n.Channel == watchChannel(schema) && len(hint.Records) == 0:
			s.db.peers.alone.Store(false)
			s.db.peers.readSoon()
			s.Rewatch()
		case n.Channel == watchChannel(schema):
			s.db.peers.add(processNumber(process), hint.Records, s.db.machine.Now())
		default:
			s.Hint(hint)
		}
	}
}
