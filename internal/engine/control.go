package engine

import (
	"slices"
	"time"

	"github.com/abidehq/abide/internal/history"
	"github.com/abidehq/abide/store"
)

// controls reports whether a message is about the instance and not for its code.
func (m *message) controls() bool {
	switch m.kind {
	case bodySuspend, bodyResume, bodyTerminate, bodyExpire, bodyOrphan, bodyParked, bodyWake:
		return true
	case bodyEvents:
		return len(m.events) == 1 && m.events[0].Kind == history.CancelRequested
	default:
		return false
	}
}

// control does what messages want that are about the instance and not for its code,
// and returns the others, the start first: it brings events that are older than those
// that wait for it.
func (t *turn) control(messages []message) ([]message, error) {
	info := &t.in.info
	var starts, rest []message
	resumed := false
	for _, m := range messages {
		switch m.kind {
		case bodySuspend:
			t.suspend(m.reason)
		case bodyResume:
			resumed = t.resume() || resumed
		case bodyTerminate:
			if info.Status.Ended() {
				continue
			}
			if err := t.load(); err != nil {
				return nil, err
			}
			t.end(&history.Event{Kind: history.ExecutionTerminated, Name: m.reason}, Terminated)
		case bodyExpire:
			if info.Status.Ended() && m.run == info.run {
				t.expire()
				return nil, nil
			}
		case bodyOrphan:
			info.Parent, info.ParentExecution, info.ParentEvent, info.parentRun = "", 0, 0, 0
			t.changed = true
		case bodyParked: // it has been claimed, so it is of no use any more
		case bodyStart:
			starts = append(starts, m)
		default:
			rest = append(rest, m)
		}
	}
	rest = append(starts, rest...)
	if resumed {
		t.freshen(rest)
	}
	return rest, nil
}

func (t *turn) suspend(reason string) {
	info := &t.in.info
	if info.Status.Ended() || info.Status.parked() {
		return
	}
	info.Before, info.Status, info.Reason, t.changed = info.Status, Suspended, reason, true
}

func (t *turn) resume() bool {
	info := &t.in.info
	if !info.Status.parked() {
		return false
	}
	info.Status, info.Before, info.Reason, t.changed = info.Before, "", "", true
	t.tx.Delete = append(t.tx.Delete, store.MessageRef{Key: t.claim.Key, ID: idParked})
	return true
}

// freshen puts messages again, so that what they went through before does not count
// any more. They stay in order, and are those of the next turn: this one only gives
// the instance its route back.
func (t *turn) freshen(messages []message) {
	t.fresh = true
	for _, m := range messages {
		fresh := *m.Message
		fresh.Route = ""
		t.tx.Put = append(t.tx.Put, fresh)
	}
}

// expire deletes the instance.
func (t *turn) expire() {
	t.expired = true
	t.tx = store.Tx{
		DeleteKeys:    []store.Key{t.claim.Key},
		DeleteRecords: []store.DeleteRecord{{Key: t.in.info.Ref.record(), Expect: store.AnyVersion}},
	}
	t.after = append(t.after, func() { t.e.count.Expired.Add(1) })
}

// farAway is when the message comes that nobody should ever see.
var farAway = time.Date(9999, 1, 1, 0, 0, 0, 0, time.UTC)

// parkedMessage keeps an instance from being claimed. Its messages wait.
func parkedMessage(key store.Key) store.Message {
	return store.Message{
		Key: key, ID: idParked, Route: routeParked, VisibleAt: farAway,
		Body: (&body{kind: bodyParked}).encode(),
	}
}

// route sees to it that the instance has the route that it should have.
func (t *turn) route() {
	info := &t.in.info
	route := info.Route()
	has := slices.ContainsFunc(t.tx.Put, func(m store.Message) bool { return m.Key == t.claim.Key && m.Route == route })
	switch {
	case info.Status.Ended():
	case info.Status.parked():
		t.tx.Put = append(t.tx.Put, parkedMessage(t.claim.Key))
	case t.claim.Route != route && !has:
		t.tx.Put = append(t.tx.Put, store.Message{
			Key: t.claim.Key, ID: idWake, Route: route, Body: (&body{kind: bodyWake, run: info.run}).encode(),
		})
	}
}
