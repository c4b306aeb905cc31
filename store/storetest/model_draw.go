package storetest

import (
	"fmt"
	"strings"
	"time"

	"pgregory.net/rapid"

	"github.com/abidehq/abide/store"
)

// The world of the comparison is small, so that operations meet. One tenant is empty,
// and some names begin like others.
var (
	modelQueues  = []string{"turns", "tasks"}
	modelTenants = []string{"acme", ""}
	modelNames   = []string{"k", "ka", "kb", "l"}
	modelIDs     = []string{"m1", "m2", "m3", "m4", "m5"}
	modelRoutes  = []string{"a", "b"}

	modelKinds     = []string{"instance", "timer"}
	modelRecordIDs = []string{"r", "ra", "s"}
	modelStatuses  = []string{"running", "done", ""}
	modelLabels    = []string{"order", "mail", ""}

	modelKeys    = allKeys()
	modelRecords = allRecordKeys()
)

func allKeys() (keys []store.Key) {
	for _, queue := range modelQueues {
		for _, tenant := range modelTenants {
			for _, name := range modelNames {
				keys = append(keys, keyIn(queue, tenant, name))
			}
		}
	}
	return keys
}

func allRecordKeys() (keys []store.RecordKey) {
	for _, kind := range modelKinds {
		for _, tenant := range modelTenants {
			for _, id := range modelRecordIDs {
				keys = append(keys, store.RecordKey{Kind: kind, Tenant: tenant, ID: id})
			}
		}
	}
	return keys
}

// What is drawn from.

func pick[V any](t *rapid.T, from []V) V { return rapid.SampledFrom(from).Draw(t, "pick") }

// often is true four times out of five, and seldom once in ten times. Both shrink to
// what is harmless.
func often(t *rapid.T) bool  { return rapid.IntRange(0, 4).Draw(t, "often") < 4 }
func seldom(t *rapid.T) bool { return rapid.IntRange(0, 9).Draw(t, "seldom") == 9 }

// some draws up to three, and most often none.
func some[V any](t *rapid.T, f func(*rapid.T) V) []V {
	return several(t, pick(t, []int{0, 0, 0, 1, 1, 2, 3}), f)
}

func atLeastOne[V any](t *rapid.T, f func(*rapid.T) V) []V {
	return several(t, pick(t, []int{1, 1, 2, 3, 6}), f)
}

func several[V any](t *rapid.T, n int, f func(*rapid.T) V) (list []V) {
	for range n {
		list = append(list, f(t))
	}
	return list
}

// distinct drops what has the name of an earlier one.
func distinct[V any](list []V, name func(V) string) (kept []V) {
	seen := map[string]bool{}
	for _, v := range list {
		if n := name(v); !seen[n] {
			seen[n] = true
			kept = append(kept, v)
		}
	}
	return kept
}

// drawKey draws the first of all names most often, so that there is a lot going on
// under few keys.
func (c *comparison) drawKey(t *rapid.T) store.Key {
	return keyIn(
		pick(t, []string{modelQueues[0], modelQueues[0], modelQueues[0], modelQueues[1]}),
		pick(t, []string{modelTenants[0], modelTenants[0], modelTenants[1]}),
		pick(t, []string{modelNames[0], modelNames[0], modelNames[0], modelNames[1], modelNames[1], modelNames[2], modelNames[3]}),
	)
}

func (c *comparison) drawRef(t *rapid.T) store.MessageRef {
	return ref(c.drawKey(t), pick(t, modelIDs))
}

// drawTime draws a time around now, on a coarse grid so that many are the same, and
// sometimes between two milliseconds.
func (c *comparison) drawTime(t *rapid.T) time.Time {
	d := pick(t, []time.Duration{
		0, time.Millisecond, 2 * time.Millisecond, time.Second, 10 * time.Second,
		-time.Millisecond, -time.Second,
	})
	d += pick(t, []time.Duration{0, 0, 0, 0, 1, 999_999})
	return c.now().Add(d)
}

// drawVisibleAt draws a time that may also be the zero time, or before 1970.
func (c *comparison) drawVisibleAt(t *rapid.T) time.Time {
	switch rapid.IntRange(0, 11).Draw(t, "time") {
	case 0, 1, 2:
		return time.Time{}
	case 11:
		return time.Unix(-1, 0)
	}
	return c.drawTime(t)
}

// drawLength draws how long a lease lasts.
func drawLength(t *rapid.T) time.Duration {
	return pick(t, []time.Duration{time.Second, time.Millisecond, 5 * time.Millisecond, 5 * time.Second})
}

// drawBody makes a body that no other message or entry has, so that one cannot stand
// for another. Some are too large to be kept in memory for long.
func (c *comparison) drawBody(t *rapid.T) []byte {
	c.bodies++
	body := fmt.Sprintf("body %d", c.bodies)
	if seldom(t) {
		body += strings.Repeat(".", 2000)
	}
	return []byte(body)
}

func (c *comparison) drawMessage(t *rapid.T) store.Message {
	m := store.Message{
		Key: c.drawKey(t), ID: pick(t, modelIDs), Route: pick(t, []string{modelRoutes[0], "", modelRoutes[1]}),
		VisibleAt: c.drawVisibleAt(t), Body: c.drawBody(t),
		TTL: pick(t, []time.Duration{0, time.Millisecond, 2 * time.Second, 4500 * time.Microsecond}),
	}
	if seldom(t) { // what must be ignored
		m.Attempt, m.PutAt = 7, c.start.Add(-time.Hour)
	}
	return m
}

func (c *comparison) drawRetime(t *rapid.T) store.Retime {
	return store.Retime{Ref: c.drawRef(t), VisibleAt: c.drawVisibleAt(t)}
}

func (c *comparison) drawEntries(t *rapid.T) [][]byte {
	return several(t, pick(t, []int{1, 1, 2, 3}), c.drawBody)
}

// drawLease draws a lease that is live, if there is one, or lost, or of another key,
// or that never was.
func (c *comparison) drawLease(t *rapid.T) *pairedLease {
	kind := rapid.IntRange(0, 9).Draw(t, "lease")
	switch {
	case kind < 7 && len(c.live) > 0:
		return pick(t, c.live)
	case kind < 8 && len(c.claims) > 0:
		return pick(t, c.claims)
	case kind < 9 && len(c.claims) > 0:
		crossed := *pick(t, c.claims)
		crossed.key = c.drawKey(t)
		crossed.name += "(crossed)"
		return &crossed
	}
	return &pairedLease{name: "#(made up)", key: c.drawKey(t), backend: "made up", model: "made up"}
}

func (c *comparison) drawRequest(t *rapid.T) store.ClaimRequest {
	req := store.ClaimRequest{
		Queue:  pick(t, []string{modelQueues[0], modelQueues[0], modelQueues[0], modelQueues[1]}),
		Routes: pick(t, [][]string{{"a", "b"}, {"a"}, {"b"}, {"b", "nobody", "a"}, {"a", "a"}}),
		Max:    everything,
		Lease:  drawLength(t),
		// Nothing here waits: a claim that finds nothing says so.
		MaxMessages: 1,
		MaxAttempts: pick(t, []int{0, 3, 2, 1}),
	}
	if c.mix.messages > 1 {
		req.MaxMessages = rapid.IntRange(0, c.mix.messages).Draw(t, "messages")
	}
	if !often(t) { // then nothing may go to quarantine, since which keys were looked at is not known
		req.Max, req.MaxAttempts = rapid.IntRange(1, 3).Draw(t, "max"), 0
	}
	return req
}

func describeRequest(req *store.ClaimRequest) string {
	return fmt.Sprintf("%d of %s for %v, messages %d, attempts %d, lease %v",
		req.Max, req.Queue, req.Routes, req.MaxMessages, req.MaxAttempts, req.Lease)
}
