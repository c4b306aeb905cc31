package abidetest

import (
	"context"
	"slices"
	"sync"

	"github.com/abidehq/abide"
)

// Stubbed is an activity that a test has replaced, and what is known of its calls.
type Stubbed[In, Out any] struct {
	mu     sync.Mutex
	f      func(ctx context.Context, in In) (Out, error)
	inputs []In
}

// Stub replaces an activity by f, whose types the compiler checks against those of the
// activity. Retries, timeouts and heartbeats are those of the activity. It comes before the
// engine is first used; an activity that is stubbed already can be given another function
// at any time.
func Stub[In, Out any](env *Env, a *abide.Activity[In, Out], f func(ctx context.Context, in In) (Out, error)) *Stubbed[In, Out] {
	env.t.Helper()
	env.mu.Lock()
	defer env.mu.Unlock()
	if s, ok := env.stubs[a.Name()].(*Stubbed[In, Out]); ok {
		s.mu.Lock()
		defer s.mu.Unlock()
		s.f = f
		return s
	}
	if other, ok := env.stubs[a.Name()]; ok {
		env.t.Fatalf("abidetest: Stub: two activities are called %q: one is a %T", a.Name(), other)
	}
	if env.engine != nil {
		env.t.Fatalf("abidetest: Stub: the engine is in use: stub activity %q before the first start", a.Name())
	}
	s := &Stubbed[In, Out]{f: f}
	env.stubs[a.Name()] = s
	env.put(definition{activityKey(a.Name()), abide.NewActivity(a.Name(), s.call)})
	return s
}

func (s *Stubbed[In, Out]) call(ctx context.Context, in In) (Out, error) {
	s.mu.Lock()
	s.inputs = append(s.inputs, in)
	f := s.f
	s.mu.Unlock()
	return f(ctx, in)
}

// Calls returns how often the activity was begun. Each attempt counts.
func (s *Stubbed[In, Out]) Calls() int {
	s.mu.Lock()
	defer s.mu.Unlock()
	return len(s.inputs)
}

// Inputs returns what the activity was given, call by call.
func (s *Stubbed[In, Out]) Inputs() []In {
	s.mu.Lock()
	defer s.mu.Unlock()
	return slices.Clone(s.inputs)
}
