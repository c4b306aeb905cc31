package abidetest

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"sync"
	"time"

	"github.com/abidehq/abide"
	"github.com/abidehq/abide/store"
)

// operatorTransport is what the transport of a store offers.
type operatorTransport interface {
	abide.Transport
	abide.Operator
	abide.EntityTransport
	abide.LimitTransport
}

// transport is one whose waits have a limit.
type transport struct {
	operatorTransport
	env *Env

	mu     sync.Mutex
	chains map[abide.Ref]chain
}

// chain is a series of waits for changes of an instance, each of which begins when the one before
// returns: a caller that waits for its end.
type chain struct{ began, returned time.Time }

// begin returns when the chain began to which a wait belongs.
func (t *transport) begin(ref abide.Ref, now time.Time) time.Time {
	t.mu.Lock()
	defer t.mu.Unlock()
	c := t.chains[ref]
	if c.began.IsZero() || !c.returned.Equal(now) {
		c.began = now
	}
	t.put(ref, c)
	return c.began
}

// end notes when a wait has returned. One that fails is the last of its chain.
func (t *transport) end(ref abide.Ref, now time.Time, err error) {
	t.mu.Lock()
	defer t.mu.Unlock()
	c := t.chains[ref]
	if err != nil {
		c.began = time.Time{}
	}
	c.returned = now
	t.put(ref, c)
}

// put keeps a chain. The lock is held.
func (t *transport) put(ref abide.Ref, c chain) {
	if t.chains == nil {
		t.chains = map[abide.Ref]chain{}
	}
	t.chains[ref] = c
}

var errLimit = errors.New("abidetest: the limit is over")

// WaitChange waits until the limit is over.
func (t *transport) WaitChange(ctx context.Context, ref abide.Ref, after int64) (abide.Info, error) {
	now := t.env.Now()
	limited, cancel := context.WithTimeoutCause(ctx, t.begin(ref, now).Add(t.env.Limit).Sub(now), errLimit)
	defer cancel()
	info, err := t.operatorTransport.WaitChange(limited, ref, after)
	t.end(ref, t.env.Now(), err)
	if err != nil && ctx.Err() == nil && errors.Is(context.Cause(limited), errLimit) {
		return info, t.env.stuck(ref)
	}
	return info, err
}

// end returns the state of an instance when it has ended. One that does not, or cannot,
// fails the test.
func (env *Env) end(ref abide.Ref) abide.Info {
	env.t.Helper()
	ctx, cancel := context.WithTimeout(context.Background(), env.Limit)
	defer cancel()
	env.open()
	c := abide.NewClient(env.store, env.Config.Codec)
	info, err := c.Get(ctx, ref)
	for err == nil && !info.Status.Ended() && info.Status != abide.Stalled {
		info, err = c.WaitChange(ctx, ref, info.Revision)
	}
	switch {
	case err != nil && ctx.Err() != nil:
		env.t.Fatal(env.stuck(ref))
	case err != nil:
		env.t.Fatalf("abidetest: %v", err)
	case info.Status == abide.Stalled:
		env.t.Fatalf("abidetest: instance %v cannot go on:%s", ref, env.describe(&info))
	}
	return info
}

// stuckError is the error of an instance that does not end.
type stuckError struct{ text string }

// Error says all that is known of the instance.
func (e *stuckError) Error() string { return e.text }

// Unwrap says that it is about time.
func (e *stuckError) Unwrap() error { return context.DeadlineExceeded }

func (env *Env) stuck(ref abide.Ref) error {
	info, err := abide.NewClient(env.store, env.Config.Codec).Get(context.Background(), ref)
	if err != nil {
		return fmt.Errorf("abidetest: %v of virtual time have passed: %w", env.Limit, err)
	}
	return &stuckError{fmt.Sprintf("abidetest: instance %v has not ended, and %v of virtual time have passed:%s", ref, env.Limit, env.describe(&info))}
}

// shownEvents is how much of a history is shown.
const shownEvents = 25

// describe returns what is known of an instance, line by line.
func (env *Env) describe(info *abide.Info) string {
	var b strings.Builder
	say := func(what, format string, args ...any) {
		fmt.Fprintf(&b, "\n    %-10s %s", what, fmt.Sprintf(format, args...))
	}
	say("status", "%s, execution %d of %s", info.Status, info.Execution, routeOf(info.Orchestration, info.Version))
	if info.Reason != "" {
		say("reason", "%s", indent(info.Reason))
	}
	if info.Err != nil {
		say("error", "%s", indent(info.Err.Error()))
	}
	if info.StatusText != "" {
		say("says", "%s", indent(info.StatusText))
	}
	if !info.Status.Ended() && info.Status != abide.Stalled {
		waiting, err := env.waiting(info.Ref)
		for _, w := range waiting {
			say("waits for", "%s", w)
		}
		if err != nil {
			say("waits for", "(%s)", indent(err.Error()))
		}
		for _, w := range env.limited(info.Ref) {
			say("limited", "%s", w)
		}
		for _, u := range env.unserved() {
			say("unserved", "%s", u)
		}
	}
	say("time", "%s", env.Now().UTC().Format(time.RFC3339))
	h, err := abide.NewClient(env.store, env.Config.Codec).History(context.Background(), info.Ref, 0)
	if err != nil {
		say("history", "(%v)", err)
		return b.String()
	}
	say("history", "%d events", len(h.Events))
	b.WriteString(h.Tail(shownEvents))
	return b.String()
}

// indent keeps lines that belong together together.
func indent(text string) string {
	return strings.ReplaceAll(strings.TrimSpace(text), "\n", "\n            ")
}

// waiting returns what the code of an instance waits for.
func (env *Env) waiting(ref abide.Ref) ([]string, error) {
	h, err := abide.NewClient(env.store, env.Config.Codec).History(context.Background(), ref, 0)
	if err != nil {
		return nil, err
	}
	replayer, err := env.replayer()
	if err != nil {
		return nil, err
	}
	return replayer.Replay(&h)
}

// limited returns for which limits an instance and its activities wait, at which place, and how much of them is in use.
func (env *Env) limited(ref abide.Ref) []string {
	ctx, c := context.Background(), abide.NewClient(env.store, env.Config.Codec)
	waits, err := c.Waits(ctx, ref)
	if err != nil {
		return []string{"(" + indent(err.Error()) + ")"}
	}
	var list []string
	for i := range waits {
		w := waits[i].Limit
		if w == nil {
			continue
		}
		what := "the instance"
		if waits[i].Event > 0 {
			what = activityKey(waits[i].Name)
		}
		what += fmt.Sprintf(" waits for limit %q", w.Limit)
		if w.Key != "" {
			what += fmt.Sprintf(", key %q", w.Key)
		}
		what += fmt.Sprintf(", with %d before it, since %s", w.Ahead, w.Since.UTC().Format(time.RFC3339))
		list = append(list, what+env.useOf(ctx, c, ref.Tenant, w))
	}
	return list
}

// useOf returns how much of a limit is in use, or of the key for which something waits.
func (env *Env) useOf(ctx context.Context, c *abide.Client, tenant string, w *abide.LimitWait) string {
	l, err := c.Limit(ctx, tenant, w.Limit)
	if err != nil {
		return ""
	}
	use := ""
	for _, k := range l.Keys {
		if n := l.Rule().Concurrency; k.Key == w.Key && n > 0 {
			use = fmt.Sprintf("; %d of %d in use", k.InUse, n)
		}
	}
	if l.Paused {
		use += "; the limit is paused"
	}
	return use
}

// unserved returns what waits for a definition that is not registered.
func (env *Env) unserved() []string {
	stats, err := env.store.Stats(context.Background())
	if err != nil {
		return []string{err.Error()}
	}
	env.mu.Lock()
	defer env.mu.Unlock()
	served := map[string]bool{}
	for _, d := range env.served {
		served[d.key] = true
	}
	var unserved []string
	for _, r := range stats.Routes {
		if what := whatWaits(r); what != "" && !served[what] {
			advice := ": not registered: give it to env.Register"
			if r.Queue == "activities" {
				advice += ", or stub it"
			}
			unserved = append(unserved, what+advice)
		}
	}
	return unserved
}

// whatWaits returns what a route is of, as [Env.keyOf] says it. Those that begin with a dot
// are Abide's own.
func whatWaits(r store.RouteStats) string {
	switch {
	case r.Route == "" || r.Route[0] == '.':
		return ""
	case r.Queue == "activities":
		return activityKey(r.Route)
	case r.Queue == "turns":
		return orchestrationKey(r.Route)
	default:
		return ""
	}
}
