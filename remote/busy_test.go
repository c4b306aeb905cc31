package remote_test

import (
	"context"
	"encoding/json"
	"fmt"
	"net/http"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/abidehq/abide"
	"github.com/abidehq/abide/internal/admission"
	"github.com/abidehq/abide/internal/check"
	"github.com/abidehq/abide/internal/rig"
	"github.com/abidehq/abide/server/api"
	"github.com/abidehq/abide/store"
	"github.com/abidehq/abide/store/memstore"
)

// stuck is a store in which starts wait until thaw is closed.
type stuck struct {
	store.Store
	thaw chan struct{}
}

func (s *stuck) Commit(ctx context.Context, tx *store.Tx) error {
	for i := range tx.PutRecords {
		if tx.PutRecords[i].Record.Key.Kind == "instance" && tx.PutRecords[i].Expect == 0 {
			<-s.thaw
		}
	}
	return s.Store.Commit(ctx, tx)
}

// TestABusyServer: starts and events beyond what the engine bears are answered with 429 and
// Retry-After, which a client gets as abide.ErrBusy, at once and without a retry. What was accepted is
// not lost.
func TestABusyServer(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		s := &stage{T: t, store: memstore.New(memstore.Options{})}
		defer s.store.Close()
		slow := &stuck{Store: s.store, thaw: make(chan struct{})}
		echo := abide.NewOrchestration("echo", func(_ abide.Context, n int) (int, error) { return n, nil })
		e, err := abide.New(slow, abide.Config{Register: []abide.Definition{echo}, Unlisted: true, Logger: rig.Quiet})
		check.OK(t, err)
		defer func() { check.OK(t, e.Close()) }()
		s.engine, s.net = e, newNetwork()
		defer s.net.close()
		s.serve()
		defer func() { s.net.stop() }()
		client := s.dial()

		var wg sync.WaitGroup
		for i := range admission.MaxLimit {
			wg.Go(func() {
				_, err := echo.Start(t.Context(), e, i, abide.ID(fmt.Sprint(i)))
				check.OK(t, err)
			})
		}
		synctest.Wait()
		began := time.Now()
		_, err = echo.Start(t.Context(), client, 1)
		check.Error(t, err, abide.ErrBusy)
		check.Equal(t, "a start is refused after", time.Since(began), admission.MaxWait)
		check.Error(t, abide.NewEvent[int]("go").Raise(t.Context(), client, "1", 1), abide.ErrBusy)
		for _, header := range []string{"", "key"} {
			resp, p := s.post(header)
			if resp.StatusCode != http.StatusTooManyRequests || resp.Header.Get("Retry-After") != "1" || p.Code != api.CodeBusy || p.Status != resp.StatusCode {
				t.Errorf("%d %v %+v", resp.StatusCode, resp.Header, p)
			}
		}
		close(slow.thaw)
		wg.Wait()
		for i := range admission.MaxLimit {
			got, err := echo.Instance(client, fmt.Sprint(i)).Result(t.Context())
			check.OK(t, err)
			check.Equal(t, "result", got, i)
		}
		resp, _ := s.post("key") // a refusal is no answer that is kept
		check.Equal(t, "status of the retry", resp.StatusCode, http.StatusCreated)
	})
}

// post starts an instance with a plain request.
func (s *stage) post(key string) (*http.Response, api.Problem) {
	s.Helper()
	h := &http.Client{Transport: &http.Transport{DialContext: s.net.dial}}
	defer h.CloseIdleConnections()
	req, err := http.NewRequestWithContext(s.Context(), http.MethodPost, "http://abide/api/v1/instances", strings.NewReader(`{"orchestration":"echo","input":1}`))
	check.OK(s.T, err)
	req.Header.Set("Content-Type", "application/json")
	if key != "" {
		req.Header.Set("Idempotency-Key", key)
	}
	resp, err := h.Do(req)
	check.OK(s.T, err)
	defer resp.Body.Close()
	var p api.Problem
	check.OK(s.T, json.NewDecoder(resp.Body).Decode(&p))
	return resp, p
}
