package redisstore

import (
	"context"
	"errors"
	"fmt"
	"hash/fnv"
	"sync"
	"sync/atomic"
	"time"

	"github.com/abidehq/abide/store"
)

// segment is a part of a store that lies in one slot of a cluster: everything of its tenants,
// with its own indexes, leases, clock mark and queue of commits. A script works on one
// segment, and so does a commit.
//
// A store has a fixed number of segments, which is written into its header when it is
// created: one on a single server, [DefaultSegments] on a cluster. The first one has the
// prefix of the store as its hash tag, so a store with one segment is what a store was
// before there were segments.
type segment struct {
	index   int
	prefix  string // the hash tag, in braces, with which the names of all its keys begin
	commits commitQueue

	// expireAt is when a message without a route expires, by the ticker. Store.mu guards it.
	expireAt time.Time

	// master is the address of the node that served the segment last, or nil: see evalWait.
	master atomic.Pointer[string]
}

const (
	// DefaultSegments is the number of segments of a store that is created on a cluster.
	DefaultSegments = 24

	// MaxSegments is the largest number of segments of a store.
	MaxSegments = 1024

	// clusterSlots is how many slots a cluster has.
	clusterSlots = 16384
)

// newSegments returns the segments of a store with a prefix.
func newSegments(prefix string, n int) []*segment {
	list := make([]*segment, n)
	for i := range list {
		list[i] = &segment{index: i, prefix: "{" + segmentTag(prefix, i, n) + "}"}
	}
	return list
}

// segmentTag returns the hash tag of segment i of n: the prefix itself for the first, and
// prefix/i.j for the others, with the least j for which the slot of the tag is in the i-th of
// n equal parts of all slots. So the segments are spread evenly over masters that have
// contiguous ranges of slots, as masters of a new cluster do. A slash is not allowed in a
// prefix, so the segments of one store are not those of another.
//
// The tags are part of the format, and never change.
func segmentTag(prefix string, i, n int) string {
	if i == 0 {
		return prefix
	}
	for j := 0; ; j++ {
		tag := fmt.Sprintf("%s/%d.%d", prefix, i, j)
		if slotOf(tag)*n/clusterSlots == i {
			return tag
		}
	}
}

// slotOf returns the slot of a hash tag: CRC-16/XMODEM modulo the number of slots, as the
// specification of Redis Cluster says.
func slotOf(tag string) int {
	var crc uint16
	for i := range len(tag) {
		crc = crc<<8 ^ crcTable[byte(crc>>8)^tag[i]]
	}
	return int(crc % clusterSlots)
}

// crcTable has the remainders of all bytes.
var crcTable = func() (table [256]uint16) {
	for i := range table {
		crc := uint16(i) << 8 //nolint:gosec // less than 256
		for range 8 {
			if crc&0x8000 != 0 {
				crc = crc<<1 ^ 0x1021
			} else {
				crc <<= 1
			}
		}
		table[i] = crc
	}
	return table
}()

// segmentIndex returns the segment of a tenant, of n: FNV-1a with 64 bits of the tenant's
// bytes, its halves combined by exclusive or, modulo n. It is part of the format, and never
// changes.
func segmentIndex(tenant string, n int) int {
	if n == 1 {
		return 0
	}
	h := fnv.New64a()
	_, _ = h.Write([]byte(tenant)) // it never fails
	sum := h.Sum64()
	return int((sum>>32 ^ sum&0xffffffff) % uint64(n)) //nolint:gosec // less than n
}

// segmentOf returns the segment of a tenant.
func (s *Store) segmentOf(tenant string) *segment {
	return s.segments[segmentIndex(tenant, len(s.segments))]
}

// several reports whether the store has more than one segment.
func (s *Store) several() bool { return len(s.segments) > 1 }

// place returns the number of a tenant's segment.
func (s *Store) place(tenant string) int { return segmentIndex(tenant, len(s.segments)) }

// segmentOfTx returns the segment of all that a Tx changes. It returns [*store.ApartError] if
// there are several: a script, which is what makes a commit atomic, works on one slot.
func (s *Store) segmentOfTx(tx *store.Tx) (*segment, error) {
	if !s.several() {
		return s.segments[0], nil
	}
	var first string
	var found *segment
	for tenant := range tenantsOf(tx) {
		switch seg := s.segmentOf(tenant); {
		case found == nil:
			first, found = tenant, seg
		case seg != found:
			return nil, &store.ApartError{Tenants: [2]string{first, tenant}, Place: s.place}
		}
	}
	return found, nil
}

// tenantsOf returns the tenants that a Tx names, as often as it names them.
func tenantsOf(tx *store.Tx) func(yield func(tenant string) bool) {
	return func(yield func(string) bool) {
		for i := range tx.Finish {
			if !yield(tx.Finish[i].Lease.Key.Tenant) {
				return
			}
		}
		for i := range tx.DeleteKeys {
			if !yield(tx.DeleteKeys[i].Tenant) {
				return
			}
		}
		for i := range tx.Trim {
			if !yield(tx.Trim[i].Key.Tenant) {
				return
			}
		}
		for i := range tx.Append {
			if !yield(tx.Append[i].Key.Tenant) {
				return
			}
		}
		for i := range tx.Put {
			if !yield(tx.Put[i].Key.Tenant) {
				return
			}
		}
		for i := range tx.Retime {
			if !yield(tx.Retime[i].Ref.Key.Tenant) {
				return
			}
		}
		for i := range tx.Delete {
			if !yield(tx.Delete[i].Key.Tenant) {
				return
			}
		}
		for i := range tx.PutRecords {
			if !yield(tx.PutRecords[i].Record.Key.Tenant) {
				return
			}
		}
		for i := range tx.DeleteRecords {
			if !yield(tx.DeleteRecords[i].Key.Tenant) {
				return
			}
		}
	}
}

// forEach calls f for segments, concurrently if there are several, and returns the errors, each
// at the index of its segment in the list. The client sends what is for the same master
// together.
func forEach(list []*segment, f func(i int, seg *segment) error) []error {
	errs := make([]error, len(list))
	if len(list) == 1 {
		errs[0] = f(0, list[0])
		return errs
	}
	var calls sync.WaitGroup
	for i, seg := range list {
		calls.Go(func() { errs[i] = f(i, seg) })
	}
	calls.Wait()
	return errs
}

// forAll calls f for all segments, concurrently, and returns the first of their errors.
func (s *Store) forAll(f func(i int, seg *segment) error) error {
	for i, err := range forEach(s.segments, f) {
		if err != nil {
			return s.nameSegment(i, err)
		}
	}
	return nil
}

// nameSegment adds to an error which of several segments it is of.
func (s *Store) nameSegment(i int, err error) error {
	if !s.several() || errors.Is(err, context.Canceled) || errors.Is(err, context.DeadlineExceeded) {
		return err
	}
	return fmt.Errorf("%w (segment %d of %d)", err, i, len(s.segments))
}

// segmentsOf returns the segments that a query is about.
func (s *Store) segmentsOf(q *store.Query) []*segment {
	if q.Tenant != nil {
		return []*segment{s.segmentOf(*q.Tenant)}
	}
	return s.segments
}
