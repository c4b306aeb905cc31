package engine

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"maps"
	"slices"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/abidehq/abide/history"
	"github.com/abidehq/abide/internal/base"
	"github.com/abidehq/abide/internal/replay"
	"github.com/abidehq/abide/internal/teststore"
	"github.com/abidehq/abide/store"
)

// rig is an engine in a bubble of its own time, on a store whose commits are kept.
type rig struct {
	*testing.T
	tape *tape
	code Code
	acts map[string]Activity
	*Engine
}

// inBubble runs f in virtual time. The engine is closed in the end, and goroutines that
// are left over then fail the test.
func inBubble(t *testing.T, f func(r *rig)) {
	t.Helper()
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		r := &rig{
			T: t, tape: &tape{Store: teststore.New(t)},
			code: Code{}, acts: map[string]Activity{},
		}
		defer r.tape.Store.Close()
		defer r.shut()
		f(r)
	})
}

// flow registers an orchestration, by route.
func (r *rig) flow(route string, code replay.Code) {
	r.code[route] = func(Ref) replay.Code { return code }
}

// act registers an activity.
func (r *rig) act(name string, f func(ctx context.Context, t *Task) ([]byte, *history.Failure)) {
	r.acts[name] = f
}

// serve starts an engine that serves what is registered by now.
func (r *rig) serve(change ...func(*Config)) *Engine {
	r.Helper()
	cfg := Config{
		Store: r.tape, Logger: slog.New(slog.DiscardHandler), Executor: maps.Clone(r.code),
		Routes: slices.Sorted(maps.Keys(r.code)), Activities: maps.Clone(r.acts),
	}
	for _, f := range change {
		f(&cfg)
	}
	e, err := New(cfg)
	if err != nil {
		r.Fatal(err)
	}
	r.Engine = e
	return e
}

// again closes the engine and serves what is registered by now.
func (r *rig) again(change ...func(*Config)) {
	r.Helper()
	r.shut()
	r.serve(change...)
}

// shut closes the engine. What is under way is given a minute.
func (r *rig) shut() {
	r.Helper()
	if r.Engine == nil {
		return
	}
	ctx, cancel := context.WithTimeout(context.Background(), time.Minute)
	defer cancel()
	if err := r.Engine.Close(ctx); err != nil {
		r.Errorf("close: %v", err)
	}
}

// client is a client that needs no engine.
func (r *rig) client() *Client {
	if r.Engine != nil {
		return r.Engine.Client
	}
	return NewClient(r.tape, base.System{})
}

// pass lets time pass, and what happens then come to rest.
func (*rig) pass(d time.Duration) {
	<-time.After(d)
	synctest.Wait()
}

// begin starts an instance.
func (r *rig) begin(id, name, input string, change ...func(*Start)) Started {
	r.Helper()
	s := Start{Ref: Ref{ID: id}, Name: name}
	if input != "" {
		s.Input = []byte(input)
	}
	for _, f := range change {
		f(&s)
	}
	done, err := r.client().Start(r.Context(), s)
	if err != nil {
		r.Fatal(err)
	}
	return done[0]
}

// until waits for a status, for a month at most, and for all to come to rest.
func (r *rig) until(id string, want ...Status) Info {
	r.Helper()
	ctx, cancel := context.WithTimeout(r.Context(), 30*24*time.Hour)
	defer cancel()
	info, err := r.client().Get(ctx, Ref{ID: id})
	for err == nil && !slices.Contains(want, info.Status) {
		if info.Status.Ended() {
			break
		}
		info, err = r.client().Await(ctx, Ref{ID: id}, info.Revision)
	}
	if err != nil {
		now, _ := r.client().Get(r.Context(), Ref{ID: id})
		r.Fatalf("waiting for %s to be %v: %v; it is %s: %s; %s", id, want, err, now.Status, now.Reason, r.kinds(id))
	}
	synctest.Wait() // so that what others wrote can be read
	if !slices.Contains(want, info.Status) {
		r.Fatalf("%s is %s: %s %+v, want %v", id, info.Status, info.Reason, info.Failure, want)
	}
	return info
}

// result waits for an instance to complete.
func (r *rig) result(id string) string {
	r.Helper()
	return string(r.until(id, Completed).Result)
}

// must2 is must for a call that returns something as well.
func (r *rig) must2(_ any, err error) {
	r.Helper()
	r.must(err)
}

// raise raises an event.
func (r *rig) raise(id, name, data string) {
	r.Helper()
	r.must2(r.client().Raise(r.Context(), Raise{Ref: Ref{ID: id}, Name: name, Data: []byte(data)}))
}

func (r *rig) must(err error) {
	r.Helper()
	if err != nil {
		r.Fatal(err)
	}
}

// wantErr checks that an error is of a kind, and says something.
func (r *rig) wantErr(err, kind error, words ...string) {
	r.Helper()
	checkErr(r.T, err, kind, words...)
}

func checkErr(t *testing.T, err, kind error, words ...string) {
	t.Helper()
	if !errors.Is(err, kind) {
		t.Errorf("error %v, want %v", err, kind)
		return
	}
	for _, w := range words {
		if !strings.Contains(err.Error(), w) {
			t.Errorf("error %q does not say %q", err, w)
		}
	}
}

// info returns what is true of an instance.
func (r *rig) info(id string) Info {
	r.Helper()
	info, err := r.client().Get(r.Context(), Ref{ID: id})
	r.must(err)
	return info
}

// events returns the history of an instance.
func (r *rig) events(id string) []history.Event {
	r.Helper()
	_, events, err := r.client().History(r.Context(), Ref{ID: id}, 0)
	r.must(err)
	return events
}

// kinds returns the history in words, a word for each event.
func (r *rig) kinds(id string) string {
	_, events, err := r.client().History(r.Context(), Ref{ID: id}, 0)
	if err != nil {
		return err.Error()
	}
	return kindsOf(events)
}

func kindsOf(events []history.Event) string {
	words := make([]string, len(events))
	for i := range events {
		words[i] = events[i].Kind.String()
	}
	return strings.Join(words, " ")
}

// find returns the only event of a kind.
func (r *rig) find(id string, kind history.Kind) history.Event {
	r.Helper()
	var found []history.Event
	for _, e := range r.events(id) {
		if e.Kind == kind {
			found = append(found, e)
		}
	}
	if len(found) != 1 {
		r.Fatalf("%s has %d events of kind %v, want one: %s", id, len(found), kind, r.kinds(id))
	}
	return found[0]
}

// count says how many events of a kind there are.
func (r *rig) countKind(id string, kind history.Kind) int {
	r.Helper()
	n := 0
	for _, e := range r.events(id) {
		if e.Kind == kind {
			n++
		}
	}
	return n
}

// want compares.
func want[T comparable](r *rig, what string, got, want T) {
	r.Helper()
	if got != want {
		r.Errorf("%s: got %v, want %v", what, got, want)
	}
}

// tape is a store that remembers what was committed, and fails when it is told to.
type tape struct {
	store.Store

	mu   sync.Mutex
	txs  []store.Tx
	fail func(tx *store.Tx) error
	slow time.Duration // that a commit takes to return, when it is done
}

func (s *tape) Commit(ctx context.Context, tx *store.Tx) error {
	s.mu.Lock()
	fail, slow := s.fail, s.slow
	s.mu.Unlock()
	if fail != nil {
		if err := fail(tx); err != nil {
			return err
		}
	}
	err := s.Store.Commit(ctx, tx)
	if err == nil {
		s.mu.Lock()
		s.txs = append(s.txs, *tx)
		s.mu.Unlock()
	}
	if slow > 0 {
		<-time.After(slow)
	}
	return err
}

// slowly makes commits take that long to return.
func (s *tape) slowly(d time.Duration) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.slow = d
}

// failing makes commits fail as f says, until it is called with nil.
func (s *tape) failing(f func(tx *store.Tx) error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.fail = f
}

// commits returns what was committed so far.
func (s *tape) commits() []store.Tx {
	s.mu.Lock()
	defer s.mu.Unlock()
	return slices.Clone(s.txs)
}

// with returns the only commit that appended an event of a kind.
func (r *rig) commitWith(id string, kind history.Kind) store.Tx {
	r.Helper()
	var found []store.Tx
	for _, tx := range r.tape.commits() {
		if slices.Contains(appended(&tx, id), kind) {
			found = append(found, tx)
		}
	}
	if len(found) != 1 {
		r.Fatalf("%d commits append %v to %s, want one", len(found), kind, id)
	}
	return found[0]
}

// appended returns the kinds of the events that a commit appends to an instance.
func appended(tx *store.Tx, id string) []history.Kind {
	var kinds []history.Kind
	for _, a := range tx.Append {
		if a.Key != (Ref{ID: id}).key() {
			continue
		}
		for _, entry := range a.Entries {
			if e, err := history.Parse(entry); err == nil {
				kinds = append(kinds, e.Kind)
			}
		}
	}
	return kinds
}

// puts returns the messages of a commit for a key.
func puts(tx *store.Tx, key store.Key) []store.Message {
	var found []store.Message
	for _, m := range tx.Put {
		if m.Key == key {
			found = append(found, m)
		}
	}
	return found
}

// finishes reports whether a commit acknowledges what was delivered to a key.
func finishes(tx *store.Tx, key store.Key) bool {
	return slices.ContainsFunc(tx.Finish, func(f store.Finish) bool { return f.Lease.Key == key })
}

// pending returns the messages that wait for a key.
func (r *rig) pending(key store.Key) []store.Message {
	r.Helper()
	ms, err := r.tape.Pending(r.Context(), key, 0)
	r.must(err)
	return ms
}

// quarantined returns what is in quarantine.
func (r *rig) quarantined() []store.Record {
	r.Helper()
	page, err := r.tape.List(r.Context(), store.Query{Kind: store.KindQuarantine})
	r.must(err)
	return page.Records
}

// crash claims what is ready in a queue, as a process does that is lost then, n times.
func (r *rig) crash(queue, route string, n int) {
	r.Helper()
	for range n {
		claims, err := r.tape.Claim(r.Context(), store.ClaimRequest{Queue: queue, Routes: []string{route}, Max: 10, Lease: time.Millisecond})
		r.must(err)
		if len(claims) == 0 {
			r.Fatal("nothing to claim")
		}
		<-time.After(2 * time.Millisecond)
	}
}

// What orchestrations of tests are made of.

func done(s string) replay.Outcome { return replay.Outcome{Data: []byte(s)} }

func failed(f *history.Failure) replay.Outcome { return replay.Outcome{Failure: f} }

// outcome ends with what a future says.
func outcome(c *replay.Context, f *replay.Future) replay.Outcome {
	c.Wait(f)
	data, failure := f.Result()
	return replay.Outcome{Data: data, Failure: failure}
}

func sleep(c *replay.Context, d time.Duration) *history.Failure {
	f := c.Timer("", c.Now().Add(d))
	c.Wait(f)
	_, failure := f.Result()
	return failure
}

func receive(c *replay.Context, name string) string {
	f := c.Receive(name)
	c.Wait(f)
	data, _ := f.Result()
	return string(data)
}

// waiter waits for an event and returns what comes with it.
func waiter(c *replay.Context, _ []byte) replay.Outcome { return done(receive(c, "go")) }

// echo is an activity that returns its input.
func echo(_ context.Context, t *Task) ([]byte, *history.Failure) { return t.Input, nil }

// caller calls the activity that is its input.
func caller(c *replay.Context, in []byte) replay.Outcome {
	return outcome(c, c.Activity(string(in), []byte("x"), history.Activity{MaxAttempts: 1}))
}

func failure(format string, args ...any) *history.Failure {
	return &history.Failure{Message: fmt.Sprintf(format, args...)}
}

// unfused has every turn claimed.
func unfused(c *Config) { c.Unfused = true }

// warm has the engine know the store's time, as after a claim, so that it fuses turns from now on.
func (r *rig) warm() {
	r.Helper()
	stats, err := r.tape.Stats(r.Context())
	r.must(err)
	r.fuser.times.note(stats.Now, time.Now())
}
