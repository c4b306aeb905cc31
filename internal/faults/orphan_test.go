package faults_test

import (
	"context"
	"slices"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/abidehq/abide"
	"github.com/abidehq/abide/store"
)

// lateNews is a store with which an instance learns only after its last turn what was
// asked about it: nothing is claimed from the control queue before a turn of it has been
// committed that ends it.
type lateNews struct {
	store.Store
	of    string
	ended chan struct{}
	end   func()

	// A turn that ends the instance says so before it is committed, and waits until it may
	// go on.
	ending, goOn chan struct{}
}

func newLateNews(s store.Store, of string) *lateNews {
	n := &lateNews{Store: s, of: of, ended: make(chan struct{}), ending: make(chan struct{}, 100), goOn: make(chan struct{})}
	n.end = sync.OnceFunc(func() { close(n.ended) })
	return n
}

func (n *lateNews) Claim(ctx context.Context, req store.ClaimRequest) ([]store.Claim, error) {
	if req.Queue == "control" {
		select {
		case <-n.ended:
		case <-ctx.Done():
		}
	}
	return n.Store.Claim(ctx, req)
}

func (n *lateNews) Commit(ctx context.Context, tx *store.Tx) error {
	ends := slices.ContainsFunc(tx.PutRecords, func(p store.PutRecord) bool {
		return p.Record.Key.ID == n.of && p.Record.Status == string(abide.Completed)
	})
	if ends {
		n.ending <- struct{}{}
		<-n.goOn
	}
	err := n.Store.Commit(ctx, tx)
	if err == nil && ends {
		n.end()
	}
	return err
}

// engines opens an engine that serves the parent and one that serves the child. In one engine the two
// would go on in the same commits.
func (w *world) engines(s store.Store, child abide.Definition) {
	w.engine(s)
	w.serve = []abide.Definition{child}
	w.engine(s)
}

// endsMeanwhile has an instance end while the last turn of the other one waits to be
// committed.
func (w *world) endsMeanwhile(n *lateNews, id string) {
	w.t.Helper()
	select {
	case <-n.ending:
	case <-time.After(time.Hour):
		close(n.goOn)
		w.t.Fatal("the child does not end")
	}
	w.do(goEvent.Raise(w.t.Context(), w.client, id, 1))
	w.ended(id)
}

// nobodyIsWaitedFor checks that no message waits for a parent that is no more.
func (w *world) nobodyIsWaitedFor(parent string) {
	w.t.Helper()
	synctest.Wait()
	pending, err := w.store.Pending(w.t.Context(), store.Key{Queue: "turns", Name: parent}, 0)
	w.do(err)
	if len(pending) > 0 {
		w.t.Errorf("%d messages wait for a parent that is no more: %s", len(pending), pending[0].ID)
	}
	pending, err = w.store.Pending(w.t.Context(), store.Key{Queue: "control", Name: "c"}, 0)
	w.do(err)
	if len(pending) > 0 {
		w.t.Errorf("the child is still to be told %s", pending[0].ID)
	}
	page, err := w.store.List(w.t.Context(), store.Query{Kind: store.KindQuarantine})
	w.do(err)
	if len(page.Records) > 0 {
		w.t.Errorf("%d messages are in quarantine", len(page.Records))
	}
}

// abandoned are a child that does its work at once, and a parent that does not wait for
// it, each as an orchestration that says when.
func abandoned() (parent, child *abide.Orchestration[abide.None, string]) {
	child = abide.NewOrchestration("child", func(abide.Context, abide.None) (string, error) {
		return "done", nil
	})
	parent = abide.NewOrchestration("parent", func(ctx abide.Context, _ abide.None) (string, error) {
		child.Go(ctx, abide.None{}, abide.ID("c"), abide.OnParentClose(abide.AbandonChild))
		_, err := goEvent.Wait(ctx)
		return "gone", err
	})
	return parent, child
}

// TestOrphanEndsBeforeItIsTold: what tells a child that its parent has ended waits while
// the child's last turn is under way, and the parent was deleted before. The answer goes
// nowhere, and when the child is told it has no parent any more.
func TestOrphanEndsBeforeItIsTold(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		parent, child := abandoned()
		w := newWorld(t, parent)
		_, err := parent.Start(t.Context(), w.client, abide.None{}, abide.ID("p"))
		w.do(err)
		w.do(goEvent.Raise(t.Context(), w.client, "p", 1))
		news := newLateNews(w.store, "c")
		close(news.goOn)
		e := w.engine(news)
		w.ended("p")
		w.drain(e)
		w.do(w.client.Delete(t.Context(), abide.Ref{ID: "p"}))

		w.serve = []abide.Definition{parent, child}
		w.engine(news)
		info := w.ended("c")
		if got := result(info); got != `"done"` {
			t.Errorf("the child ended with %s", got)
		}
		w.nobodyIsWaitedFor("p")
		if info := w.ended("c"); info.Parent != "" {
			t.Errorf("it still has the parent %q", info.Parent)
		}
	})
}

// TestAnswerToADeletedParentIsDropped: the parent ends, and is deleted, before the child's
// last turn is committed.
func TestAnswerToADeletedParentIsDropped(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		parent, child := abandoned()
		w := newWorld(t, parent)
		news := newLateNews(w.store, "c")
		w.engines(news, child)
		_, err := parent.Start(t.Context(), w.client, abide.None{}, abide.ID("p"))
		w.do(err)
		w.endsMeanwhile(news, "p")
		w.do(w.client.Delete(t.Context(), abide.Ref{ID: "p"}))
		close(news.goOn)
		if got := result(w.ended("c")); got != `"done"` {
			t.Errorf("the child ended with %s", got)
		}
		w.nobodyIsWaitedFor("p")
	})
}

// TestAnswerIsLeftToAParentThatIsThere: a child that ended before its parent did is told
// too late, and its answer stays with the parent, which acknowledges it.
func TestAnswerIsLeftToAParentThatIsThere(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		parent, child := abandoned()
		w := newWorld(t, parent)
		news := newLateNews(w.store, "c")
		w.engines(news, child)
		_, err := parent.Start(t.Context(), w.client, abide.None{}, abide.ID("p"))
		w.do(err)
		w.endsMeanwhile(news, "p")
		close(news.goOn)
		w.ended("c")
		w.nobodyIsWaitedFor("p")
		pass(time.Minute)
		if got := result(w.ended("p")); got != `"gone"` {
			t.Errorf("the parent ended with %s", got)
		}
	})
}

// TestAnswerOfAChildThatIsDeletedBeforeItIsTold: neither the parent nor the child is there
// any more when the child would be told that its parent has ended.
func TestAnswerOfAChildThatIsDeletedBeforeItIsTold(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		parent, child := abandoned()
		w := newWorld(t, parent)
		news := newLateNews(w.store, "c")
		news.end = func() {} // the child is never told
		w.engines(news, child)
		_, err := parent.Start(t.Context(), w.client, abide.None{}, abide.ID("p"))
		w.do(err)
		w.endsMeanwhile(news, "p")
		w.do(w.client.Delete(t.Context(), abide.Ref{ID: "p"}))
		close(news.goOn)
		w.ended("c")
		w.do(w.client.Delete(t.Context(), abide.Ref{ID: "c"}))
		w.nobodyIsWaitedFor("p")
		pass(store.DefaultTTL + time.Hour)
		w.nobodyIsWaitedFor("p")
	})
}
