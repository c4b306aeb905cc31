package engine

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"time"

	"github.com/abidehq/abide/history"
	"github.com/abidehq/abide/store"
)

// Limits of a purge: how many instances are deleted in one commit, and listed at once.
const (
	purgeBatch = 100
	purgePage  = 200
)

// Purge deletes an instance that has ended, with its history. If recursive, it also deletes those that it
// started as children and that have ended, and theirs: as far as they are known from the histories of its
// current and its previous execution, which are kept. It returns how many were deleted, [ErrState] if the
// instance has not ended, and [ErrNotFound] if there is none.
//
// Children are deleted before their parent: a purge that was interrupted is repeated with the same call.
func (c *Client) Purge(ctx context.Context, ref Ref, recursive bool) (n int, err error) {
	info, err := c.Get(ctx, ref)
	if err != nil {
		return 0, err
	}
	if !info.Status.Ended() {
		return 0, fmt.Errorf("abide: purge: %v is %s; only an instance that has ended can be deleted: %w", ref, info.Status, ErrState)
	}
	p := purge{c: c, recursive: recursive, path: map[Ref]bool{}}
	err = p.add(ctx, info)
	if err == nil {
		err = p.flush(ctx)
	}
	return p.n, wrap("purge", err)
}

// PurgeFilter says which instances to purge. Only those that have ended are.
type PurgeFilter struct {
	Tenant    *string   // nil means all
	Statuses  []Status  // empty means all; statuses that are no end match nothing
	From, To  time.Time // when they were started
	Recursive bool      // see [Client.Purge]

	// Limit is how many instances match at most, and Timeout for how long the call looks for more; 0 means
	// no limit.
	Limit   int
	Timeout time.Duration
}

// PurgeWhere deletes the instances that match, a page after the other, in commits of purgeBatch. It returns
// how many were deleted, children included, and whether none is left: if not, the limit or the timeout was
// reached, and the next call goes on.
func (c *Client) PurgeWhere(ctx context.Context, f PurgeFilter) (n int, done bool, err error) {
	statuses := f.Statuses
	if len(statuses) == 0 {
		statuses = Statuses
	}
	statuses = slices.DeleteFunc(slices.Clone(statuses), func(s Status) bool { return !s.Ended() })
	if len(statuses) == 0 {
		return 0, true, nil
	}
	p := purge{c: c, recursive: f.Recursive, path: map[Ref]bool{}}
	query := Query{Tenant: f.Tenant, Statuses: statuses, From: f.From, To: f.To, Limit: purgePage}
	if f.Limit > 0 {
		query.Limit = min(f.Limit, purgePage)
	}
	done, err = p.walk(ctx, query, &f)
	if err == nil {
		err = p.flush(ctx)
	}
	return p.n, done && err == nil, wrap("purge", err)
}

// walk adds the instances of a query, until the limit or the timeout of the filter is reached. It reports
// whether that was all of them.
func (p *purge) walk(ctx context.Context, query Query, f *PurgeFilter) (all bool, err error) {
	began, matched := p.c.clock.Now(), 0
	for {
		infos, next, err := p.c.List(ctx, query)
		if err != nil {
			return false, err
		}
		for i, info := range infos {
			if err := p.add(ctx, info); err != nil {
				return false, err
			}
			matched++
			if f.Limit > 0 && matched == f.Limit || f.Timeout > 0 && p.c.clock.Now().Sub(began) >= f.Timeout {
				return i == len(infos)-1 && next == "", nil
			}
		}
		if next == "" {
			return true, nil
		}
		query.Cursor = next
	}
}

// purge deletes instances in batches.
type purge struct {
	c         *Client
	recursive bool

	// path are the instances whose children are being looked for: one that is its own descendant, by an
	// ID that was used again, ends the search.
	path  map[Ref]bool
	batch []Info
	n     int // deleted so far
}

// add adds an instance that has ended to the batch, after its children.
func (p *purge) add(ctx context.Context, info Info) error {
	if p.recursive {
		if err := p.addChildren(ctx, &info); err != nil {
			return err
		}
	}
	p.batch = append(p.batch, info)
	if len(p.batch) < purgeBatch {
		return nil
	}
	return p.flush(ctx)
}

// addChildren adds the children of an instance that have ended.
func (p *purge) addChildren(ctx context.Context, info *Info) error {
	p.path[info.Ref] = true
	defer delete(p.path, info.Ref)
	children, err := p.c.childrenOf(ctx, info)
	if err != nil {
		return err
	}
	for _, id := range children {
		ref := Ref{Tenant: info.Tenant, ID: id}
		if p.path[ref] {
			continue
		}
		child, err := p.c.Get(ctx, ref)
		if errors.Is(err, ErrNotFound) {
			continue
		}
		if err != nil {
			return err
		}
		ours, err := p.c.isChild(ctx, &child, info)
		if err != nil {
			return err
		}
		if !ours || !child.Status.Ended() {
			continue
		}
		if err := p.add(ctx, child); err != nil {
			return err
		}
	}
	return nil
}

// flush deletes the batch. If an instance of it has changed meanwhile, each is read again and deleted alone.
func (p *purge) flush(ctx context.Context) error {
	if len(p.batch) == 0 {
		return nil
	}
	var tx store.Tx
	seen := map[Ref]bool{}
	for i := range p.batch {
		if info := &p.batch[i]; !seen[info.Ref] {
			seen[info.Ref] = true
			info.delete(&tx)
		}
	}
	err := p.c.store.Commit(ctx, &tx)
	if err == nil {
		p.n += len(seen)
	}
	if errors.Is(err, store.ErrConflict) {
		err = p.deleteEach(ctx)
	}
	p.batch = p.batch[:0]
	return err
}

// deleteEach deletes the instances of the batch one by one, but for those that are gone or have been
// started again.
func (p *purge) deleteEach(ctx context.Context) error {
	for i := range p.batch {
		info, err := p.c.Get(ctx, p.batch[i].Ref)
		if errors.Is(err, ErrNotFound) || err == nil && (!info.Status.Ended() || info.run != p.batch[i].run) {
			continue
		}
		if err != nil {
			return err
		}
		var tx store.Tx
		info.delete(&tx)
		err = p.c.store.Commit(ctx, &tx)
		if errors.Is(err, store.ErrConflict) {
			continue
		}
		if err != nil {
			return err
		}
		p.n++
	}
	return nil
}

// delete adds the deletion of the instance to a transaction.
func (i *Info) delete(tx *store.Tx) {
	tx.DeleteKeys = append(tx.DeleteKeys, i.Ref.key(), i.Ref.control())
	tx.DeleteRecords = append(tx.DeleteRecords, store.DeleteRecord{Key: i.Ref.record(), Expect: i.Revision})
}

// childrenOf returns the IDs of the children that the histories of an instance name, as far as they are kept.
func (c *Client) childrenOf(ctx context.Context, info *Info) ([]string, error) {
	var ids []string
	for entry, err := range store.Entries(ctx, c.store, info.Ref.key(), info.kept) {
		if err != nil {
			return nil, err
		}
		if e, err := history.Parse(entry); err == nil && e.Kind == history.ChildStarted {
			ids = append(ids, e.Target)
		}
	}
	return ids, nil
}

// isChild reports whether an instance was started by another one. One whose parent ended first has no parent
// any more; its history has.
func (c *Client) isChild(ctx context.Context, info, parent *Info) (bool, error) {
	if info.Parent != "" {
		return info.Parent == parent.ID, nil
	}
	e, err := c.startOf(ctx, info)
	return err == nil && e != nil && e.Start.Parent == parent.ID, err
}

// startOf returns the event that started the current execution of an instance, or nil if it has not begun.
func (c *Client) startOf(ctx context.Context, info *Info) (*history.Event, error) {
	for entry, err := range store.Entries(ctx, c.store, info.Ref.key(), info.offset) {
		if err != nil {
			return nil, err
		}
		if e, err := history.Parse(entry); err == nil && e.Kind == history.ExecutionStarted {
			return &e, nil
		}
	}
	return nil, nil
}
