package daemon

import (
	"bytes"
	"context"
	"io"
	"log/slog"
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/abidehq/abide/internal/check"
	"github.com/abidehq/abide/internal/config"
	"github.com/abidehq/abide/store/memstore"
)

// patient is how long a test waits for what must happen.
const patient = 30 * time.Second

// configure returns the configuration of a file, on a free port, in a store that is given
// to the daemon anyway.
func configure(t *testing.T, text string, environ ...string) *config.Config {
	t.Helper()
	file := filepath.Join(t.TempDir(), "abide.yaml")
	check.OK(t, os.WriteFile(file, []byte(text), 0o600))
	loaded, err := config.Load(config.Source{
		File: file, Environ: environ,
		Flags: map[string]config.Flag{"addr": {Name: "--addr", Value: "127.0.0.1:0"}},
	})
	check.OK(t, err)
	return &loaded.Config
}

// running is a daemon under test.
type running struct {
	t       *testing.T
	serving Serving
	logs    *safeBuffer
	stop    context.CancelFunc
	ended   chan error
	states  *safeBuffer
	reload  chan struct{}
}

// safeBuffer is a buffer that several goroutines write to.
type safeBuffer struct {
	mu sync.Mutex
	b  bytes.Buffer
}

func (s *safeBuffer) Write(p []byte) (int, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.b.Write(p)
}

func (s *safeBuffer) String() string {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.b.String()
}

// start starts a daemon, and returns when it is ready.
func start(t *testing.T, cfg *config.Config, change func(*Options)) *running {
	t.Helper()
	ctx, cancel := context.WithCancel(context.WithoutCancel(t.Context()))
	r := &running{
		t: t, logs: &safeBuffer{}, states: &safeBuffer{}, stop: cancel, ended: make(chan error, 1), reload: make(chan struct{}),
	}
	ready := make(chan Serving, 1)
	o := Options{
		Config: cfg, Store: memstore.New(memstore.Options{}), Version: "v0-test", Logger: slog.New(slog.NewTextHandler(r.logs, nil)),
		Ready:  func(s Serving) { ready <- s },
		Reload: r.reload,
		Notify: func(_ context.Context, state string) error {
			_, err := io.WriteString(r.states, state+" ")
			return err
		},
	}
	if change != nil {
		change(&o)
	}
	go func() { r.ended <- Run(ctx, o) }()
	select {
	case r.serving = <-ready:
	case err := <-r.ended:
		t.Fatalf("the daemon has ended: %v\n%s", err, r.logs)
	case <-time.After(patient):
		t.Fatalf("the daemon is not ready\n%s", r.logs)
	}
	t.Cleanup(func() {
		cancel()
		select {
		case <-r.ended:
		case <-time.After(patient):
			t.Errorf("the daemon does not end\n%s", r.logs)
		}
		_ = o.Store.Close()
	})
	return r
}

// wait returns how the daemon has ended.
func (r *running) wait() error {
	r.t.Helper()
	select {
	case err := <-r.ended:
		r.ended <- err // for the cleanup
		return err
	case <-time.After(patient):
		r.t.Fatalf("the daemon does not end\n%s", r.logs)
		return nil
	}
}

// get asks the daemon for something.
func (r *running) get(client *http.Client, path string) (int, string) {
	r.t.Helper()
	status, body, err := r.try(client, path)
	check.OK(r.t, err)
	return status, body
}

func (r *running) try(client *http.Client, path string) (int, string, error) {
	req, err := http.NewRequestWithContext(r.t.Context(), http.MethodGet, strings.TrimSuffix(r.serving.URL, "/")+path, http.NoBody)
	if err != nil {
		return 0, "", err
	}
	answer, err := client.Do(req)
	if err != nil {
		return 0, "", err
	}
	defer answer.Body.Close()
	body, err := io.ReadAll(answer.Body)
	return answer.StatusCode, string(body), err
}
