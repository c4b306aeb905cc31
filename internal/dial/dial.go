// Package dial is how package abide reaches a server that has others run code: package remote registers the
// scheme of its URLs here, so that package abide links neither it nor its network protocol.
package dial

import (
	"context"
	"fmt"
	"log/slog"
	"sync"
	"time"

	"go.opentelemetry.io/otel/metric"
	"go.opentelemetry.io/otel/trace"

	"github.com/abidehq/abide/internal/base"
	"github.com/abidehq/abide/internal/engine"
	"github.com/abidehq/abide/internal/schema"
	"github.com/abidehq/abide/store"
)

// Program is what a process runs for a server elsewhere.
type Program struct {
	// URL is that of the server, and Token what it asks for, if that is not in the URL.
	URL   string
	Token string

	Executor   engine.Executor
	Routes     []string
	Pins       map[string]engine.Pin
	Activities map[string]engine.Activity
	Entities   map[string]engine.EntityCode
	Signatures []engine.Signature

	// Ready is called before any code runs, with what learns of events that orchestrations wait for.
	Ready func(learn func(route, event string, s *schema.Schema) string)

	Clock         base.Clock
	Logger        *slog.Logger
	MeterProvider metric.MeterProvider

	// TracerProvider gets the spans of this process; nil means none.
	TracerProvider trace.TracerProvider

	// The rest is as in [engine.Config].
	MaxTurns, MaxActivities, CacheSize int
	MaxInFlight                        map[string]int
	LeaseDuration, Retention           time.Duration
	StepCommitInterval                 time.Duration
	DeadlockTimeout                    time.Duration
	MaxHistory, MaxHistoryBytes        int
	Build, WorkerName                  string
}

// Link is a connection to a server that lasts: it is made anew when it breaks.
type Link interface {
	// Start is that of [engine.Client].
	Start(ctx context.Context, starts ...engine.Start) ([]engine.Started, error)

	// Await is that of [engine.Client].
	Await(ctx context.Context, ref engine.Ref, after int64) (engine.Info, error)

	// Transport is an abide.Transport, Operator and Watcher, for all other calls.
	Transport() any

	// Close stops serving: the server sends nothing new, and what is under way ends, until ctx does.
	Close(ctx context.Context) error

	// Count has what the worker knows of the counters of its engine.
	Count() *engine.Counters

	// Drained is closed when an operator has drained the worker and nothing is under way any more.
	Drained() <-chan struct{}

	// Done is closed when the link is closed.
	Done() <-chan struct{}
}

// Opener connects to a server.
type Opener func(ctx context.Context, p Program) (Link, error)

var (
	mu      sync.RWMutex
	openers = map[string]Opener{}
)

// Register has URLs of a scheme opened by o.
func Register(scheme string, o Opener) {
	mu.Lock()
	defer mu.Unlock()
	if openers[scheme] != nil {
		panic(fmt.Sprintf("dial: scheme %q is registered twice", scheme))
	}
	openers[scheme] = o
}

// Lookup returns what opens URLs of a scheme, or nil.
func Lookup(scheme string) Opener {
	mu.RLock()
	defer mu.RUnlock()
	return openers[scheme]
}

// Observed returns the store of an abide.Engine, as [engine.Engine.Observed] does. Package abide sets it.
var Observed func(abideEngine any) store.Store

// Scheme is that of servers which have others run code.
const Scheme = "abide"
