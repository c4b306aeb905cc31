package store_test

import (
	"errors"
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/abidehq/abide/store"
)

var (
	goodKey       = store.Key{Queue: "q", Tenant: "t", Name: "k"}
	goodRecordKey = store.RecordKey{Kind: "instance", Tenant: "t", ID: "r"}
	year10000     = time.Date(10_000, 1, 1, 0, 0, 0, 0, time.UTC)
)

// long returns a name of n bytes.
func long(n int) string { return strings.Repeat("x", n) }

// edge is a rule with a number in it: validate gives the verdict on a size, allowed
// are sizes that keep the rule and the rest are sizes that break it.
type edge struct {
	name     string
	validate func(n int) error
	allowed  []int
	tooLarge []int
	invalid  []int
}

func TestLimitsAtTheirEdges(t *testing.T) {
	t.Parallel()
	edges := append(keyEdges(), messageEdges()...)
	edges = append(edges, recordEdges()...)
	edges = append(edges, txEdges()...)
	edges = append(edges, requestEdges()...)
	for _, e := range edges {
		t.Run(e.name, func(t *testing.T) {
			t.Parallel()
			for _, n := range e.allowed {
				if err := e.validate(n); err != nil {
					t.Errorf("%d: %v, want it allowed", n, err)
				}
			}
			for _, n := range e.tooLarge {
				err := e.validate(n)
				if !errors.Is(err, store.ErrTooLarge) || !errors.Is(err, store.ErrInvalid) {
					t.Errorf("%d: %v, want ErrTooLarge, which matches ErrInvalid", n, err)
					continue
				}
				wantText(t, err, fmt.Sprintf("is %d, at most %d is allowed", n, n-1))
			}
			for _, n := range e.invalid {
				if err := e.validate(n); !errors.Is(err, store.ErrInvalid) || errors.Is(err, store.ErrTooLarge) {
					t.Errorf("%d: %v, want ErrInvalid and not ErrTooLarge", n, err)
				}
			}
		})
	}
}

func keyEdges() []edge {
	onKey := func(k store.Key) error {
		txs := []store.Tx{
			{Finish: []store.Finish{{Lease: store.Lease{Key: k}}}},
			{DeleteKeys: []store.Key{k}},
			{Trim: []store.Trim{{Key: k}}},
			{Append: []store.Append{{Key: k, Entries: [][]byte{nil}}}},
			{Put: []store.Message{{Key: k, ID: "m"}}},
			{Retime: []store.Retime{{Ref: store.MessageRef{Key: k, ID: "m"}}}},
			{Delete: []store.MessageRef{{Key: k, ID: "m"}}},
		}
		verdicts := []error{
			store.ValidateReadLog(k, 0), store.ValidatePending(k, 0),
			store.ValidateRenew(time.Minute, []store.Lease{{Key: k}}),
			(&store.Release{Lease: store.Lease{Key: k}}).Validate(),
		}
		for i := range txs {
			verdicts = append(verdicts, txs[i].Validate())
		}
		return unanimous(verdicts)
	}
	return []edge{
		{
			name:     "the queue of a key",
			validate: func(n int) error { return onKey(store.Key{Queue: long(n), Name: "k"}) },
			allowed:  []int{1, store.MaxQueue}, tooLarge: []int{store.MaxQueue + 1}, invalid: []int{0},
		},
		{
			name:     "the tenant of a key",
			validate: func(n int) error { return onKey(store.Key{Queue: "q", Tenant: long(n), Name: "k"}) },
			allowed:  []int{0, 1, store.MaxName}, tooLarge: []int{store.MaxName + 1},
		},
		{
			name:     "the name of a key",
			validate: func(n int) error { return onKey(store.Key{Queue: "q", Name: long(n)}) },
			allowed:  []int{1, store.MaxName}, tooLarge: []int{store.MaxName + 1}, invalid: []int{0},
		},
	}
}

// unanimous returns the verdict that all agree on, and an error that matches
// nothing if they do not.
func unanimous(verdicts []error) error {
	for _, v := range verdicts[1:] {
		if errors.Is(v, store.ErrInvalid) != errors.Is(verdicts[0], store.ErrInvalid) ||
			errors.Is(v, store.ErrTooLarge) != errors.Is(verdicts[0], store.ErrTooLarge) {
			return fmt.Errorf("not unanimous: %q", verdicts)
		}
	}
	return verdicts[0]
}

func messageEdges() []edge {
	onID := func(id string) error {
		return unanimous([]error{
			(&store.Tx{Put: []store.Message{{Key: goodKey, ID: id}}}).Validate(),
			(&store.Tx{Retime: []store.Retime{{Ref: store.MessageRef{Key: goodKey, ID: id}}}}).Validate(),
			(&store.Tx{Delete: []store.MessageRef{{Key: goodKey, ID: id}}}).Validate(),
		})
	}
	put := func(m store.Message) error {
		m.Key, m.ID = goodKey, "m"
		return (&store.Tx{Put: []store.Message{m}}).Validate()
	}
	onVisibleAt := func(t time.Time) error {
		retime := store.Retime{Ref: store.MessageRef{Key: goodKey, ID: "m"}, VisibleAt: t}
		return unanimous([]error{put(store.Message{VisibleAt: t}), (&store.Tx{Retime: []store.Retime{retime}}).Validate()})
	}
	return []edge{
		{
			name: "the ID of a message", validate: func(n int) error { return onID(long(n)) },
			allowed: []int{1, store.MaxName}, tooLarge: []int{store.MaxName + 1}, invalid: []int{0},
		},
		{
			name: "the route of a message", validate: func(n int) error { return put(store.Message{Route: long(n)}) },
			allowed: []int{0, store.MaxName}, tooLarge: []int{store.MaxName + 1},
		},
		{
			name: "the body of a message", validate: func(n int) error { return put(store.Message{Body: make([]byte, n)}) },
			allowed: []int{0, store.MaxBody}, tooLarge: []int{store.MaxBody + 1},
		},
		{
			name: "the TTL of a message", validate: func(n int) error { return put(store.Message{TTL: time.Duration(n)}) },
			allowed: []int{0, 1, int(store.MaxTTL)}, invalid: []int{-1, int(store.MaxTTL) + 1},
		},
		{
			name:     "VisibleAt, in milliseconds after the year 9999",
			validate: func(n int) error { return onVisibleAt(year10000.Add(time.Duration(n) * time.Millisecond)) },
			allowed:  []int{-1}, invalid: []int{0, 1},
		},
		{
			name:     "VisibleAt, in seconds after 1970",
			validate: func(n int) error { return onVisibleAt(time.Unix(int64(n), 0)) },
			allowed:  []int{-1 << 40, -1, 0, 1}, invalid: []int{1 << 40},
		},
	}
}

func recordEdges() []edge {
	onKey := func(k store.RecordKey) error {
		return unanimous([]error{
			store.ValidateGet(k),
			store.ValidateAwait(k, 0),
			(&store.Tx{PutRecords: []store.PutRecord{{Record: store.Record{Key: k}}}}).Validate(),
			(&store.Tx{DeleteRecords: []store.DeleteRecord{{Key: k, Expect: 1}}}).Validate(),
		})
	}
	put := func(r store.Record) error {
		r.Key = goodRecordKey
		return (&store.Tx{PutRecords: []store.PutRecord{{Record: r}}}).Validate()
	}
	return []edge{
		{
			name: "the kind of a record", validate: func(n int) error { return onKey(store.RecordKey{Kind: long(n), ID: "r"}) },
			allowed: []int{1, store.MaxQueue}, tooLarge: []int{store.MaxQueue + 1}, invalid: []int{0},
		},
		{
			name: "the tenant of a record", validate: func(n int) error { return onKey(store.RecordKey{Kind: "k", Tenant: long(n), ID: "r"}) },
			allowed: []int{0, store.MaxName}, tooLarge: []int{store.MaxName + 1},
		},
		{
			name: "the ID of a record", validate: func(n int) error { return onKey(store.RecordKey{Kind: "k", ID: long(n)}) },
			allowed: []int{1, store.MaxName}, tooLarge: []int{store.MaxName + 1}, invalid: []int{0},
		},
		{
			name: "the status of a record", validate: func(n int) error { return put(store.Record{Status: long(n)}) },
			allowed: []int{0, store.MaxName}, tooLarge: []int{store.MaxName + 1},
		},
		{
			name: "the name of a record", validate: func(n int) error { return put(store.Record{Name: long(n)}) },
			allowed: []int{0, store.MaxName}, tooLarge: []int{store.MaxName + 1},
		},
		{
			name: "the body of a record", validate: func(n int) error { return put(store.Record{Body: make([]byte, n)}) },
			allowed: []int{0, store.MaxRecord}, tooLarge: []int{store.MaxRecord + 1},
		},
		{
			name: "the number of tags", validate: func(n int) error { return put(store.Record{Tags: tags(n)}) },
			allowed: []int{0, store.MaxTags}, tooLarge: []int{store.MaxTags + 1},
		},
		{
			name: "the name of a tag", validate: func(n int) error { return put(store.Record{Tags: map[string]string{long(n): ""}}) },
			allowed: []int{0, store.MaxName}, tooLarge: []int{store.MaxName + 1},
		},
		{
			name: "the value of a tag", validate: func(n int) error { return put(store.Record{Tags: map[string]string{"a": long(n)}}) },
			allowed: []int{0, store.MaxName}, tooLarge: []int{store.MaxName + 1},
		},
		{
			name: "Time, in nanoseconds after 1970", validate: func(n int) error { return put(store.Record{Time: time.Unix(0, int64(n))}) },
			allowed: []int{0, 1}, invalid: []int{-1, -1_000_000},
		},
		{
			name:     "Time, in nanoseconds after the year 9999",
			validate: func(n int) error { return put(store.Record{Time: year10000.Add(time.Duration(n))}) },
			allowed:  []int{-1}, invalid: []int{0},
		},
		{
			name: "the version at which a record is put",
			validate: func(n int) error {
				p := store.PutRecord{Record: store.Record{Key: goodRecordKey}, Expect: int64(n)}
				return (&store.Tx{PutRecords: []store.PutRecord{p}}).Validate()
			},
			allowed: []int{int(store.AnyVersion), 0, 1, 1 << 40}, invalid: []int{-2},
		},
		{
			name: "the version at which a record is deleted",
			validate: func(n int) error {
				d := store.DeleteRecord{Key: goodRecordKey, Expect: int64(n)}
				return (&store.Tx{DeleteRecords: []store.DeleteRecord{d}}).Validate()
			},
			allowed: []int{int(store.AnyVersion), 1, 1 << 40}, invalid: []int{-2, 0},
		},
	}
}

func tags(n int) map[string]string {
	m := map[string]string{}
	for i := range n {
		m[fmt.Sprint(i)] = "v"
	}
	return m
}

func TestTheZeroTimeOfARecordIsAllowed(t *testing.T) {
	t.Parallel()
	tx := store.Tx{PutRecords: []store.PutRecord{{Record: store.Record{Key: goodRecordKey}}}}
	if err := tx.Validate(); err != nil {
		t.Error(err)
	}
}

func txEdges() []edge {
	return []edge{
		{
			name: "the size of an entry",
			validate: func(n int) error {
				a := store.Append{Key: goodKey, Entries: [][]byte{make([]byte, n)}}
				return (&store.Tx{Append: []store.Append{a}}).Validate()
			},
			allowed: []int{0, store.MaxBody}, tooLarge: []int{store.MaxBody + 1},
		},
		{
			name: "the number of entries",
			validate: func(n int) error {
				a := store.Append{Key: goodKey, Entries: make([][]byte, n)}
				return (&store.Tx{Append: []store.Append{a}}).Validate()
			},
			allowed: []int{1, store.MaxTxOps}, tooLarge: []int{store.MaxTxOps + 1}, invalid: []int{0},
		},
		{
			name: "the length at which to append",
			validate: func(n int) error {
				a := store.Append{Key: goodKey, At: n, Entries: [][]byte{nil}}
				return (&store.Tx{Append: []store.Append{a}}).Validate()
			},
			allowed: []int{0, 1 << 40}, invalid: []int{-1},
		},
		{
			name: "the index before which to trim",
			validate: func(n int) error {
				return (&store.Tx{Trim: []store.Trim{{Key: goodKey, Before: n}}}).Validate()
			},
			allowed: []int{0, 1 << 40}, invalid: []int{-1},
		},
		{
			name:     "the number of operations, of every kind",
			validate: func(n int) error { return txOfOps(n).Validate() },
			allowed:  []int{store.MaxTxOps}, tooLarge: []int{store.MaxTxOps + 1},
		},
		{
			name:     "the size of a Tx",
			validate: func(n int) error { return txOfBytes(n).Validate() },
			allowed:  []int{store.MaxTxBytes}, tooLarge: []int{store.MaxTxBytes + 1},
		},
	}
}

// txOfOps returns a Tx that does n things, of every kind.
func txOfOps(n int) *store.Tx {
	one := store.MessageRef{Key: goodKey, ID: "m"}
	tx := &store.Tx{
		Finish:        []store.Finish{{Lease: store.Lease{Key: goodKey}, Keep: []string{"a", "b"}}},
		DeleteKeys:    []store.Key{goodKey},
		Trim:          []store.Trim{{Key: goodKey}},
		Append:        []store.Append{{Key: goodKey, Entries: make([][]byte, 2)}},
		Put:           []store.Message{{Key: goodKey, ID: "m"}},
		Retime:        []store.Retime{{Ref: one}},
		PutRecords:    []store.PutRecord{{Record: store.Record{Key: goodRecordKey}}},
		DeleteRecords: []store.DeleteRecord{{Key: store.RecordKey{Kind: "k", ID: "other"}, Expect: 1}},
	}
	for range n - 11 {
		tx.Delete = append(tx.Delete, one)
	}
	return tx
}

// txOfBytes returns a Tx of n bytes: names, entries, and bodies of messages and
// records.
func txOfBytes(n int) *store.Tx {
	big := make([]byte, store.MaxBody)
	key := store.Key{Queue: "q", Name: "k"}
	tx := &store.Tx{
		Append:     []store.Append{{Key: key, Entries: [][]byte{big}}},
		PutRecords: []store.PutRecord{{Record: store.Record{Key: store.RecordKey{Kind: "k", ID: "r"}, Body: make([]byte, store.MaxRecord)}}},
	}
	n -= len(big) + 2 + store.MaxRecord + 2
	for i := 0; n > 0; i++ {
		m := store.Message{Key: key, ID: fmt.Sprintf("%02d", i), Route: "r"}
		m.Body = big[:min(len(big), n-5)]
		tx.Put = append(tx.Put, m)
		n -= len(m.Body) + 5
		if n > 0 && n < 5 { // too little for another message: the last one gives some
			last := &tx.Put[len(tx.Put)-1]
			last.Body = last.Body[:len(last.Body)-5]
			n += 5
		}
	}
	return tx
}

// TestSizeOfATx: what is counted is what is limited.
func TestSizeOfATx(t *testing.T) {
	t.Parallel()
	if ops, _, err := txOfOps(123).Size(); ops != 123 || err != nil {
		t.Errorf("of 123 things: %d, %v", ops, err)
	}
	if _, bytes, err := txOfBytes(20 << 20).Size(); bytes != 20<<20 || err != nil {
		t.Errorf("of 20 MiB: %d bytes, %v", bytes, err)
	}
	if ops, bytes, err := txOfOps(store.MaxTxOps + 1).Size(); ops != 0 || bytes != 0 || !errors.Is(err, store.ErrTooLarge) {
		t.Errorf("of what is too large: %d, %d, %v", ops, bytes, err)
	}
}
