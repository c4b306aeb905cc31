package engine

import (
	"encoding/binary"
	"strings"
	"testing"
	"time"

	"github.com/abidehq/abide/history"
	"github.com/abidehq/abide/store"
)

// laterBodies are messages as a later release might write them.
func laterBodies() map[string][]byte {
	wake := body{kind: bodyWake}
	flags := wake.encode()
	flags[10] = 0x40
	format := wake.encode()
	format[0] = bodyFormat + 1
	event := body{kind: bodyEvents, events: []history.Event{{Kind: 1_000, Name: "later"}}}
	return map[string][]byte{
		"kind": (&body{kind: bodyAdmit + 1}).encode(), "flag": flags, "format": format, "event": event.encode(),
		"kind with something behind it": binary.AppendUvarint((&body{kind: bodyAdmit + 1}).encode(), 7),
	}
}

// count returns how many lines have these words.
func (l *lines) count(words string) int {
	l.mu.Lock()
	defer l.mu.Unlock()
	return strings.Count(l.text.String(), words)
}

// TestMessageOfALaterReleaseIsLeft to a process that knows it, uncounted and for a while;
// then it goes to quarantine. The log says so once.
func TestMessageOfALaterReleaseIsLeft(t *testing.T) {
	for name, data := range laterBodies() {
		for _, queue := range []string{queueTurns, queueControl} {
			t.Run(name+" in "+queue, func(t *testing.T) {
				inBubble(t, func(r *rig) {
					l := &lines{}
					r.flow("flow", waiter)
					r.serve(l.configure)
					r.begin("i", "flow", "")
					r.pass(time.Second)
					m := store.Message{Key: Ref{ID: "i"}.key(), ID: "later", Body: data}
					if queue == queueControl {
						m.Key, m.Route = Ref{ID: "i"}.control(), routeControl
					}
					put := func() { r.must(r.tape.Commit(r.Context(), &store.Tx{Put: []store.Message{m}})) }
					put()
					r.pass(DefaultUnknown / 2)
					want(r, "quarantined", len(r.quarantined()), 0)
					want(r, "pending", len(r.pending(m.Key)), 1)
					want(r, "attempt", r.pending(m.Key)[0].Attempt <= 1, true)
					// One that knows it takes it.
					r.must(r.tape.Commit(r.Context(), &store.Tx{Delete: []store.MessageRef{{Key: m.Key, ID: m.ID}}}))
					r.pass(DefaultUnknown)
					want(r, "log lines", l.count("claim left to a later release"), 1)
					put()
					r.pass(DefaultUnknown / 2)
					want(r, "quarantined", len(r.quarantined()), 0)
					r.pass(DefaultUnknown/2 + time.Minute)
					want(r, "quarantined", len(r.quarantined()), 1)
					want(r, "reason", r.quarantined()[0].Status, ReasonUndecodable)
					want(r, "log lines", l.count("claim left to a later release"), 2)
					r.raise("i", "go", "x")
					want(r, "result", r.result("i"), "x")
				})
			})
		}
	}
}

// TestHistoryOfALaterReleaseIsLeft for a while; then the instance stalls, and another
// build may resume it.
func TestHistoryOfALaterReleaseIsLeft(t *testing.T) {
	inBubble(t, func(r *rig) {
		r.flow("flow", waiter)
		r.serve(build("1"))
		r.begin("i", "flow", "")
		r.pass(time.Second)
		r.shut()
		length := len(r.events("i"))
		later := history.Append(nil, &history.Event{ID: int32(length + 1), Kind: 1_000})
		r.must(r.tape.Commit(r.Context(), &store.Tx{Append: []store.Append{{Key: Ref{ID: "i"}.key(), At: length, Entries: [][]byte{later}}}}))
		r.serve(build("1"))
		r.raise("i", "go", "x")
		r.pass(DefaultUnknown / 2)
		want(r, "status", r.info("i").Status, Running)
		r.pass(DefaultUnknown/2 + time.Minute)
		info := r.info("i")
		want(r, "status", info.Status, Stalled)
		want(r, "reason", strings.Contains(info.Reason, "undecodable history: event"), true)
		want(r, "another build may resume it", info.trial.resumable("2"), true)
		want(r, "this build may not", info.trial.resumable("1"), false)
	})
}
