package engine

import (
	"context"

	"github.com/abidehq/abide/history"
)

type actorKey struct{}

// WithActor returns a context whose changes of instances are recorded as made by someone: a user or
// a token, at most MaxName bytes.
func WithActor(ctx context.Context, by string) context.Context {
	return context.WithValue(ctx, actorKey{}, by[:min(len(by), MaxName)])
}

// actorFrom returns who makes changes with ctx, if that is known.
func actorFrom(ctx context.Context) string {
	by, _ := ctx.Value(actorKey{}).(string)
	return by
}

// byActor returns the events of a control request, which has none but says who made it. A release
// that does not know it ignores them.
func byActor(ctx context.Context) []history.Event {
	if by := actorFrom(ctx); by != "" {
		return []history.Event{{Kind: history.ExecutionResumed, By: by}}
	}
	return nil
}

// by returns who made a control request, if that is known.
func (b *body) by() string {
	if len(b.events) == 0 {
		return ""
	}
	return b.events[0].By
}

// result returns the result that a termination gives the instance, if it gives one.
func (b *body) result() []byte {
	if len(b.events) == 0 {
		return nil
	}
	return b.events[0].Data
}
