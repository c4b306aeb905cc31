package engine

import (
	"errors"

	"github.com/abidehq/abide/internal/history"
	"github.com/abidehq/abide/store"
)

// A parent that ends tells its children so, in their control queue, and a child that ends
// tells its parent. Both may happen in the same moment, and the parent may be deleted in
// the next: then an answer would wait for nobody, and end in quarantine. So a child looks
// whether it is being told before it answers, and what tells it takes the answer back if
// it comes too late all the same.

// of reports whether the mark is that of the instance's parent.
func (p *parentMark) of(info *Info) bool {
	return info.Parent != "" && p.run == info.parentRun && p.event == info.ParentEvent
}

// forgetParent makes the instance one that has no parent any more.
func (i *Info) forgetParent() {
	i.Parent, i.ParentExecution, i.ParentEvent, i.parentRun = "", 0, 0, 0
}

// answerParent tells the parent how an instance has ended that this turn ends, unless the
// parent has ended first.
func (t *turn) answerParent() error {
	info := &t.in.info
	if !t.ends || info.Parent == "" {
		return nil
	}
	ended, err := t.parentHasEnded()
	if err != nil {
		return err
	}
	if ended {
		info.forgetParent()
		return nil
	}
	answer := history.Event{Kind: history.ChildCompleted, Ref: info.ParentEvent, Data: info.Result}
	if info.Status != Completed {
		answer = history.Event{Kind: history.ChildFailed, Ref: info.ParentEvent, Failure: info.Failure}
	}
	to := info.answer()
	t.send(refOf(to.Key), to.ID, body{kind: bodyEvents, run: info.parentRun, events: []history.Event{answer}})
	return nil
}

// answer names the message that tells the parent how the instance has ended.
func (i *Info) answer() store.MessageRef {
	return store.MessageRef{
		Key: Ref{Tenant: i.Tenant, ID: i.Parent}.key(),
		ID:  messageID(prefixChild, i.parentRun, i.ParentEvent),
	}
}

// parentHasEnded reports whether what tells the instance so waits to be applied.
func (t *turn) parentHasEnded() (bool, error) {
	info := &t.in.info
	asked, err := t.e.store.Pending(t.ctx, info.Ref.control(), 0)
	if err != nil {
		return false, err
	}
	for i := range asked {
		b, err := decodeBody(asked[i].Body)
		if err == nil && b.orphan && b.parent != nil && b.parent.of(info) {
			return true, nil
		}
	}
	return false, nil // what cannot be read is for the control queue to say
}

// takeBackAnswer deletes what an instance that has ended told a parent that is no more. A
// parent that is there, or another instance of its name, acknowledges it.
func (t *turn) takeBackAnswer() error {
	answer := t.in.info.answer()
	_, err := t.e.store.Get(t.ctx, refOf(answer.Key).record())
	if errors.Is(err, store.ErrNotFound) {
		t.tx.Delete = append(t.tx.Delete, answer)
		return nil
	}
	return err
}
