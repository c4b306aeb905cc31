package pgstore

import (
	"context"
	"fmt"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"

	"github.com/abidehq/abide/store"
)

// statementLog is a tracer that records each statement.
type statementLog struct {
	mu   sync.Mutex
	list []string
}

func (s *statementLog) add(sql string) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.list = append(s.list, sql)
}

func (s *statementLog) take() []string {
	s.mu.Lock()
	defer s.mu.Unlock()
	list := s.list
	s.list = nil
	return list
}

func (s *statementLog) TraceQueryStart(ctx context.Context, _ *pgx.Conn, data pgx.TraceQueryStartData) context.Context {
	s.add(data.SQL)
	return ctx
}

func (s *statementLog) TraceQueryEnd(context.Context, *pgx.Conn, pgx.TraceQueryEndData) {}

func (s *statementLog) TraceBatchStart(ctx context.Context, _ *pgx.Conn, _ pgx.TraceBatchStartData) context.Context {
	return ctx
}

func (s *statementLog) TraceBatchQuery(_ context.Context, _ *pgx.Conn, data pgx.TraceBatchQueryData) {
	s.add(data.SQL)
}

func (s *statementLog) TraceBatchEnd(context.Context, *pgx.Conn, pgx.TraceBatchEndData) {}

// TestIdle: a process that waits for what is due much later, and awaits many records, asks
// next to nothing: 12 statements in a minute are allowed, so that 5 are in 25 seconds. A
// look at what it waits for and one at what it awaits every 30 seconds, and a sign of life
// every 20, are 7 in a minute, and at most 4 in 25 seconds.
func TestIdle(t *testing.T) {
	t.Parallel()
	seen := &statementLog{}
	s := open(t, newURL(t), Options{Tracer: seen})
	fillKeys(t, s, 100_000, 0, "turns", "order")
	ctx, cancel := context.WithCancel(t.Context())
	var wg sync.WaitGroup
	for _, route := range []string{"order", "order", "refund"} {
		wg.Go(func() {
			req := store.ClaimRequest{Queue: "turns", Routes: []string{route}, Max: 10, Lease: time.Minute, Wait: time.Hour}
			if claims, err := s.Claim(ctx, req); ctx.Err() == nil {
				t.Errorf("claimed %d, %v", len(claims), err)
			}
		})
	}
	for i := range 100 {
		wg.Go(func() {
			if r, err := s.Await(ctx, store.RecordKey{Kind: "instance", ID: fmt.Sprint(i)}, 0); ctx.Err() == nil {
				t.Errorf("awaited %v, %v", r, err)
			}
		})
	}
	eventually(t, "all wait", func() bool { return s.Waiting() == 3 && s.db.Hinted() })
	for quiet := false; !quiet; { // until what was asked at the beginning is answered
		seen.take()
		<-time.After(2 * time.Second)
		quiet = len(seen.take()) == 0
	}
	<-time.After(25 * time.Second)
	if list := seen.take(); len(list) > 4 || len(list) == 0 {
		t.Errorf("%d statements in 25 seconds:\n%s", len(list), strings.Join(list, "\n"))
	}
	cancel()
	wg.Wait()
}
