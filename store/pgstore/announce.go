package pgstore

import (
	"context"
	"strconv"
	"strings"
	"sync"
	"time"

	"github.com/jackc/pgx/v5"

	"github.com/abidehq/abide/internal/backoff"
	"github.com/abidehq/abide/internal/base"
	"github.com/abidehq/abide/internal/rows"
)

// A notification is the ID of the process that sent it, a space, and a list of what changed,
// separated by commas, with numbers in base 36: "partition@time" says that something can be
// claimed in a partition at a time, "#number" that a record has changed. A list that is too long
// for one notification is split; one that is too long for maxNotifications is sent as a star,
// which says that anything may have changed.
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
)

// announcer gathers announcements, and sends them from a goroutine of its own.
type announcer struct {
	db   *database
	wake chan struct{} // with room for one

	mu         sync.Mutex
	partitions map[int64]int64
	records    map[int64]bool
}

func newAnnouncer(d *database) *announcer {
	return &announcer{db: d, wake: make(chan struct{}, 1), partitions: map[int64]int64{}, records: map[int64]bool{}}
}

// Announce sends a hint to other processes. While this process is alone it sends nothing: a
// process that opens the store queries for everything by itself.
func (d *database) Announce(partitions map[int64]int64, records []int64) {
	if d.config.notify && !d.alone.Load() {
		d.announcer.add(partitions, records)
	}
}

// Hinted reports whether the listening connection is up.
func (d *database) Hinted() bool { return d.hinted.Load() }

// Alone reports whether no other process has the store open, as of the last update.
func (d *database) Alone() bool { return d.alone.Load() }

func (a *announcer) add(partitions map[int64]int64, records []int64) {
	a.mu.Lock()
	defer a.mu.Unlock()
	for partition, at := range partitions {
		if known, ok := a.partitions[partition]; !ok || at < known {
			a.partitions[partition] = at
		}
	}
	for _, number := range records {
		a.records[number] = true
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
	partitions, records := a.take()
	if len(partitions) == 0 && len(records) == 0 {
		return
	}
	args := []any{channel(a.db.config.schema), encodeHints(a.db.process, partitions, records)}
	if err := a.db.read(ctx, notify, args, drain); err != nil {
		a.db.log.Warn("notification of other processes failed", "error", err)
	}
}

func (a *announcer) take() (map[int64]int64, map[int64]bool) {
	a.mu.Lock()
	defer a.mu.Unlock()
	partitions, records := a.partitions, a.records
	a.partitions, a.records = map[int64]int64{}, map[int64]bool{}
	return partitions, records
}

// channel is the name of the channel of a schema.
func channel(schema string) string {
	return "abide_" + strconv.FormatUint(uint64(rows.TenantOf(schema)), 36)
}

// notify sends notifications.
const notify = `SELECT pg_notify($1::text, p) FROM unnest($2::text[]) AS u (p)`

// encodeHints returns the notifications that say what changed.
func encodeHints(process string, partitions map[int64]int64, records map[int64]bool) (hints []string) {
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
	for partition, at := range partitions {
		add(strconv.FormatInt(partition, 36) + "@" + strconv.FormatInt(at, 36))
	}
	for number := range records {
		add("#" + strconv.FormatInt(number, 36))
	}
	if hints = append(hints, string(b)); len(hints) > maxNotifications {
		return []string{process + " " + everything}
	}
	return hints
}

// decodeHint returns the contents of a notification and its sender. One that cannot be decoded
// may be of a newer program: it says that anything may have changed.
func decodeHint(payload string) (process string, partitions map[int64]int64, records []int64) {
	process, list, _ := strings.Cut(payload, " ")
	partitions = map[int64]int64{}
	for item := range strings.SplitSeq(list, ",") {
		if digits, ok := strings.CutPrefix(item, "#"); ok {
			number, err := strconv.ParseInt(digits, 36, 64)
			if err != nil {
				return process, nil, nil
			}
			records = append(records, number)
			continue
		}
		digits, time, _ := strings.Cut(item, "@")
		partition, err := strconv.ParseInt(digits, 36, 64)
		if err != nil {
			return process, nil, nil
		}
		if partitions[partition], err = strconv.ParseInt(time, 36, 64); err != nil {
			return process, nil, nil
		}
	}
	return process, partitions, records
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
		s.Hint(nil, nil)
		s.db.log.Warn("listening connection lost, polling", "error", err)
		if pause.Sleep(ctx) != nil {
			return
		}
	}
}

func (s *Store) listenOnce(ctx context.Context, pause *backoff.Pause) error {
	conn, err := pgx.ConnectConfig(ctx, s.db.config.conn)
	if err != nil {
		return err
	}
	defer func() { _ = conn.Close(context.WithoutCancel(ctx)) }() // it has nothing to say
	if _, err := conn.Exec(ctx, "LISTEN "+pgx.Identifier{channel(s.db.config.schema)}.Sanitize()); err != nil {
		return err
	}
	s.db.hinted.Store(true)
	pause.Reset()
	s.Hint(nil, nil)
	for {
		n, err := conn.WaitForNotification(ctx)
		if err != nil {
			return err
		}
		process, partitions, records := decodeHint(n.Payload)
		if process != s.db.process {
			s.Hint(partitions, records)
		}
	}
}
