package transfer_test

import (
	"context"
	"errors"
	"math/rand/v2"
	"slices"
	"strconv"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/abidehq/abide"
	"github.com/abidehq/abide/internal/check"
	"github.com/abidehq/abide/internal/transfer"
	"github.com/abidehq/abide/internal/wire"
	"github.com/abidehq/abide/store"
	"github.com/abidehq/abide/store/memstore"
)

// gateBody is the body of a gate at which so many wait, with what it has admitted.
func gateBody(waiting uint64, units ...[]byte) []byte {
	body := []byte{1}
	for _, u := range units {
		body = wire.AppendString(wire.AppendNumber(body, 2), u)
	}
	if waiting > 0 {
		body = wire.AppendString(wire.AppendNumber(body, 3), wire.AppendTime(wire.AppendNumber(nil, waiting), time.Now()))
	}
	return wire.AppendString(wire.AppendNumber(body, 99), "of a later release")
}

// unit is a unit that the second entry of work holds, until a time if it was withdrawn.
func unit(work string, until time.Time) []byte {
	return wire.AppendFlag(wire.AppendTimes(wire.AppendNumber(wire.AppendString(nil, work), 1), time.Now(), until), false)
}

// atGate is a message to a gate, or what waits at one.
func atGate(kind uint64, work string, admits []byte) []byte {
	body := wire.AppendNumber([]byte{1}, kind)
	body = wire.AppendString(body, work)
	body = wire.AppendString(body, "")
	body = wire.AppendNumber(wire.AppendNumber(body, 0), 1)
	body = wire.AppendFlag(body, false)
	body = wire.AppendTimes(body, time.Now(), time.Now())
	body = wire.AppendNumber(body, 100)
	for _, s := range []string{"activities", "order-1/x/1", "task", "charge"} {
		body = wire.AppendString(body, s)
	}
	return wire.AppendString(body, admits)
}

const (
	taskWork  = "a/order-1/x/1"
	startWork = "i/7/order-1"
)

var (
	running    = []store.PutRecord{record("instance", "order-1", "running", one)}
	itsHistory = []store.Append{log("turns", "order-1", 1)}
	itsTask    = message("activities", "order-1/x/1", "task", task("order-1"))
	look       = message("limits", "stripe", "look", atGate(4, "", nil))
)

func gateRecord(status string, body []byte) store.PutRecord {
	return record("gate", "stripe", status, body)
}

func waiting(work string, admits []byte) store.PutRecord {
	return record("waiting", work, "stripe", atGate(1, work, admits))
}

func records(lists ...[]store.PutRecord) []store.PutRecord { return slices.Concat(lists...) }

// TestRulesOfLimits breaks each of them.
func TestRulesOfLimits(t *testing.T) {
	t.Parallel()
	holding := []store.PutRecord{gateRecord("open", gateBody(0, unit(taskWork, time.Time{})))}
	started := []store.PutRecord{gateRecord("open", gateBody(0, unit(startWork, time.Time{})))}
	busy := []store.PutRecord{gateRecord("waiting", gateBody(1)), waiting(taskWork, task("order-1"))}
	pendingStart := []store.PutRecord{record("instance", "order-1", "pending", one)}
	limited := store.Message{Key: key("turns", "order-1"), ID: "start", Route: ".limited", Body: one}
	breakRules(t, []broken{
		{
			"every unit of a limit is held by work that has not ended", "gate gate/acme/stripe has a unit that a/order-1/x/1 holds, which is not there",
			store.Tx{PutRecords: holding},
			[]store.Tx{
				{PutRecords: []store.PutRecord{gateRecord("open", gateBody(0))}},
				{PutRecords: []store.PutRecord{gateRecord("open", one)}},
				{PutRecords: []store.PutRecord{gateRecord("open", gateBody(0, unit(taskWork, time.Now())))}},
				{PutRecords: records(holding, running), Append: itsHistory, Put: []store.Message{itsTask}},
				{PutRecords: records(holding, []store.PutRecord{quarantined("activities", "order-1/x/1")})},
				{PutRecords: holding, Put: []store.Message{message("limits", "stripe", "l/"+taskWork+"/1", atGate(2, taskWork, nil))}},
				{PutRecords: holding, Put: []store.Message{message("limits", "zoo", "w/"+taskWork, atGate(3, taskWork, nil))}},
				{PutRecords: records(holding, running), Append: itsHistory, Put: []store.Message{message("limits", "zoo", "e/"+taskWork, atGate(1, taskWork, task("order-1")))}},
				{
					PutRecords: records(holding, running, []store.PutRecord{
						record("gate", "zoo", "waiting", gateBody(1)), record("waiting", taskWork, "zoo", atGate(1, taskWork, task("order-1"))),
					}),
					Append: itsHistory, Put: []store.Message{message("limits", "zoo", "look", atGate(4, "", nil))},
				},
			},
		},
		{
			"every unit of a limit is held by work that has not ended", "has a unit that i/7/order-1 holds",
			store.Tx{PutRecords: records(started, []store.PutRecord{record("instance", "order-1", "completed", one)})},
			[]store.Tx{
				{PutRecords: records(started, running), Append: itsHistory},
				{PutRecords: started, Put: []store.Message{message("limits", "stripe", "l/"+startWork+"/1", atGate(2, startWork, nil))}},
			},
		},
		{
			"every unit of a limit is held by work that has not ended", "a/order-1/x/1 holds", // another entry leaves, and another gate
			store.Tx{PutRecords: holding, Put: []store.Message{
				message("limits", "stripe", "l/"+taskWork+"/0", atGate(2, taskWork, nil)), message("limits", "zoo", "l/"+taskWork+"/1", atGate(2, taskWork, nil)),
			}}, nil,
		},
		{
			"every unit of a limit is held by work that has not ended", "gate gate/acme/stripe cannot be read",
			store.Tx{PutRecords: []store.PutRecord{gateRecord("open", []byte{1, 2, 9})}}, nil,
		},
		{
			"every gate of a limit counts what waits at it", "gate gate/acme/stripe counts 2 that wait, and there are 1",
			store.Tx{
				PutRecords: records(running, []store.PutRecord{gateRecord("waiting", gateBody(2)), waiting(taskWork, task("order-1"))}),
				Append:     itsHistory, Put: []store.Message{look},
			},
			[]store.Tx{{PutRecords: records(running, busy), Append: itsHistory, Put: []store.Message{look}}},
		},
		{
			"every gate of a limit counts what waits at it", `counts 1 that wait, and its status is "open"`,
			store.Tx{
				PutRecords: records(running, []store.PutRecord{gateRecord("open", gateBody(1)), waiting(taskWork, task("order-1"))}),
				Append:     itsHistory, Put: []store.Message{look},
			}, nil,
		},
		{
			"every gate of a limit at which work waits has a message to look", "work waits at gate gate/acme/stripe, and it has no message",
			store.Tx{PutRecords: records(running, busy), Append: itsHistory},
			[]store.Tx{{PutRecords: records(running, busy, []store.PutRecord{quarantined("limits", "stripe")}), Append: itsHistory}},
		},
		{
			"everything that waits for a limit has its instance", `record waiting/acme/a/order-1/x/1 is of instance "order-1", which is not there`,
			store.Tx{PutRecords: busy, Put: []store.Message{look}},
			[]store.Tx{{PutRecords: busy, Put: []store.Message{look, message("limits", "stripe", "w/"+taskWork, atGate(3, taskWork, nil))}}},
		},
		{
			"everything that waits for a limit has its instance", `is of instance "order-1", which is terminated`,
			store.Tx{
				PutRecords: []store.PutRecord{gateRecord("waiting", gateBody(1)), waiting(startWork, nil), record("instance", "order-1", "terminated", one)},
				Put:        []store.Message{look},
			},
			[]store.Tx{{
				PutRecords: records(pendingStart, []store.PutRecord{gateRecord("waiting", gateBody(1)), waiting(startWork, nil)}), Put: []store.Message{look, limited},
			}},
		},
		{
			"everything that waits for a limit has its instance", `record waiting/acme/a/other cannot be read: it is of "a/order-1/x/1"`,
			store.Tx{
				PutRecords: records(running, []store.PutRecord{gateRecord("waiting", gateBody(1)), record("waiting", "a/other", "stripe", atGate(1, taskWork, task("order-1")))}),
				Append:     itsHistory, Put: []store.Message{look},
			}, nil,
		},
		{
			"everything that waits for a limit has the record of its gate", `waits at gate "stripe", which has no record`,
			store.Tx{PutRecords: records(running, []store.PutRecord{waiting(taskWork, task("order-1"))}), Append: itsHistory}, nil,
		},
		{
			"every message by which work enters a limit has its instance", `message limits/acme/stripe#e/a/order-1/x/1 is of instance "order-1", which is not there`,
			store.Tx{Put: []store.Message{message("limits", "stripe", "e/"+taskWork, atGate(1, taskWork, task("order-1")))}},
			[]store.Tx{{PutRecords: running, Append: itsHistory, Put: []store.Message{message("limits", "stripe", "e/"+taskWork, atGate(1, taskWork, task("order-1")))}}},
		},
		{
			"every message by which work enters a limit has its instance", "cannot be read",
			store.Tx{Put: []store.Message{message("limits", "stripe", "e/"+taskWork, []byte{1, 1, 9})}}, nil,
		},
		{
			"every start that waits for a limit is at a gate", "turns/acme/order-1 waits for a limit, and is at no gate",
			store.Tx{PutRecords: pendingStart, Put: []store.Message{limited}},
			[]store.Tx{
				{PutRecords: pendingStart, Put: []store.Message{limited, message("limits", "stripe", "e/"+startWork, atGate(1, startWork, nil))}},
				{PutRecords: pendingStart, Put: []store.Message{limited, {Key: key("control", "order-1"), ID: "admit", Route: ".control", Body: one}}},
			},
		},
	})
}

// exports is a program whose work waits for limits.
type exports struct {
	t     *testing.T
	flow  *abide.Orchestration[string, abide.None]
	write *abide.Activity[string, abide.None]
	whole *abide.Orchestration[string, abide.None]

	mu      sync.Mutex
	takes   func() (time.Duration, error) // what an activity does, if it is not nil
	written []string                      // in order
}

var (
	oneWriter = abide.NewLimit("writer", abide.Concurrency(1))
	perDisk   = abide.NewLimit("disk", abide.Concurrency(10), abide.PerKey())
	oneWhole  = abide.NewLimit("whole", abide.Concurrency(1), abide.Rate(100, time.Second))
)

func newExports(t *testing.T) *exports {
	e := &exports{t: t}
	e.write = abide.NewActivity("write", func(ctx context.Context, name string) (abide.None, error) {
		e.mu.Lock()
		e.written = append(e.written, name)
		d, err := time.Duration(0), error(nil)
		if e.takes != nil {
			d, err = e.takes()
		}
		e.mu.Unlock()
		select {
		case <-ctx.Done():
			return abide.None{}, ctx.Err()
		case <-time.After(d):
			return abide.None{}, err
		}
	})
	e.flow = abide.NewOrchestration("export", func(ctx abide.Context, name string) (abide.None, error) {
		return e.write.Call(ctx, name, abide.Under(oneWriter), abide.UnderKey(perDisk, "sda"), abide.Retry(3))
	})
	e.whole = abide.NewOrchestration("whole", func(ctx abide.Context, name string) (abide.None, error) {
		return e.write.Call(ctx, name, abide.Under(oneWriter))
	})
	return e
}

// on calls f with an engine on a store.
func (e *exports) on(s store.Store, f func(ctx context.Context, engine *abide.Engine)) {
	engine, err := abide.New(s, abide.Config{Register: []abide.Definition{e.flow, e.whole, e.write}, Logger: quiet})
	check.OK(e.t, err)
	f(context.Background(), engine)
	if err := engine.Close(); err != nil && !errors.Is(err, context.DeadlineExceeded) { // activities may be under way
		e.t.Error(err)
	}
}

// TestWorkThatWaitsForALimitIsAdmittedAfterACopy once, in its order.
func TestWorkThatWaitsForALimitIsAdmittedAfterACopy(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		e := newExports(t)
		from, to := memstore.New(memstore.Options{}), memstore.New(memstore.Options{})
		defer func() { check.OK(t, from.Close()) }()
		defer func() { check.OK(t, to.Close()) }()
		first := []string{"first", "second", "third", "urgent"}
		wholes := []string{"whole-1", "whole-2", "whole-3"}
		e.on(from, func(ctx context.Context, engine *abide.Engine) {
			_, err := engine.ChangeLimit(ctx, "", "writer", abide.LimitChange{Set: &abide.LimitRule{Concurrency: 3}, Paused: new(true)})
			check.OK(t, err)
			for i, name := range first {
				opts := []abide.StartOption{abide.ID(name)}
				if i == 3 {
					opts = append(opts, abide.Priority(10))
				}
				_, err := e.flow.Start(ctx, engine, name, opts...)
				check.OK(t, err)
				<-time.After(time.Second)
			}
			for _, name := range wholes {
				_, err := e.whole.Start(ctx, engine, name, abide.ID(name), abide.Under(oneWhole))
				check.OK(t, err)
				<-time.After(time.Second)
			}
			_, err = e.whole.Start(ctx, engine, "not wanted", abide.ID("gone"), abide.Under(oneWhole))
			check.OK(t, err)
			check.OK(t, engine.Terminate(ctx, abide.Ref{ID: "gone"}, "a test"))
			<-time.After(2 * time.Minute) // audits of the gates
		})
		n, err := from.Count(t.Context(), store.Query{Kind: "waiting"}, store.MaxCount)
		check.OK(t, err)
		check.Equal(t, "that wait", n, 7) // five activities, and two instances
		whole(t, from)
		c := transfer.Copy{From: from, To: to, Source: source}
		report, err := c.Run(t.Context())
		check.OK(t, err)
		check.Equal(t, "the copy is the same", report.Total.Same(), true)
		whole(t, to)

		e.on(to, func(ctx context.Context, engine *abide.Engine) {
			_, err := engine.ChangeLimit(ctx, "", "writer", abide.LimitChange{Unset: true, Paused: new(false)})
			check.OK(t, err)
			for _, name := range slices.Concat(first, wholes) {
				_, err := engine.WaitEnd(ctx, abide.Ref{ID: name})
				check.OK(t, err)
			}
			synctest.Wait()
		})
		check.Equal(t, "written", strings.Join(e.written, " "), "urgent first second third whole-1 whole-2 whole-3")
		whole(t, to)
	})
}

// TestRulesOfLimitsAreNoStricterThanTheEngine stops an engine at any time, with work of all kinds under limits.
func TestRulesOfLimitsAreNoStricterThanTheEngine(t *testing.T) {
	t.Parallel()
	for seed := range uint64(12) {
		t.Run(strconv.FormatUint(seed, 10), func(t *testing.T) {
			t.Parallel()
			synctest.Test(t, func(t *testing.T) {
				s := memstore.New(memstore.Options{})
				defer func() { check.OK(t, s.Close()) }()
				random := rand.New(rand.NewPCG(seed, 1))
				e := newExports(t)
				of := rand.New(rand.NewPCG(seed, 2)) // the activities'
				e.takes = func() (time.Duration, error) {
					return time.Duration(of.IntN(3000)) * time.Millisecond, []error{nil, nil, errors.New("again")}[of.IntN(3)]
				}
				for range 4 {
					e.on(s, func(ctx context.Context, engine *abide.Engine) { e.useAtRandom(ctx, engine, random) })
					whole(t, s)
				}
			})
		})
	}
}

// useAtRandom starts and ends instances.
func (e *exports) useAtRandom(ctx context.Context, engine *abide.Engine, random *rand.Rand) {
	for range 60 {
		id := []string{"export-", "whole-"}[random.IntN(2)] + strconv.Itoa(random.IntN(10))
		var err error
		switch random.IntN(8) {
		case 0:
			err = engine.Cancel(ctx, abide.Ref{ID: id}, "a test")
		case 1:
			err = engine.Terminate(ctx, abide.Ref{ID: id}, "a test")
		case 2:
			err = engine.Delete(ctx, abide.Ref{ID: id})
		default:
			if strings.HasPrefix(id, "export") {
				_, err = e.flow.Start(ctx, engine, id, abide.ID(id), abide.ReplaceEnded())
				break
			}
			_, err = e.whole.Start(ctx, engine, id, abide.ID(id), abide.Under(oneWhole), abide.ReplaceEnded())
		}
		if err != nil && !errors.Is(err, abide.ErrState) && !errors.Is(err, abide.ErrNotFound) {
			e.t.Error(err)
		}
		<-time.After(time.Duration(random.IntN(500)) * time.Millisecond)
	}
}

// whole checks that a store keeps all rules.
func whole(t *testing.T, s store.Portable) {
	t.Helper()
	found, checked := problems(t, s)
	for _, p := range found {
		t.Errorf("%s: %s", p.Rule, p.Found)
	}
	check.Equal(t, "unknown", checked.Unknown, 0)
}
