package engine

import (
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/abidehq/abide/history"
	"github.com/abidehq/abide/store"
)

func TestGateMessagesAreRead(t *testing.T) {
	t.Parallel()
	m := gateMessage{
		kind: gateEnter, work: "a/x", limits: under(), since: time.UnixMilli(5).UTC(), declared: time.UnixMilli(6).UTC(), priority: -3, entry: 4, claimed: true,
		admits: store.Message{Key: store.Key{Queue: "q", Tenant: "acme", Name: "n"}, ID: "i", Route: "r", Body: []byte("b")},
	}
	got, err := decodeGateMessage(m.encode(), "acme")
	if err != nil || fmt.Sprint(got) != fmt.Sprint(m) {
		t.Errorf("got %+v and %v, want %+v", got, err, m)
	}
	data := m.encode()
	for n := range data {
		if _, err := decodeGateMessage(data[:n], "acme"); err == nil {
			t.Errorf("%d bytes of %d were read", n, len(data))
		}
	}
	later := slices.Clone(data)
	later[0]++
	_, err = decodeGateMessage(later, "")
	checkErr(t, err, errLater)
	m.kind = gateLook + 1
	_, err = decodeGateMessage(m.encode(), "")
	checkErr(t, err, errLater)
}

func TestLimitsOfLimits(t *testing.T) {
	t.Parallel()
	good := history.Limit{Name: "n", Concurrency: 1}
	long := strings.Repeat("k", MaxLimitKey)
	for _, tc := range []struct {
		words  string
		change func(*history.Limit)
	}{
		{"", func(*history.Limit) {}},
		{"", func(l *history.Limit) { l.Concurrency = MaxConcurrency }},
		{"1 to 10000", func(l *history.Limit) { l.Concurrency = MaxConcurrency + 1 }},
		{"1 to 10000", func(l *history.Limit) { l.Concurrency = -1 }},
		{"neither", func(l *history.Limit) { l.Concurrency = 0 }},
		{"", func(l *history.Limit) { l.Concurrency, l.Rate, l.Per = 0, MaxRate, time.Millisecond }},
		{"1 to 1000000", func(l *history.Limit) { l.Rate, l.Per = MaxRate+1, time.Second }},
		{"a millisecond", func(l *history.Limit) { l.Rate, l.Per = 1, time.Microsecond }},
		{"", func(l *history.Limit) { l.Rate, l.Per, l.Burst = 1, MaxPer, MaxRate }},
		{"burst", func(l *history.Limit) { l.Rate, l.Per, l.Burst = 1, MaxPer, MaxRate+1 }},
		{"without a rate", func(l *history.Limit) { l.Burst = 1 }},
		{"no key", func(l *history.Limit) { l.Keyed = true }},
		{"has no keys", func(l *history.Limit) { l.Key = "k" }},
		{"", func(l *history.Limit) { l.Keyed, l.Key = true, long }},
		{"512", func(l *history.Limit) { l.Keyed, l.Key = true, long+"k" }},
		{"UTF-8", func(l *history.Limit) { l.Keyed, l.Key = true, "\xff" }},
		{"slash", func(l *history.Limit) { l.Name = "a/b" }},
		{"empty", func(l *history.Limit) { l.Name = "" }},
	} {
		l := good
		tc.change(&l)
		err := CheckLimit(&l)
		switch {
		case tc.words == "" && err != nil:
			t.Errorf("%+v: %v", l, err)
		case tc.words != "":
			checkErr(t, err, ErrInvalid, tc.words)
		}
	}
	many := slices.Repeat([]history.Limit{good}, MaxLimits)
	if err := CheckLimits(many, MaxPriority); err != nil {
		t.Error(err)
	}
	checkErr(t, CheckLimits(append(many, good), 0), ErrInvalid, "at most 8")
	checkErr(t, CheckLimits(nil, MaxPriority+1), ErrInvalid, "-100 to 100")
}

func TestRecordsOfLimitsAreRead(t *testing.T) {
	t.Parallel()
	gate := gateState{
		limit: history.Limit{Name: "user", Keyed: true, Key: "a/b"}, holders: []gateHolder{{work: "a/x", entry: 3, until: time.UnixMilli(5).UTC(), at: time.UnixMilli(3).UTC(), missed: true}, {work: "i/y", at: time.UnixMilli(4).UTC()}},
		waiting: 3, head: time.UnixMilli(7).UTC(), next: 12345, look: time.UnixMilli(8).UTC(), admitted: 5, version: 2,
	}
	put := gate.put("acme", time.UnixMilli(9))
	put.Record.Version = 2
	got, err := gateOf(put.Record)
	if err != nil || fmt.Sprint(got) != fmt.Sprint(gate) {
		t.Errorf("got %+v and %v, want %+v", got, err, gate)
	}
	limit := limitState{
		name: "user", declared: under()[0], declaredAt: time.UnixMilli(3).UTC(), hasDeclared: true, set: under()[0], hasSet: true, paused: true,
		changedAt: time.UnixMilli(4).UTC(), by: "ann", version: 3,
	}
	put = limit.put("acme")
	put.Record.Version = 3
	read, err := limitOf(put.Record)
	if err != nil || fmt.Sprint(read) != fmt.Sprint(limit) {
		t.Errorf("got %+v and %v, want %+v", read, err, limit)
	}
	for _, broken := range []store.Record{{Body: []byte{gateFormat, gateFieldHolder, 9}}, {Body: []byte{gateFormat, limitFieldDeclared, 1, 0}}, {}} {
		if _, err := gateOf(broken); err == nil && len(broken.Body) != 4 {
			t.Errorf("gate %x was read", broken.Body)
		}
		if _, err := limitOf(broken); err == nil {
			t.Errorf("limit %x was read", broken.Body)
		}
	}
	info := Info{Ref: Ref{ID: "i"}, Limits: under(), Priority: -7, Admitted: true, workRun: 9, covered: []string{"a", "b/c"}, Execution: 1, run: 4}
	r := info.putRecord(0).Record
	back, err := infoOf(r)
	if err != nil || fmt.Sprint(back.Limits, back.Priority, back.Admitted, back.workRun, back.covered) != fmt.Sprint(info.Limits, info.Priority, info.Admitted, info.workRun, info.covered) {
		t.Errorf("got %+v and %v", back, err)
	}
}
