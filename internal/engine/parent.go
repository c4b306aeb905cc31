package engine

import (
	"context"
	"errors"

	"github.com/abidehq/abide/history"
	"github.com/abidehq/abide/store"
)

// A parent that ends tells its children so, in their control queues, and a child that ends sends its result
// to its parent. Both may happen at the same time, and the parent may be deleted at any time after its end.
// So the result is sent with IfRouted: the commit that ends the child drops it if the parent is gone, and a
// parent that has ended but is kept acknowledges it. Without IfRouted, a message to a deleted parent would
// be the first of a key without a route, and wait there until its time to live is over.
//
// A child's ID is chosen by users, so the instance with that ID may not be the child any more: it was
// deleted and started again, by another parent or by none. Every control message to a child therefore names
// the run of the parent and the event that started the child (parentMark), and a child with another mark
// drops it.

// of reports whether the mark is that of the instance's parent.
func (p *parentMark) of(info *Info) bool {
	return info.Parent != "" && p.run == info.parentRun && p.event == info.ParentEvent
}

// setParent makes the instance a child of another one, which has started it by an event.
func (i *Info) setParent(parent *Info, event int32) {
	i.Parent, i.ParentExecution, i.ParentEvent, i.parentRun = parent.ID, parent.Execution, event, parent.run
}

// forgetParent makes the instance one that has no parent any more.
func (i *Info) forgetParent() {
	i.Parent, i.ParentExecution, i.ParentEvent, i.parentRun = "", 0, 0, 0
}

// parentAnswer is the result of an instance for its parent.
type parentAnswer struct {
	parent Ref
	id     string // of the message
	body   body
}

// answerParent notes the result of an instance that this turn ends for its parent. It is put as a
// message by putAnswer, unless it is fused with the turn that it causes.
func (t *turn) answerParent() {
	info := &t.in.info
	if !t.ends || info.Parent == "" {
		return
	}
	answer := history.Event{Kind: history.ChildCompleted, Ref: info.ParentEvent, Data: info.Result}
	if info.Status != Completed {
		answer = history.Event{Kind: history.ChildFailed, Ref: info.ParentEvent, Failure: info.Failure}
	}
	t.toParent = &parentAnswer{
		parent: Ref{Tenant: info.Tenant, ID: info.Parent}, id: messageID(prefixChild, info.parentRun, info.ParentEvent),
		body: body{kind: bodyEvents, run: info.parentRun, events: []history.Event{answer}},
	}
}

// putAnswer puts the message to the parent, if there is one.
func (t *turn) putAnswer() {
	if a := t.toParent; a != nil {
		t.tx.Put = append(t.tx.Put, store.Message{Key: a.parent.key(), ID: a.id, IfRouted: true, Body: a.body.encode()})
		t.toParent = nil
	}
}

// commitWithParent commits the turn. If it ends a child whose parent is cached here and waits, it is
// committed by the turn of the parent that takes the result: see fuse.go.
func (t *turn) commitWithParent(ctx context.Context) error {
	if a := t.toParent; a != nil && t.canFuseAnswer() {
		d := newDelivery(a.parent, a.id, &a.body)
		d.with = t.tx
		if err := t.e.fuser.at(a.parent.key()).deliver(ctx, d); !errors.Is(err, errNotFused) {
			return err
		}
	}
	t.putAnswer()
	return t.commitWithChildren(ctx)
}

// canFuseAnswer reports whether the end of this child may be committed with a turn of its parent. A turn
// that is tried again is not, so that code of the parent that kills the process is found as poison.
func (t *turn) canFuseAnswer() bool {
	if len(t.children) > 0 || !t.unclaimed && t.claim.Attempt() > 1 {
		return false
	}
	key := t.toParent.parent.key()
	f := t.e.fuser.at(key)
	info, cached := f.e.cache.peek(key)
	return cached && info.Status == Running && f.e.Serves(info.Route()) || !cached && f.running(key)
}
