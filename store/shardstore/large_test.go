//go:build unix

package shardstore_test

import (
	"context"
	"fmt"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/abidehq/abide/internal/base"
	"github.com/abidehq/abide/internal/testenv"
	"github.com/abidehq/abide/store"
	"github.com/abidehq/abide/store/shardstore"
)

// TestALargeTenantMoves between two databases: its own commits wait for less than five seconds, and those
// of others go on. A long run moves 100,000 instances, in less than two minutes.
func TestALargeTenantMoves(t *testing.T) {
	t.Parallel()
	n := 2_000
	if testenv.Long() {
		n = 100_000
	}
	urls := pair(t)
	p, mover := system(t, urls, shardstore.Options{}), system(t, urls, shardstore.Options{Mover: true})
	const tenant = "acme"
	instances(t, p, tenant, n)
	to := other(p, tenant)
	var neighbour string
	for i := 0; neighbour == "" || p.Directory().Of(neighbour) != p.Directory().Of(tenant); i++ {
		neighbour = fmt.Sprint("neighbour-", i)
	}
	own, others := newProbe(t, p, tenant), newProbe(t, p, neighbour)
	clock := base.System{}
	before := others.rate(2 * time.Second)
	begun := clock.Now()
	commits := others.done.Load()
	var closed time.Duration
	ok(t, mover.Move(t.Context(), shardstore.OneTenant(tenant), to, func(p shardstore.Progress) { closed = max(closed, p.Closed) }))
	took := clock.Now().Sub(begun)
	during := float64(others.done.Load()-commits) / took.Seconds()
	own.stop()
	others.stop()
	t.Logf("%d instances moved in %v; closed for %v, a commit of its own took %v at most; others: %.0f commits/s before, %.0f meanwhile, %v at most",
		n, took.Round(time.Millisecond), closed.Round(time.Millisecond), own.longest().Round(time.Millisecond), before, during, others.longest().Round(time.Millisecond))
	if own.longest() > 5*time.Second {
		t.Errorf("a commit of the tenant took %v", own.longest())
	}
	if took > 2*time.Minute {
		t.Errorf("the move took %v", took)
	}
	count, err := p.Count(t.Context(), store.Query{Kind: "instance", Tenant: new(tenant)}, store.MaxCount)
	if err != nil || count != n {
		t.Errorf("the tenant has %d instances, %v; want %d", count, err, n)
	}
}

// instances puts instances as an engine has them while they wait for a timer: a record, a history, and a
// message for much later.
func instances(t testing.TB, s *shardstore.Store, tenant string, n int) {
	t.Helper()
	at := base.System{}.Now().Add(24 * time.Hour)
	body := make([]byte, 200)
	var tx store.Tx
	for i := range n {
		key := store.Key{Queue: "turns", Tenant: tenant, Name: fmt.Sprint("instance-", i)}
		tx.Append = append(tx.Append, store.Append{Key: key, Tag: uint64(i + 1), Route: "order@1", Entries: [][]byte{body, body}})
		tx.Put = append(tx.Put, store.Message{Key: key, ID: "timer", VisibleAt: at, Body: body[:64]})
		tx.PutRecords = append(tx.PutRecords, store.PutRecord{Record: store.Record{
			Key: store.RecordKey{Kind: "instance", Tenant: tenant, ID: key.Name}, Status: "running", Name: "order", Time: at, Body: body,
		}})
		if len(tx.Put) == 1000 || i == n-1 {
			ok(t, s.Commit(t.Context(), &tx))
			tx = store.Tx{}
		}
	}
}

// probe commits for a tenant, one commit after another, and notes how long the longest took.
type probe struct {
	cancel context.CancelFunc
	ended  sync.WaitGroup
	done   atomic.Int64
	most   atomic.Int64
}

func newProbe(t testing.TB, s *shardstore.Store, tenant string) *probe {
	ctx, cancel := context.WithCancel(context.Background())
	p := &probe{cancel: cancel}
	clock := base.System{}
	p.ended.Go(func() {
		for i := 0; ctx.Err() == nil; i++ {
			begun := clock.Now()
			if err := s.Commit(context.Background(), record(tenant, fmt.Sprint("probe-", i%100))); err != nil {
				t.Errorf("commit of %s: %v", tenant, err)
				return
			}
			p.done.Add(1)
			p.most.Store(max(p.most.Load(), int64(clock.Now().Sub(begun))))
		}
	})
	t.Cleanup(p.stop)
	return p
}

func (p *probe) longest() time.Duration { return time.Duration(p.most.Load()) }

// rate returns how many commits there are in a second, measured for a while.
func (p *probe) rate(d time.Duration) float64 {
	before := p.done.Load()
	<-soon(d)
	return float64(p.done.Load()-before) / d.Seconds()
}

func (p *probe) stop() {
	p.cancel()
	p.ended.Wait()
}
