package abide

import (
	"fmt"

	"github.com/abidehq/abide/internal/engine"
)

// Value is a small named value that an orchestration publishes for clients; other systems call
// it a query. The latest value of each name is part of [Info].
type Value[T any] struct{ name string }

// NewValue returns a value. Declare it as a package variable.
func NewValue[T any](name string) *Value[T] { return &Value[T]{name: name} }

// Name returns the name of the value.
func (v *Value[T]) Name() string { return v.name }

// Set publishes the value with the commit of the turn. It is called by orchestrations.
func (v *Value[T]) Set(ctx Context, value T) {
	ctx.check("value", v.name)
	data, err := ctx.env.codec.Encode(value)
	if err != nil {
		ctx.stallf("value %q cannot be encoded: %v", v.name, err)
	}
	if len(data) > engine.MaxValue {
		ctx.stallf("limit: value %q has %d bytes, at most %d are allowed", v.name, len(data), engine.MaxValue)
	}
	ctx.c.SetValue(v.name, data)
}

// Clear removes the value. It is called by orchestrations.
func (v *Value[T]) Clear(ctx Context) {
	ctx.check("value", v.name)
	ctx.c.SetValue(v.name, nil)
}

// Get returns the value that an instance has published, and whether there is one.
func (v *Value[T]) Get(info Info) (value T, ok bool, err error) {
	data, ok := info.Values[v.name]
	if !ok {
		return value, false, nil
	}
	if err := orJSON(info.codec).Decode(data, &value); err != nil {
		return value, true, fmt.Errorf("abide: value %q of instance %v: %w", v.name, info.Ref, err)
	}
	return value, true, nil
}
