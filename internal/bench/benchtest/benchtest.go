// Package benchtest runs workloads in tests: on stores that outlive a run, and that can fail
// commits or lose what they hold.
package benchtest

import (
	"context"
	"encoding/json"
	"fmt"
	"maps"
	"net/url"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/spf13/pflag"

	"github.com/abidehq/abide"
	"github.com/abidehq/abide/internal/bench"
	"github.com/abidehq/abide/store"
	"github.com/abidehq/abide/store/memstore"
	_ "github.com/abidehq/abide/store/pebblestore" // its URL scheme
)

// The scheme "shared" is for stores that outlive a run: closing one does nothing, and opening
// it again finds what was there.
func init() {
	store.Register("shared", store.Scheme{
		Example: "shared://name",
		Open: func(_ context.Context, u *url.URL) (store.Store, error) {
			shared.Lock()
			defer shared.Unlock()
			s, ok := shared.byName[u.Host]
			if !ok {
				return nil, store.InvalidURL(u, "no such store")
			}
			s.Opened++
			return s, nil
		},
	})
}

var shared = struct {
	sync.Mutex
	byName map[string]*Store
}{byName: map[string]*Store{}}

// Store is a memory store with a name. Its fields are set before it is opened.
type Store struct {
	store.Store
	Opened int // how often

	// OnCommit, if not nil, decides about a commit before the store does.
	OnCommit func(tx *store.Tx) error

	// Forget replaces the store by an empty one when it is closed.
	Forget bool
}

// New returns a new store, and its URL.
func New() (s *Store, storeURL string) {
	s = &Store{Store: memstore.New(memstore.Options{})}
	shared.Lock()
	defer shared.Unlock()
	name := fmt.Sprintf("s%d", len(shared.byName))
	shared.byName[name] = s
	return s, "shared://" + name
}

// Commit implements [store.Store].
func (s *Store) Commit(ctx context.Context, tx *store.Tx) error {
	if s.OnCommit != nil {
		if err := s.OnCommit(tx); err != nil {
			return err
		}
	}
	return s.Store.Commit(ctx, tx)
}

// Close implements [store.Store].
func (s *Store) Close() error {
	if s.Forget {
		s.Store = memstore.New(memstore.Options{})
	}
	return nil
}

// URL returns that of a new store of a scheme.
func URL(t *testing.T, scheme string) string {
	t.Helper()
	switch scheme {
	case "memory":
		return "memory://"
	case "shared":
		_, storeURL := New()
		return storeURL
	default:
		return scheme + "://" + filepath.Join(t.TempDir(), "store")
	}
}

// Parse returns the workload that a command line asks for. Flags that are not of the workload
// are in the configuration already.
func Parse(t *testing.T, spec bench.Spec, c bench.Config, args string) (bench.Workload, bench.Config) {
	t.Helper()
	if c.Patience == 0 {
		c.Patience = 20 * time.Second
	}
	f := pflag.NewFlagSet(spec.Name, pflag.ContinueOnError)
	w := spec.New(f, &c)
	if err := f.Parse(strings.Fields(args)); err != nil {
		t.Fatal(err)
	}
	return w, c
}

// Try runs a workload.
func Try(t *testing.T, spec bench.Spec, c bench.Config, args string) (*bench.Report, error) {
	t.Helper()
	w, c := Parse(t, spec, c, args)
	return bench.Measure(t.Context(), w, c)
}

// Run runs a workload, and returns the report as a program reads it.
func Run(t *testing.T, spec bench.Spec, c bench.Config, args string) map[string]any {
	t.Helper()
	report, err := Try(t, spec, c, args)
	if err != nil {
		t.Fatal(err)
	}
	text, err := json.Marshal(report)
	if err != nil {
		t.Fatal(err)
	}
	var got map[string]any
	if err := json.Unmarshal(text, &got); err != nil {
		t.Fatal(err)
	}
	if n := strings.Count(string(text), `":`); n != len(got) {
		t.Errorf("a figure is reported twice: %s", text)
	}
	return got
}

// Fails runs a workload, whose error must have a text.
func Fails(t *testing.T, spec bench.Spec, c bench.Config, args, want string) error {
	t.Helper()
	_, err := Try(t, spec, c, args)
	if err == nil || !strings.Contains(err.Error(), want) {
		t.Errorf("error %v, want one with %q", err, want)
	}
	return err
}

// machineKeys are of figures that not every machine has.
var machineKeys = []string{
	"bytes_counted_by", "bytes_per_commit", "raw_bytes_per_commit", "rss_mib", "rss_peak_mib", "rss_reopened_mib", "rss_streams_mib", "stream_kib", "idle_cpu_ms", "idle_cpu_percent",
}

// Keys checks that a report has exactly these figures, besides those that all have and those
// that depend on the machine.
func Keys(t *testing.T, got map[string]any, keys ...[]string) {
	t.Helper()
	all := slices.Concat(append(keys, []string{"workload", "store", "gomaxprocs", "go", "open_s"})...)
	for _, key := range all {
		if _, ok := got[key]; !ok {
			t.Errorf("%s is not reported; there are %v", key, slices.Sorted(maps.Keys(got)))
		}
	}
	for key := range got {
		machine := slices.Contains(machineKeys, key) || strings.HasPrefix(key, "cpu_us_per_") || strings.HasPrefix(key, "written_bytes_per_")
		if !slices.Contains(all, key) && !machine {
			t.Errorf("%s is reported", key)
		}
	}
}

// Want checks the values of figures.
func Want(t *testing.T, got, want map[string]any) {
	t.Helper()
	for name, value := range want {
		if got[name] != value {
			t.Errorf("%s is %v, want %v", name, got[name], value)
		}
	}
}

// Positive checks that figures are numbers above zero.
func Positive(t *testing.T, got map[string]any, names ...string) {
	t.Helper()
	for _, name := range names {
		if n, ok := got[name].(float64); !ok || n <= 0 {
			t.Errorf("%s is %v; there are %v", name, got[name], slices.Sorted(maps.Keys(got)))
		}
	}
}

// Open returns a workload whose store is open, and which is closed when the test ends. The
// context ends when a part of it fails.
func Open(t *testing.T, spec bench.Spec, c bench.Config, args string) (bench.Workload, *bench.Run, context.Context) {
	t.Helper()
	w, c := Parse(t, spec, c, args)
	r, ctx := bench.NewRun(t.Context(), w, c)
	if err := r.Open(ctx); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = r.Close() })
	return w, r, ctx
}

// Load loads a store as a process would that is killed after that.
func Load(t *testing.T, spec bench.Spec, c bench.Config, args string) {
	t.Helper()
	w, c := Parse(t, spec, c, args)
	ctx, cancel := context.WithCancel(t.Context())
	if err := bench.Load(ctx, w.(bench.Loader), c, cancel); err != nil {
		t.Fatal(err)
	}
}

// Loader returns a command that prints that it has loaded the store, and waits to be killed.
// The command that was started is stored in cmd.
func Loader(cmd **exec.Cmd) func(context.Context) (*exec.Cmd, error) {
	return func(ctx context.Context) (*exec.Cmd, error) {
		*cmd = exec.CommandContext(ctx, "sh", "-c", "echo "+bench.LoadedLine+"; exec cat")
		return *cmd, nil
	}
}

// Instances returns the instances in a store.
func Instances(t *testing.T, s store.Store) []abide.Info {
	t.Helper()
	page, err := abide.NewClient(s, nil).List(t.Context(), abide.Filter{Limit: 10_000})
	if err != nil {
		t.Fatal(err)
	}
	return page.Instances
}
