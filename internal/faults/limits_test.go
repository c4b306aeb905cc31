package faults_test

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"strconv"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/abidehq/abide"
	"github.com/abidehq/abide/internal/testenv"
	"github.com/abidehq/abide/store"
	"github.com/abidehq/abide/store/storetest"
)

// TestLimitsAtRandom has work under limits of several kinds run on engines whose calls fail at random and which
// are killed at random, while instances are ended and limits are changed. Watched from the activities, a limit is
// never exceeded; in the end all work is done and no unit is held.
func TestLimitsAtRandom(t *testing.T) {
	t.Parallel()
	runs := 20
	if testenv.Long() {
		runs = 1000
	}
	seed := testenv.Seed(t)
	for run := range runs {
		limitsAtRandom(t, seed+uint64(run))
		if t.Failed() {
			t.Fatalf("it has failed with seed %d: make it a case of TestLimitsSeeds", seed+uint64(run))
		}
	}
}

// TestLimitsSeeds are seeds with which TestLimitsAtRandom has failed once.
func TestLimitsSeeds(t *testing.T) {
	t.Parallel()
	for _, seed := range []uint64{1, 5651173509572094266, 680822835433151474, 3853447629380467477, 4908739322304958141, 5580746789672485690} {
		t.Run(strconv.FormatUint(seed, 10), func(t *testing.T) { limitsAtRandom(t, seed) })
	}
}

// underWay counts what runs, by limit and key.
type underWay struct {
	t     *testing.T
	mu    sync.Mutex
	n     map[string]int
	most  map[string]int // that are allowed
	begun map[string][]time.Time
}

// do counts work for as long as it runs.
func (u *underWay) do(ctx context.Context, d time.Duration, gates ...string) error {
	u.mu.Lock()
	for _, gate := range gates {
		u.n[gate]++
		if most := u.most[gate]; most > 0 && u.n[gate] > most {
			u.t.Errorf("%d are under way under %s, at most %d may be", u.n[gate], gate, most)
		}
		u.begun[gate] = append(u.begun[gate], time.Now())
	}
	u.mu.Unlock()
	defer func() {
		u.mu.Lock()
		defer u.mu.Unlock()
		for _, gate := range gates {
			u.n[gate]--
		}
	}()
	select {
	case <-time.After(d):
		return nil
	case <-ctx.Done():
		return context.Cause(ctx)
	}
}

// checkRate checks that at most burst and rate a second have begun in any time span.
func (u *underWay) checkRate(gate string, rate, burst float64) {
	begun := u.begun[gate]
	for i, from := range begun {
		for k, to := range begun[i:] {
			if float64(k+1) > burst+rate*to.Sub(from).Seconds()+0.01 {
				u.t.Errorf("%d have begun under %s within %v", k+1, gate, to.Sub(from))
				return
			}
		}
	}
}

// The limits of the random test. Operators change one of them, whose work is not counted.
var (
	limitTwo     = abide.NewLimit("two", abide.Concurrency(2))
	limitUser    = abide.NewLimit("user", abide.Concurrency(1), abide.PerKey())
	limitRate    = abide.NewLimit("rate", abide.Rate(5, time.Second).Burst(2))
	limitChanged = abide.NewLimit("changed", abide.Concurrency(1))
)

type limitWork struct {
	N    int
	User string
}

func limitsAtRandom(t *testing.T, seed uint64) {
	t.Helper()
	synctest.Test(t, func(t *testing.T) {
		rnd := rand.New(rand.NewPCG(seed, 0))
		u := &underWay{t: t, n: map[string]int{}, most: map[string]int{"two": 2}, begun: map[string][]time.Time{}}
		for i := range 3 {
			u.most[fmt.Sprint("user-", i)] = 1
		}
		job := abide.NewActivity("job", func(ctx context.Context, w limitWork) (int, error) {
			gates := [][]string{{"two"}, {w.User}, {"two", w.User}, {"rate"}, {"changed"}}[w.N%5]
			if err := u.do(ctx, time.Duration(w.N%4)*700*time.Millisecond, gates...); err != nil {
				return 0, err
			}
			if info, _ := abide.ActivityOf(ctx); w.N%3 == 0 && info.Attempt == 1 {
				return 0, errors.New("the first attempt fails")
			}
			return w.N, nil
		}, abide.Retry(0))
		flow := abide.NewOrchestration("flow", func(ctx abide.Context, w limitWork) (int, error) {
			under := [][]abide.ActivityOption{
				{abide.Under(limitTwo)}, {abide.UnderKey(limitUser, w.User)}, {abide.UnderKey(limitUser, w.User), abide.Under(limitTwo)},
				{abide.Under(limitRate)}, {abide.Under(limitChanged)},
			}[w.N%5]
			return job.Call(ctx, w, under...)
		})
		w := newWorld(t, job, flow)
		operator := abide.NewClient(w.store, nil)
		engines, stores := [2]*abide.Engine{}, [2]*storetest.Faulty{}
		open := func(i int) {
			if engines[i] != nil {
				stores[i].Kill()
				stop(engines[i])
			}
			stores[i] = storetest.NewFaulty(w.store, failOnceIn(20, rnd))
			engines[i] = w.engine(stores[i], quick)
		}
		open(0)
		open(1)
		var program []string
		defer func() {
			if t.Failed() {
				t.Logf("seed %d:\n%s", seed, strings.Join(program, "\n"))
			}
		}()
		ended := map[string]bool{}
		for n := range 60 {
			id := strconv.Itoa(n)
			switch k := rnd.IntN(12); k {
			case 0:
				i := rnd.IntN(2)
				program = append(program, fmt.Sprintf("%8v  engine %d is killed", time.Since(w.begun), i))
				open(i)
			case 1:
				other := strconv.Itoa(rnd.IntN(n + 1))
				err := w.client.Terminate(t.Context(), abide.Ref{ID: other}, "")
				ended[other] = ended[other] || err == nil
				program = append(program, fmt.Sprintf("%8v  terminate %s: %v", time.Since(w.begun), other, err))
			case 2:
				change := abide.LimitChange{Set: &abide.LimitRule{Concurrency: 1 + rnd.IntN(4)}}
				if rnd.IntN(2) == 0 {
					change = abide.LimitChange{Unset: true}
				}
				_, err := operator.ChangeLimit(t.Context(), "", "changed", change)
				program = append(program, fmt.Sprintf("%8v  change: %v", time.Since(w.begun), err))
			}
			opts := []abide.StartOption{abide.ID(id), abide.Priority(rnd.IntN(5) - 2)}
			if rnd.IntN(4) == 0 {
				opts = append(opts, abide.UnderKey(limitUser, "instances"))
			}
			in := limitWork{N: rnd.IntN(60), User: fmt.Sprint("user-", rnd.IntN(3))}
			_, err := flow.Start(t.Context(), w.client, in, opts...)
			w.do(err)
			program = append(program, fmt.Sprintf("%8v  start %s: %+v", time.Since(w.begun), id, in))
			pass(time.Duration(rnd.IntN(4)*rnd.IntN(500)) * time.Millisecond)
		}
		for _, f := range stores {
			f.Plan(nil)
		}
		program = append(program, fmt.Sprintf("%8v  nothing fails from here on", time.Since(w.begun)))
		pass(10 * unit)
		synctest.Wait()
		for _, info := range w.all() {
			if !info.Status.Ended() || info.Status != abide.Completed && !ended[info.Ref.ID] {
				t.Errorf("instance %v is %s: %s %v\n%s", info.Ref, info.Status, info.Reason, info.Err, w.dump(info.Ref.ID))
			}
		}
		u.checkRate("rate", 5, 2)
		limits, err := operator.Limits(t.Context(), "")
		w.do(err)
		for _, l := range limits {
			if l.InUse != 0 || l.Waiting != 0 {
				t.Errorf("in the end %d are under way and %d wait under %s", l.InUse, l.Waiting, l.Name)
			}
		}
		for _, kind := range []string{"gate", "waiting"} {
			page, err := w.store.List(t.Context(), store.Query{Kind: kind})
			w.do(err)
			for _, r := range page.Records {
				if kind == "waiting" || strings.Contains(r.Key.ID, "/") { // a gate without keys keeps its record
					pending, _ := w.store.Pending(t.Context(), store.Key{Queue: "limits", Name: r.Key.ID}, 0)
					t.Errorf("record %v is left, %s at %v: %q; its messages: %+v", r.Key, r.Status, r.Time, r.Body, pending)
				}
			}
		}
	})
}
