package abide

import (
	"fmt"
	"log/slog"
	"math/rand/v2"
	"reflect"
	"time"

	"github.com/abidehq/abide/history"
	"github.com/abidehq/abide/internal/engine"
	"github.com/abidehq/abide/internal/replay"
	"github.com/abidehq/abide/internal/schema"
)

// Context gives the code of an orchestration access to deterministic time, random numbers and
// history. It is not a context.Context: a function that takes one of those does I/O, and belongs
// in an activity or a step.
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

	route   string   // of the orchestration
	learner *learner // nil if the code is only replayed
}

// Now returns the time of the current turn, by the store's clock. It does not change while the
// code runs, only after it has waited.
func Now(ctx Context) time.Time { return ctx.c.Now() }

// Self returns the tenant and ID of the instance.
func Self(ctx Context) Ref { return refFrom(engine.Ref{Tenant: ctx.env.tenant, ID: ctx.c.Self()}) }

// Execution returns the number of the current execution: 1 for the first, and one more each
// time that the instance continues as new.
func Execution(ctx Context) int {
	_, start := ctx.c.Start()
	return int(start.Execution)
}

// HistorySize is the size of the history of an execution.
type HistorySize struct {
	Events int
	Bytes  int64

	// ContinueSuggested is true if the history has more than 20,000 events or 64 MiB, or half
	// of what [Config] allows. The execution should continue as new, see [ContinueAsNew].
	ContinueSuggested bool
}

// HistorySizeOf returns the size of the history at the beginning of the current turn. A replay
// returns the same.
func HistorySizeOf(ctx Context) HistorySize {
	s := ctx.c.Size()
	return HistorySize{Events: s.Events, Bytes: s.Bytes, ContinueSuggested: s.Suggested}
}

// Replaying reports whether the code is being replayed. Orchestration logic must not depend on
// it; it is for side channels such as logs.
func Replaying(ctx Context) bool { return ctx.c.Replaying() }

// NewID returns a random UUID. A replay returns the same one.
func NewID(ctx Context) string {
	a, b := ctx.c.Uint64(), ctx.c.Uint64()
	a = a&^0xf000 | 0x4000 // version 4
	b = b&^(3<<62) | 1<<63 // variant 1
	return fmt.Sprintf("%08x-%04x-%04x-%04x-%012x", a>>32, a>>16&0xffff, a&0xffff, b>>48, b&(1<<48-1))
}

// Rand returns a source of random numbers. A replay draws the same ones.
func Rand(ctx Context) *rand.Rand { return rand.New(source{ctx.c}) }

type source struct{ c *replay.Context }

func (s source) Uint64() uint64 { return s.c.Uint64() }

// Changed reports whether the code takes the new path of a change. It returns true in an
// execution that reaches it for the first time, and false in one that passed this point before
// the change was made.
//
//	if abide.Changed(ctx, "charge-after-packing") {
//		// the new way
//	} else {
//		// the old way, until nothing that began with it is left
//	}
//
// When no instance that takes the old path is left, delete it and replace Changed with
// [Retired].
func Changed(ctx Context, id string) bool {
	ctx.check("change", id)
	return ctx.c.Changed(id)
}

// Retired replaces [Changed] when the old path is deleted. It accepts instances with and without
// the marker of Changed.
//
//	abide.Retired(ctx, "charge-after-packing")
//	// the new way
//
// When no instance that passed Changed is left, the call can be removed: instances that passed
// Retired replay without it. During a rolling deploy, processes whose code still has Changed
// take the new path for these instances.
func Retired(ctx Context, id string) {
	ctx.check("change", id)
	ctx.c.Retired(id)
}

// SetStatus sets a text about the instance for people to read, see [Info.StatusText].
func SetStatus(ctx Context, text string) {
	if len(text) > engine.MaxStatusText {
		ctx.stallf("limit: a status text has %d bytes, at most %d are allowed", len(text), engine.MaxStatusText)
	}
	ctx.c.SetStatus(text)
}

// checkID stalls the instance if id is not a valid instance ID.
func (ctx Context) checkID(what, id string) {
	if err := engine.CheckRef(engine.Ref{Tenant: ctx.env.tenant, ID: id}); err != nil {
		ctx.stallf("%s: %w", what, err)
	}
}

// check stalls the instance if name is not a valid name.
func (ctx Context) check(what, name string) {
	if err := engine.CheckName(what, name); err != nil {
		ctx.c.Stall(err)
	}
}

// stallf stalls the instance. Its code has to be fixed before it is resumed.
func (ctx Context) stallf(format string, args ...any) {
	ctx.c.Stall(fmt.Errorf("abide: "+format, args...))
}

// learn has the engine know an event that the code waits for, and returns the name of its schema.
func (ctx Context) learn(event string, s *schema.Schema) string {
	if ctx.env.learner == nil || s == nil {
		return ""
	}
	return ctx.env.learner.learn(ctx.env.route, event, s)
}

// stallPayload stalls the instance because of a payload that does not fit its type. The operator
// can correct it, see [Client.Correct].
func (ctx Context) stallPayload(event int32, kind history.Kind, of thing, err error) {
	ctx.c.Stall(&replay.PayloadError{Event: event, Kind: kind, Name: of.name, Err: fmt.Errorf("abide: %v does not fit its type: %w", of, err)})
}

// thing describes a value for error messages: the input of activity "charge". The text is
// made only if there is an error.
type thing struct {
	what string
	name string
	kind history.Kind // of the event that has it, if an event does
}

func (t thing) String() string {
	if t.name == "" {
		return t.what
	}
	return fmt.Sprintf("%s %q", t.what, t.name)
}

// payload encodes a value for history, and stalls the instance if that is not possible.
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
