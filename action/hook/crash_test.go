package hook_test

import (
	"bytes"
	"context"
	"fmt"
	"io"
	"math/rand/v2"
	"net"
	"net/http"
	"strings"
	"sync"
	"testing"

	"github.com/abidehq/abide/action"
	"github.com/abidehq/abide/action/hook"
	"github.com/abidehq/abide/internal/check"
	"github.com/abidehq/abide/internal/rig"
	"github.com/abidehq/abide/internal/testenv"
	"github.com/abidehq/abide/store/pebblestore"
)

// crashService opens a store on disk.
func crashService(t *testing.T, dir string) (*action.Service, *pebblestore.Store) {
	t.Helper()
	s, err := pebblestore.Open(t.Context(), dir, pebblestore.Options{Logger: rig.Quiet})
	check.OK(t, err)
	service, err := action.New(action.Config{Store: s, Logger: rig.Quiet})
	check.OK(t, err)
	return service, s
}

// TestCrashChild is not a test: it is what the other process does, until it is killed.
func TestCrashChild(t *testing.T) {
	dir, ok := rig.InChild()
	if !ok {
		return // nobody has started it
	}
	service, _ := crashService(t, dir)
	gh := githubHook("gh")
	gh.Tenant, gh.Target, gh.Rate = tenant, "target", -1
	handler, err := hook.New(hook.Config{Receiver: service, Hooks: []hook.Hook{gh}})
	check.OK(t, err)
	listener, err := (&net.ListenConfig{}).Listen(t.Context(), "tcp", "127.0.0.1:0")
	check.OK(t, err)
	fmt.Println("http://" + listener.Addr().String() + "/hooks/gh")
	t.Fatal(http.Serve(listener, handler))
}

// crashLoad is what is sent to processes that are killed.
type crashLoad struct {
	t     *testing.T
	seed  uint64
	count int

	mu    sync.Mutex
	acked map[int]string // the ID of each webhook that was acknowledged
}

// body returns that of a webhook: any bytes, and sometimes none.
func (l *crashLoad) body(i int) []byte {
	rnd := rand.New(rand.NewPCG(l.seed, uint64(i)))
	body := make([]byte, rnd.IntN(4)*rnd.IntN(8<<10))
	for j := range body {
		body[j] = byte(rnd.Uint32())
	}
	return body
}

// send sends one webhook, and notes what it is acknowledged with.
func (l *crashLoad) send(ctx context.Context, client *http.Client, url string, i int) error {
	body := l.body(i)
	req, err := http.NewRequestWithContext(ctx, http.MethodPost, url, bytes.NewReader(body))
	if err != nil {
		return err
	}
	req.Header = github(fmt.Sprint(i), body)
	resp, err := client.Do(req)
	if err != nil {
		return err
	}
	defer resp.Body.Close()
	text, err := io.ReadAll(resp.Body)
	if err != nil {
		return err
	}
	id := strings.TrimSuffix(strings.TrimPrefix(string(text), `{"id":"`), `"}`)
	l.mu.Lock()
	defer l.mu.Unlock()
	switch first, again := l.acked[i]; {
	case resp.StatusCode != http.StatusAccepted && resp.StatusCode != http.StatusOK:
		l.t.Errorf("webhook %d is answered with %d %s", i, resp.StatusCode, text)
	case again && (resp.StatusCode != http.StatusOK || id != first):
		l.t.Errorf("webhook %d was kept as %s, and is answered with %d %s", i, first, resp.StatusCode, text)
	default:
		l.acked[i] = id
	}
	return nil
}

// run starts a process and sends to it what was not acknowledged, and some of what was.
// It kills the process once that many more are, unless kill is 0: then it waits for all.
func (l *crashLoad) run(dir string, kill int) {
	l.t.Helper()
	child := rig.StartChild(l.t, dir)
	url, ok := child.Line()
	if !ok {
		l.t.Fatal("the other process says nothing")
	}

	had := len(l.acked)
	work := make(chan int, 2*l.count)
	for i := range l.count {
		if _, done := l.acked[i]; !done || i%5 == 0 {
			work <- i
		}
	}
	close(work)
	client := &http.Client{Transport: &http.Transport{MaxIdleConnsPerHost: 8}}
	defer client.CloseIdleConnections()
	var wg sync.WaitGroup
	for range 8 {
		wg.Go(func() {
			for i := range work {
				if err := l.send(l.t.Context(), client, url, i); err != nil {
					if kill == 0 {
						l.t.Error(err)
					}
					return // it was killed
				}
				l.mu.Lock()
				enough := kill > 0 && len(l.acked)-had >= kill
				l.mu.Unlock()
				if enough {
					child.Kill()
				}
			}
		})
	}
	wg.Wait()
	child.Kill()
	child.Wait()
}

// check opens the store, and holds what is in it against what was acknowledged.
func (l *crashLoad) check(dir string) (kept int) {
	l.t.Helper()
	service, s := crashService(l.t, dir)
	for i, id := range l.acked {
		body, err := service.Body(l.t.Context(), tenant, id)
		if err != nil || !bytes.Equal(body, l.body(i)) {
			l.t.Errorf("webhook %d was acknowledged as %s, and kept are %d bytes of %d, %v", i, id, len(body), len(l.body(i)), err)
		}
	}
	kept = len(check.All(l.t, service.All(l.t.Context(), action.Filter{Tenant: tenant, Limit: action.MaxPage})))
	check.OK(l.t, s.Close())
	return kept
}

// TestAcknowledgedBodiesSurviveKills: a process is killed under load, again and again, and
// each time all that it has acknowledged is there, byte for byte.
func TestAcknowledgedBodiesSurviveKills(t *testing.T) {
	t.Parallel()
	count, kills := 300, 4
	if testenv.Long() {
		count, kills = 20_000, 20
	}
	l := &crashLoad{t: t, seed: testenv.Seed(t), count: count, acked: map[int]string{}}
	rnd := rand.New(rand.NewPCG(l.seed, 0))
	dir := t.TempDir()
	for range kills {
		l.run(dir, 1+rnd.IntN(count/(kills+1)))
		kept := l.check(dir)
		t.Logf("%d webhooks are acknowledged, %d are kept", len(l.acked), kept)
		if kept < len(l.acked) || len(l.acked) == count {
			t.Errorf("%d webhooks are acknowledged and %d are kept, of %d", len(l.acked), kept, count)
		}
	}
	l.run(dir, 0)
	if kept := l.check(dir); kept != count || len(l.acked) != count {
		t.Errorf("in the end, %d are acknowledged and %d are kept, of %d", len(l.acked), kept, count)
	}
}
