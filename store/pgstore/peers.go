package pgstore

import (
	"context"
	"slices"
	"sync"
	"sync/atomic"
	"time"

	"github.com/jackc/pgx/v5"

	"github.com/abidehq/abide/internal/rows"
)

// peers is what is known of the other processes that have the store open. Each update reads how
// many there are (readClock); when that changes, when one begins to listen, and with each heartbeat,
// their numbers are read.
type peers struct {
	alone atomic.Bool // there was no other at the last update, and none has begun to listen since

	mark atomic.Pointer[peersMark]
	soon chan struct{} // with room for one: the numbers are to be read

	present atomic.Pointer[map[int64]bool] // numbers of those that listen
	deaf    atomic.Bool                    // one of them cannot say which records it awaits
	interest
}

// peersMark changes when a process comes or goes.
type peersMark struct {
	count  int
	opened int64 // when the last of them opened the store
}

func newPeers() *peers {
	p := &peers{soon: make(chan struct{}, 1)}
	p.interest.young = map[int64][]int64{}
	return p
}

// note notes what an update has read.
func (p *peers) note(m peersMark) {
	p.alone.Store(m.count == 0)
	if last := p.mark.Load(); last != nil && *last == m {
		return
	}
	p.mark.Store(&m)
	p.readSoon()
}

// readSoon has the numbers of the others read.
func (p *peers) readSoon() {
	select {
	case p.soon <- struct{}{}:
	default:
	}
}

const (
	// The connection of a process that was killed is gone long before the process counts as dead.
	readPeers = `SELECT p.number, EXISTS (SELECT FROM pg_stat_activity a WHERE a.pid = p.backend) FROM {schema}.processes p
WHERE p.id <> $1::text AND p.seen > clock_timestamp() - $2::int8 * interval '1 millisecond'`

	// What a process says when it begins to listen.
	noteListening = `WITH noted AS (UPDATE {schema}.processes SET backend = pg_backend_pid() WHERE id = $1::text)
SELECT pg_notify($2::text, $1::text || ' ')`
)

// meet reads the numbers of the other processes each time that one has come or gone, until ctx
// ends.
func (d *database) meet(ctx context.Context) {
	for {
		select {
		case <-d.peers.soon:
		case <-ctx.Done():
			return
		}
		if err := d.readPeers(ctx); err != nil && ctx.Err() == nil {
			d.log.Warn("other processes not read", "error", err)
			d.peers.mark.Store(nil) // the next update has them read again
		}
	}
}

func (d *database) readPeers(ctx context.Context) error {
	present, deaf, others := map[int64]bool{}, false, false
	err := d.read(ctx, d.text.sql(readPeers), []any{d.process, d.presence.gone.Milliseconds()}, func(r pgx.Rows) error {
		clear(present)
		var number *int64
		var listens bool
		_, err := pgx.ForEachRow(r, []any{&number, &listens}, func() error {
			others = true
			switch {
			case number == nil:
				deaf = true
			case *number != 0 && listens:
				present[*number] = true
			}
			return nil
		})
		return err
	})
	if others {
		d.peers.alone.Store(false)
	}
	if err == nil {
		d.peers.present.Store(&present)
		d.peers.deaf.Store(deaf)
	}
	return err
}

// Alone reports whether no other process has the store open, as of the last update.
func (d *database) Alone() bool { return d.peers.alone.Load() }

// Process returns the number of this process: 0 if it does not listen.
func (d *database) Process() int64 { return d.number }

// Present reports whether a process listens.
func (d *database) Present(process int64) bool {
	present := d.peers.present.Load()
	return present != nil && (*present)[process]
}

// processNumber returns the number of a process. Two processes with the same number would wake
// each other in vain.
func processNumber(id string) int64 { return rows.TenantOf(id) }

// interest is which records other processes await, as they have said: by the number of the record,
// the numbers of the processes. It is two generations of interestTime each, after which a process
// has said so again.
type interest struct {
	mu         sync.Mutex
	young, old map[int64][]int64
	began      time.Time // of the young generation
}

const (
	interestTime = time.Minute
	maxInterest  = 200_000 // records of a generation
)

// add notes that a process awaits records.
func (i *interest) add(process int64, records []int64, now time.Time) {
	i.mu.Lock()
	defer i.mu.Unlock()
	if now.Sub(i.began) > interestTime || len(i.young) > maxInterest {
		i.young, i.old, i.began = map[int64][]int64{}, i.young, now
	}
	for _, number := range records {
		if !slices.Contains(i.young[number], process) {
			i.young[number] = append(i.young[number], process)
		}
	}
}

// of adds records to those that are to be announced to each process, for the processes that await
// them.
func (i *interest) of(records []int64, to map[int64]map[int64]bool) {
	i.mu.Lock()
	defer i.mu.Unlock()
	if len(i.young)+len(i.old) == 0 {
		return
	}
	for _, number := range records {
		for _, list := range [][]int64{i.young[number], i.old[number]} {
			for _, process := range list {
				if to[process] == nil {
					to[process] = map[int64]bool{}
				}
				to[process][number] = true
			}
		}
	}
}
