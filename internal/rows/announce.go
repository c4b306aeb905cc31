package rows

import (
	"strconv"
	"strings"
	"sync"
	"time"

	"github.com/abidehq/abide/internal/base"
)

// Announcement is what a process tells others after a commit.
type Announcement struct {
	// Due are partitions, with the earliest time at which something can be claimed there. They
	// are for all processes.
	Due map[int64]int64

	// Reserved are keys that the commit has reserved for other processes, by the number of the
	// process that each is for.
	Reserved map[int64][]Reservation

	// Records are the numbers of the records that have changed. They are for processes that
	// await them.
	Records []int64
}

// Empty reports whether there is nothing to tell.
func (a *Announcement) Empty() bool { return len(a.Due)+len(a.Reserved)+len(a.Records) == 0 }

// Hint is what other processes have announced to this one. The zero hint says that anything may
// have changed: hints were lost, or do not arrive any more.
type Hint struct {
	Due      map[int64]int64
	Reserved []Reservation
	Records  []int64
}

// Reservation is a key that is reserved for a process, and its partition.
type Reservation struct {
	Partition int64
	Key       ID
}

// A process holds the keys whose logs it appended to last: it has their instances in memory, and
// every other process would have to read the log first. So a commit of another process that puts
// a message to such a key does not make it ready, but reserves it for its holder: it leases it for
// reservation, with a token that says for whom, and announces it to the holder alone. The holder
// leases it in turn (LeaseRequest.Reserved). If it does not, because it is busy, suspended or gone,
// the reservation ends like any lease, and the key is anybody's. Nothing was delivered with it, so
// that no attempt is counted.
const reservation = 250 * time.Millisecond

// reservationMark begins the token of a reservation. No other token does: see store.OwnedToken.
const reservationMark = "\n"

// ReservedFor returns the token of keys that are reserved for a process.
func ReservedFor(process int64) string {
	return reservationMark + strconv.FormatInt(process, 36)
}

// IsReservation reports whether a token is that of a reservation, and not of a lease.
func IsReservation(token string) bool { return strings.HasPrefix(token, reservationMark) }

// hold makes the process the holder of the keys whose logs a group appends to, and reserves keys
// that the group makes ready for the processes that hold them.
func (p *plan) hold(db Database) (reserved map[int64][]Reservation) {
	process := db.Process()
	if process == 0 {
		return nil
	}
	for _, k := range p.keys {
		if !k.alive || !k.dirty {
			continue
		}
		if len(k.log) > 0 {
			k.row.Holder = process
		}
		holder := k.row.Holder
		if holder == 0 || holder == process || !k.becameReady(p.now, ReservedFor(holder)) || !db.Present(holder) {
			continue
		}
		if k.row.Token == "" {
			k.row.Token, k.row.Until, k.row.Delivered = ReservedFor(holder), p.now+reservation.Milliseconds(), nil
		}
		if reserved == nil {
			reserved = map[int64][]Reservation{}
		}
		reserved[holder] = append(reserved[holder], Reservation{k.row.Partition(), k.row.ID})
	}
	return reserved
}

// becameReady reports whether the group put a visible message to a key that has a route, is not
// leased, except with the reservation of a token, and was not ready before.
func (k *keyWork) becameReady(now int64, token string) bool {
	if k.row.Route == "" || k.row.Token != "" && k.row.Token != token || k.exists && k.stored.Count > 0 && k.stored.At() <= now {
		return false
	}
	for _, m := range k.fresh {
		if !m.gone && m.Visible <= now {
			return true
		}
	}
	return false
}

// announcer decides what other processes are told of the commits of this one. Each message to
// them costs all of them, so that what they need not know is left out:
//
//   - Something is ready, and no call of this process asks for its partition: all are told at once.
//   - Something is ready, and calls of this process ask for it: they get it as a rule. The others
//     are told after helpAfter if it is still there.
//   - Something is due later, at the end of a lease, say: all are told, so that it is not late if
//     this process is gone by then, unless they have been told of an earlier time for the partition,
//     and will query then.
//
// A message that is lost costs a delay until the next poll.
type announcer struct {
	*env
	claims *claimer

	mu    sync.Mutex
	told  map[int64]told     // by partition
	later map[int64]struct{} // partitions of which others are perhaps told, if help is set
	help  bool               // a timer is set for that
}

// told is the earliest time that others were told of, and when they were.
type told struct {
	due int64
	at  int64
}

const (
	// helpAfter is how long calls of this process have for what is ready, before others are told.
	helpAfter = 50 * time.Millisecond

	// tellAgain is how long others count as told: a process that has opened the store since was not.
	tellAgain = 10 * time.Second

	// maxTold is how many partitions are remembered.
	maxTold = 10_000
)

func newAnnouncer(e *env, claims *claimer) *announcer {
	return &announcer{env: e, claims: claims, told: map[int64]told{}, later: map[int64]struct{}{}}
}

// committed announces a durable group. It is called under no lock.
func (a *announcer) committed(now int64, due map[int64]int64, reserved map[int64][]Reservation, records []int64) {
	if a.db.Alone() {
		return // a process that opens the store queries for everything by itself
	}
	out := &Announcement{Due: make(map[int64]int64, len(due)), Reserved: reserved, Records: records}
	asked := a.claims.askedFor(due, now)
	a.mu.Lock()
	for id, at := range due {
		switch known, ok := a.told[id]; {
		case at <= now && asked[id]:
			a.later[id] = struct{}{}
		case at > now && ok && known.due > now && known.due <= at && now-known.at < tellAgain.Milliseconds():
		default:
			a.tell(out, id, at, now)
		}
	}
	if len(a.later) > 0 && !a.help {
		a.help = true
		base.System{}.AfterFunc(helpAfter, a.askForHelp)
	}
	a.mu.Unlock()
	if !out.Empty() {
		a.db.Announce(out)
	}
}

// tell adds a partition to an announcement. The caller holds the lock.
func (a *announcer) tell(out *Announcement, id, at, now int64) {
	out.Due[id] = at
	if len(a.told) >= maxTold {
		clear(a.told)
	}
	a.told[id] = told{due: at, at: now}
}

// askForHelp announces what has been ready for a while, and is still there.
func (a *announcer) askForHelp() {
	if a.life.check(a.life.ctx, "announce") != nil {
		return
	}
	a.mu.Lock()
	later := a.later
	a.later, a.help = map[int64]struct{}{}, false
	a.mu.Unlock()
	now := a.time.now()
	out := &Announcement{Due: map[int64]int64{}}
	for id := range later {
		if a.claims.overdue(id, now) {
			out.Due[id] = now
		}
	}
	if !out.Empty() && !a.db.Alone() {
		a.db.Announce(out)
	}
}

// askedFor returns those partitions with something ready that calls of this process ask for. It
// takes the lock.
func (c *claimer) askedFor(due map[int64]int64, now int64) map[int64]bool {
	c.mu.Lock()
	defer c.mu.Unlock()
	asked := make(map[int64]bool, len(due))
	for id, at := range due {
		p := c.partitions[id]
		if p == nil || at > now {
			continue
		}
		for _, s := range p.subscriptions {
			asked[id] = asked[id] || s.users > 0
		}
	}
	return asked
}

// overdue reports whether something can be claimed in a partition, as far as is known. It takes
// the lock.
func (c *claimer) overdue(id, now int64) bool {
	c.mu.Lock()
	defer c.mu.Unlock()
	p := c.partitions[id]
	return p == nil || p.next <= now
}
