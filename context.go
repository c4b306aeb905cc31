package abide

import (
	"fmt"
	"log/slog"
	"math/rand/v2"
	"reflect"
	"time"

	"github.com/abidehq/abide/internal/engine"
	"github.com/abidehq/abide/internal/replay"
)

// Context is the world as an orchestration sees it. It is not a context.Context: what
// takes one of those does I/O, and belongs into an activity or a step.
type Context struct {
	c   *replay.Context
	env *environment
}

// environment is what the code of an execution needs besides its history.
type environment struct {
	codec  Codec
	logger *slog.Logger
	tenant string
	input  reflect.Type // of the orchestration
}

// Now returns the time of the turn, by the store's clock. It stands still while the
// code runs, and moves on when it has waited.
func Now(ctx Context) time.Time { return ctx.c.Now() }

// Self returns which instance this is.
func Self(ctx Context) Ref { return Ref{Tenant: ctx.env.tenant, ID: ctx.c.Self()} }

// Execution returns which generation of the instance this is: 1, and one more each time
// that it continues as new.
func Execution(ctx Context) int {
	_, start := ctx.c.Start()
	return int(start.Execution)
}

// HistorySize is how large the history of an execution is.
type HistorySize struct {
	Events int
	Bytes  int64

	// ContinueSuggested: the history has passed 20,000 events or 64 MiB, or half of what
	// [Config] allows. The execution should continue as new when it can: see
	// [ContinueAsNew].
	ContinueSuggested bool
}

// HistorySizeOf returns how large the history of the execution was when the turn began.
// It is the same when it is replayed.
func HistorySizeOf(ctx Context) HistorySize {
	s := ctx.c.Size()
	return HistorySize{Events: s.Events, Bytes: s.Bytes, ContinueSuggested: s.Suggested}
}

// Replaying reports whether what the code does now was done before. Code must not
// decide by it; it is for what is not part of the orchestration, such as a log.
func Replaying(ctx Context) bool { return ctx.c.Replaying() }

// NewID returns a random ID, in the form of a UUID: the same one when it is replayed.
func NewID(ctx Context) string {
	a, b := ctx.c.Uint64(), ctx.c.Uint64()
	a = a&^0xf000 | 0x4000 // version 4
	b = b&^(3<<62) | 1<<63 // variant 1
	return fmt.Sprintf("%08x-%04x-%04x-%04x-%012x", a>>32, a>>16&0xffff, a&0xffff, b>>48, b&(1<<48-1))
}

// Rand returns a source of random numbers: the same ones when they are replayed.
func Rand(ctx Context) *rand.Rand { return rand.New(source{ctx.c}) }

type source struct{ c *replay.Context }

func (s source) Uint64() uint64 { return s.c.Uint64() }

// Changed reports whether the code after a change is to run: always in an execution that
// comes here for the first time, never in one that came past here before the change was
// made.
//
//	if abide.Changed(ctx, "charge-after-packing") {
//		// the new way
//	} else {
//		// the old way, until nothing that began with it is left
//	}
//
// When no instance is left that takes the old way, delete it and put [Retired] in the
// place of Changed.
func Changed(ctx Context, id string) bool {
	ctx.check("change", id)
	return ctx.c.Changed(id)
}

// Retired takes the place of [Changed] when the old way is deleted. It accepts instances
// that have the marker of Changed and those that have none.
//
//	abide.Retired(ctx, "charge-after-packing")
//	// the new way
//
// Once no instance is left that passed Changed while it was in the code, the call can be
// removed: instances that passed Retired replay without it. Processes whose code still has
// Changed, in the same rolling deploy, take the new way for these instances.
func Retired(ctx Context, id string) {
	ctx.check("change", id)
	ctx.c.Retired(id)
}

// SetStatus says something about the instance to people: see [Info.StatusText].
func SetStatus(ctx Context, text string) {
	if len(text) > engine.MaxStatusText {
		ctx.stallf("limit: a status text has %d bytes, at most %d are allowed", len(text), engine.MaxStatusText)
	}
	ctx.c.SetStatus(text)
}

// SetValue keeps a small value where others can read it: see [Info.Value].
func SetValue(ctx Context, name string, v any) {
	ctx.check("value", name)
	data, err := ctx.env.codec.Encode(v)
	if err != nil {
		ctx.stallf("value %q cannot be encoded: %v", name, err)
	}
	if len(data) > engine.MaxValue {
		ctx.stallf("limit: value %q has %d bytes, at most %d are allowed", name, len(data), engine.MaxValue)
	}
	ctx.c.SetValue(name, data)
}

// ClearValue takes back a value that was set.
func ClearValue(ctx Context, name string) {
	ctx.check("value", name)
	ctx.c.SetValue(name, nil)
}

// checkID stalls the instance if an ID is not one of an instance.
func (ctx Context) checkID(what, id string) {
	if err := engine.CheckRef(engine.Ref{Tenant: ctx.env.tenant, ID: id}); err != nil {
		ctx.stallf("%s: %w", what, err)
	}
}

// check stalls the instance if a name is not one.
func (ctx Context) check(what, name string) {
	if err := engine.CheckName(what, name); err != nil {
		ctx.c.Stall(err)
	}
}

// stallf stalls the instance: the code cannot go on until it is fixed.
func (ctx Context) stallf(format string, args ...any) {
	ctx.c.Stall(fmt.Errorf("abide: "+format, args...))
}

// thing is something in words that are only needed if it goes wrong: the input of
// activity "charge".
type thing struct {
	what string
	name string
}

func (t thing) String() string {
	if t.name == "" {
		return t.what
	}
	return fmt.Sprintf("%s %q", t.what, t.name)
}

// payload returns what goes into history.
func payload[T any](ctx Context, of thing, v T) []byte {
	data, err := encode(ctx.env.codec, v)
	if err != nil {
		ctx.stallf("%v cannot be encoded: %v", of, err)
	}
	if len(data) > engine.MaxPayload {
		ctx.stallf("limit: %v has %d bytes, at most %d are allowed", of, len(data), engine.MaxPayload)
	}
	return data
}
