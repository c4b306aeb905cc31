package roster

import (
	"encoding/hex"
	"reflect"
	"testing"
	"time"
)

var noon = time.Date(2026, 3, 1, 12, 0, 0, 0, time.UTC)

// TestWorkerFormat: what is written stays readable, and so does what a later release adds.
func TestWorkerFormat(t *testing.T) {
	t.Parallel()
	w := Worker{
		ID: "w1", Name: "till", Host: "shop", PID: 42, Version: "v1.2.3", StartedAt: noon, SeenAt: noon.Add(time.Hour),
		Routes: []string{"order", "order@2"}, Activities: []string{"charge"}, Entities: []string{"cart"}, Targets: []string{"run", "hook"}, Shared: []string{"run"}, Turns: 3, Running: 300,
		Build: "4f2a9c1", Pinned: []string{"order"}, Tenants: []string{"acme"}, TurnSlots: 200, RunSlots: 100, Cached: 7, State: Draining, Run: "p1",
	}
	const before = "010473686f702a0676312e322e33809494caca3303ac0202056f72646572076f7264657240320106636861726765"
	const build = before + "0734663261396331"
	const targets = build + "020372756e04686f6f6b"
	const shared = targets + "010372756e"
	const pinned = shared + "01056f72646572"
	const tenants = pinned + "010461636d65"
	const slots = tenants + "c801640702027031"
	const golden = slots + "010463617274"
	if got := hex.EncodeToString(w.encode()); got != golden {
		t.Errorf("written as %s, want %s", got, golden)
	}
	record := w.Put().Record
	if got := Parse(record); !reflect.DeepEqual(got, w) {
		t.Errorf("read %+v, want %+v", got, w)
	}
	record.Body = append(record.Body, "more"...)
	if got := Parse(record); !reflect.DeepEqual(got, w) {
		t.Errorf("with more: read %+v, want %+v", got, w)
	}
	known := Worker{ID: "w1", Name: "till", SeenAt: w.SeenAt}
	for n := range len(w.encode()) {
		record.Body = w.encode()[:n]
		if 2*n == len(before) || 2*n == len(build) || 2*n == len(targets) || 2*n == len(shared) || 2*n == len(pinned) || 2*n == len(tenants) || 2*n == len(slots) { // as it was written by earlier releases
			old := w
			old.Entities = nil
			if 2*n < len(slots) {
				old.TurnSlots, old.RunSlots, old.Cached, old.State, old.Run = 0, 0, 0, Serving, ""
			}
			if 2*n < len(tenants) {
				old.Tenants = nil
			}
			if 2*n < len(pinned) {
				old.Pinned = nil
			}
			if 2*n < len(shared) {
				old.Shared = nil
			}
			if 2*n < len(targets) {
				old.Targets = nil
			}
			if 2*n < len(build) {
				old.Build = ""
			}
			if got := Parse(record); !reflect.DeepEqual(got, old) {
				t.Errorf("of an earlier release: read %+v, want %+v", got, old)
			}
			continue
		}
		if got := Parse(record); !reflect.DeepEqual(got, known) {
			t.Errorf("with %d bytes: read %+v, want %+v", n, got, known)
		}
	}
	record.Body = append([]byte{format + 1}, w.encode()[1:]...)
	if got := Parse(record); !reflect.DeepEqual(got, known) {
		t.Errorf("of another format: read %+v, want %+v", got, known)
	}
}

// TestWorkerServes: a worker that is limited to tenants serves no others.
func TestWorkerServes(t *testing.T) {
	t.Parallel()
	all, some := Worker{Routes: []string{"order"}}, Worker{Routes: []string{"order"}, Tenants: []string{"acme", ""}}
	for _, tt := range []struct {
		w             *Worker
		route, tenant string
		want          bool
	}{
		{&all, "order", "acme", true}, {&all, "order", "beta", true}, {&all, "ship", "acme", false},
		{&some, "order", "acme", true}, {&some, "order", "", true}, {&some, "order", "beta", false}, {&some, "ship", "acme", false},
	} {
		if got := tt.w.Serves(tt.route, tt.tenant); got != tt.want {
			t.Errorf("a worker of %q serves %s of %q: %t, want %t", tt.w.Tenants, tt.route, tt.tenant, got, tt.want)
		}
	}
}
