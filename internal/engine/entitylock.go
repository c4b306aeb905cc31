package engine

import (
	"encoding/json"
	"slices"
	"time"

	"github.com/abidehq/abide/history"
	"github.com/abidehq/abide/internal/base"
	"github.com/abidehq/abide/store"
)

// lockSet is a request for the locks of entities: those that are not released yet.
type lockSet struct {
	ids     []string
	since   time.Time // of the turn that requested them
	granted bool
}

// noteLock adds an event about locks to the ledger.
func (l *ledger) noteLock(e *history.Event) {
	set := l.locks[e.Ref]
	switch {
	case e.Kind == history.EntityLockRequested:
		l.addOpen(e)
		if l.locks == nil {
			l.locks = map[int32]*lockSet{}
		}
		ids, _ := lockIDs(e.Data) // decide has refused what cannot be read
		l.locks[e.ID] = &lockSet{ids: ids, since: base.Later(l.now, e.At)}
	case e.Kind == history.EntityLocked:
		delete(l.open, e.Ref)
		if set != nil {
			set.granted = true
		}
	case e.Target == "":
		delete(l.open, e.Ref)
		delete(l.locks, e.Ref)
	case set != nil:
		if set.ids = slices.DeleteFunc(set.ids, func(id string) bool { return sameEntity(id, e.Target) }); len(set.ids) == 0 {
			delete(l.locks, e.Ref)
		}
	}
}

// sameEntity reports whether two IDs are those of one entity.
func sameEntity(a, b string) bool {
	one, err := entityRef("", a)
	other, err2 := entityRef("", b)
	return err == nil && err2 == nil && one == other
}

// lockIDs returns the IDs of a request for locks, in order and without duplicates.
func lockIDs(data []byte) ([]string, error) {
	var ids []string
	if err := json.Unmarshal(data, &ids); err != nil {
		return nil, err
	}
	for i, id := range ids {
		ref, err := entityRef("", id)
		if err != nil {
			return nil, err
		}
		ids[i] = ref.ID
	}
	slices.Sort(ids)
	return slices.Compact(ids), nil
}

// operate sends an operation to an entity.
func (t *turn) operate(e *history.Event) error {
	msg, err := t.operation(e)
	if err != nil {
		return stallf("operation %q of an entity: %v", e.Name, err)
	}
	t.tx.Put = append(t.tx.Put, msg)
	t.e.suspectUnserved(QueueEntities, msg.Route)
	return nil
}

// operation returns the message to the entity of an operation.
func (t *turn) operation(e *history.Event) (store.Message, error) {
	info := &t.in.info
	to, err := entityRef(info.Tenant, e.Target)
	if err != nil {
		return store.Message{}, err
	}
	m := entityMessage{kind: entitySignal, name: e.Name, input: e.Data, from: info.ID, run: info.run, event: e.ID, request: t.requestOf(e)}
	if e.Kind == history.EntityCalled {
		m.kind = entityCall
	}
	return to.entityMessage(messageID(prefixOperated, info.run, e.ID), &m, e.At), nil
}

// requestOf returns the ID of an operation or a request for locks: that which the code gave it, or one that is
// made of its run and event.
func (t *turn) requestOf(e *history.Event) string {
	if e.Foreign != nil && e.Foreign.Request != "" {
		return e.Foreign.Request
	}
	return messageID(prefixOperated, t.in.info.run, e.ID)
}

// lock sends a request for locks to the first of the entities. A request for none is granted at once.
func (t *turn) lock(e *history.Event) error {
	info := &t.in.info
	ids, err := lockIDs(e.Data)
	if err != nil {
		return stallf("request for locks of entities: %v", err)
	}
	if len(ids) > MaxEntityLocks {
		return stallf("limit: it locks %d entities at once, at most %d are allowed", len(ids), MaxEntityLocks)
	}
	if len(ids) == 0 {
		t.tx.Put = append(t.tx.Put, lockGranted(info.Ref, info.run, e.ID))
		return nil
	}
	m := entityMessage{kind: entityLock, from: info.ID, run: info.run, event: e.ID, request: t.requestOf(e), set: ids}
	msg := Ref{Tenant: info.Tenant, ID: ids[0]}.entityMessage(messageID(prefixOperated, info.run, e.ID), &m, e.At)
	t.tx.Put = append(t.tx.Put, msg)
	t.e.suspectUnserved(QueueEntities, msg.Route)
	return nil
}

// lockGranted returns the message that tells an instance that its locks are granted.
func lockGranted(to Ref, run uint64, event int32) store.Message {
	b := body{kind: bodyEvents, run: run, events: []history.Event{{Kind: history.EntityLocked, Ref: event}}}
	return store.Message{Key: to.key(), ID: messageID(prefixEntity, run, event), IfRouted: true, Body: b.encode()}
}

// unlock releases one lock of a request, or withdraws the request. What is not locked by it stays as it is.
func (t *turn) unlock(e *history.Event, set *lockSet) {
	switch {
	case set == nil:
	case e.Target == "":
		t.releaseLocks(e.Ref, set)
	default:
		if to, err := entityRef("", e.Target); err == nil {
			t.sendUnlock(e.Ref, []string{to.ID})
		}
	}
}

// releaseLocks releases what is left of a request. See entity.go for why a request that was not granted is
// followed along its way.
func (t *turn) releaseLocks(event int32, set *lockSet) {
	switch {
	case len(set.ids) == 0:
	case !set.granted:
		t.sendUnlock(event, set.ids)
	default:
		for _, id := range set.ids {
			t.sendUnlock(event, []string{id})
		}
	}
}

// sendUnlock sends a release to the first of the entities, which passes it on to the next ones.
func (t *turn) sendUnlock(event int32, set []string) {
	info := &t.in.info
	m := entityMessage{kind: entityUnlock, from: info.ID, run: info.run, event: event, set: set}
	t.tx.Put = append(t.tx.Put, Ref{Tenant: info.Tenant, ID: set[0]}.entityMessage(messageID(prefixUnlock, info.run, event), &m, noTime))
}
