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

// What is drawn from. To shrink a failure, rapid leaves out steps and parts of steps
// and lets the others draw the very same bits again. So that these still mean the
// same, how much is drawn never depends on what a store holds, and what can be left
// out is an element of a list.

func pick[V any](t *rapid.T, from []V) V { return rapid.SampledFrom(from).Draw(t, "pick") }

// pickAny picks from a list that may have any length, or returns what is given.
func pickAny[V any](t *rapid.T, from []V, otherwise V) V {
	n := rapid.IntRange(0, 255).Draw(t, "pick")
	if len(from) == 0 {
		return otherwise
	}
	return from[n%len(from)]
}

// often is true four times out of five, and seldom once in ten times.
func often(t *rapid.T) bool  { return rapid.IntRange(0, 4).Draw(t, "often") < 4 }
func seldom(t *rapid.T) bool { return rapid.IntRange(0, 9).Draw(t, "seldom") == 9 }

// some draws up to three, and often none.
func some[V any](t *rapid.T, f func(*rapid.T) V) []V { return between(t, 0, 3, f) }

func between[V any](t *rapid.T, least, most int, f func(*rapid.T) V) []V {
	return rapid.SliceOfN(rapid.Custom(f), least, most).Draw(t, "list")
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

// anyKey draws the first of all names most often, so that there is a lot going on
// under few keys.
func anyKey(t *rapid.T) store.Key {
	return keyIn(
		pick(t, []string{modelQueues[0], modelQueues[0], modelQueues[0], modelQueues[1]}),
		pick(t, []string{modelTenants[0], modelTenants[0], modelTenants[1]}),
		pick(t, []string{modelNames[0], modelNames[0], modelNames[0], modelNames[1], modelNames[1], modelNames[2], modelNames[3]}),
	)
}

// drawSubject draws a key that has a log, if there is one, or any.
func (c *comparison) drawSubject(t *rapid.T) store.Key {
	key := anyKey(t)
	if logged := pickAny(t, c.keysWithLogs(), key); rapid.Bool().Draw(t, "logged") {
		return logged
	}
	return key
}

// drawKey draws the subject of the plan, or another key.
func (c *comparison) drawKey(t *rapid.T) store.Key {
	key := anyKey(t)
	if rapid.Bool().Draw(t, "other") {
		return key
	}
	return c.subject
}

// drawRef draws a message that is pending, if there is one, or any.
func (c *comparison) drawRef(t *rapid.T) store.MessageRef {
	key, id := c.drawKey(t), pick(t, modelIDs)
	if pending := pickAny(t, idsOf(c.pending(key)), id); often(t) {
		id = pending
	}
	return ref(key, id)
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
	at := c.drawTime(t)
	switch rapid.IntRange(0, 11).Draw(t, "time") {
	case 0, 1, 2:
		return time.Time{}
	case 11:
		return time.Unix(-1, 0)
	}
	return at
}

// drawLength draws how long a lease lasts.
func drawLength(t *rapid.T) time.Duration {
	return pick(t, []time.Duration{time.Second, time.Millisecond, 20 * time.Second, 5 * time.Second, 5 * time.Millisecond})
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
		TTL:     pick(t, []time.Duration{0, time.Millisecond, 2 * time.Second, 4500 * time.Microsecond}),
		Attempt: 7, PutAt: c.start.Add(-time.Hour), // what must be ignored
	}
	if m.IfRouted = seldom(t); m.IfRouted {
		m.Route, m.TTL = "", 0
	}
	return m
}

func (c *comparison) drawRetime(t *rapid.T) store.Retime {
	return store.Retime{Ref: c.drawRef(t), VisibleAt: c.drawVisibleAt(t)}
}

func (c *comparison) drawEntries(t *rapid.T) [][]byte {
	return between(t, 1, 3, c.drawBody)
}

// drawLease draws a lease that is live, if there is one, or lost, or of another key,
// or that never was.
func (c *comparison) drawLease(t *rapid.T) *pairedLease {
	madeUp := &pairedLease{name: "#(made up)", key: c.drawKey(t), backend: "made up", model: "made up"}
	live, lost := pickAny(t, c.live, madeUp), pickAny(t, c.claims, madeUp)
	switch kind := rapid.IntRange(0, 9).Draw(t, "lease"); {
	case kind < 7:
		return live
	case kind < 8:
		return lost
	case kind < 9 && lost.key != madeUp.key:
		return &pairedLease{name: lost.name + "(crossed)", key: madeUp.key, backend: lost.backend, model: lost.model}
	}
	return madeUp
}

func (c *comparison) drawRequest(t *rapid.T) store.ClaimRequest {
	req := store.ClaimRequest{
		Queue:  pick(t, []string{modelQueues[0], modelQueues[0], modelQueues[0], modelQueues[1]}),
		Routes: pick(t, [][]string{{"a", "b"}, {"a"}, {"b"}, {"b", "nobody", "a"}, {"a", "a"}}),
		Max:    everything,
		Lease:  drawLength(t),

		MaxMessages: 1,
		MaxAttempts: pick(t, []int{0, 3, 2, 1}),
		Lax:         rapid.Bool().Draw(t, "lax"), // nobody else puts anything
		Owner:       pick(t, []string{"", "one", "another"}),
	}
	if rapid.IntRange(0, 3).Draw(t, "limited") == 0 {
		req.Tenants = between(t, 1, 2, func(t *rapid.T) string { return pick(t, append([]string{"nobody"}, modelTenants...)) })
	}
	if !c.oneByOne {
		req.MaxMessages = rapid.IntRange(0, 3).Draw(t, "messages")
	}
	if few := rapid.IntRange(1, 3).Draw(t, "max"); !often(t) {
		// Then nothing may go to quarantine: which keys are looked at is not known.
		req.Max, req.MaxAttempts = few, 0
	}
	return req
}

func describeRequest(req store.ClaimRequest) string {
	return fmt.Sprintf("%d of %s for %v, tenants %q, messages %d, attempts %d, lease %v, lax %t, owner %q",
		req.Max, req.Queue, req.Routes, req.Tenants, req.MaxMessages, req.MaxAttempts, req.Lease, req.Lax, req.Owner)
}
