package engine

import (
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

// forgetParent makes the instance one that has no parent any more.
func (i *Info) forgetParent() {
	i.Parent, i.ParentExecution, i.ParentEvent, i.parentRun = "", 0, 0, 0
}

// answerParent sends the result of an instance that this turn ends to its parent.
func (t *turn) answerParent() {
	info := &t.in.info
	if !t.ends || info.Parent == "" {
		return
	}
	answer := history.Event{Kind: history.ChildCompleted, Ref: info.ParentEvent, Data: info.Result}
	if info.Status != Completed {
		answer = history.Event{Kind: history.ChildFailed, Ref: info.ParentEvent, Failure: info.Failure}
	}
	b := body{kind: bodyEvents, run: info.parentRun, events: []history.Event{answer}}
	t.tx.Put = append(t.tx.Put, store.Message{
		Key: Ref{Tenant: info.Tenant, ID: info.Parent}.key(), ID: messageID(prefixChild, info.parentRun, info.ParentEvent),
		IfRouted: true, Body: b.encode(),
	})
}
