package timer_test

import (
	"encoding/json"
	"errors"
	"math/rand/v2"
	"os"
	"path/filepath"
	"strconv"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/abidehq/abide/internal/check"
	"github.com/abidehq/abide/internal/rig"
	"github.com/abidehq/abide/timer"
)

// child is what the other process of the crash test is.
type child struct {
	service *timer.Service
	run     int
	calls   atomic.Int64
	numbers atomic.Int64

	mu  sync.Mutex
	log *os.File
}

// TestCrashChild is not a test: it is what the other process does, until it is killed.
func TestCrashChild(t *testing.T) {
	dir, ok := rig.InChild()
	if !ok {
		return // nobody has started it
	}
	run, err := strconv.Atoi(os.Getenv(crashRun))
	check.OK(t, err)
	log, err := os.OpenFile(filepath.Join(dir, "log"), os.O_APPEND|os.O_CREATE|os.O_WRONLY, 0o600)
	check.OK(t, err)
	w := newFaultWorldOn(t, rig.Disk(t, filepath.Join(dir, "store")))
	c := &child{run: run, log: log}
	c.numbers.Store(int64(run) * 1_000_000)
	for _, sink := range w.sinks {
		sink.plan(func(_ int, accepted bool) error {
			if !accepted {
				return nil
			}
			return c.write(sink)
		})
	}
	c.service = w.process(w.Store).Service
	var wg sync.WaitGroup
	for worker := range 8 {
		wg.Go(func() { c.work(t, worker) })
	}
	wg.Wait()
}

// write notes what has just arrived. What is in the file survives the process.
func (c *child) write(sink *faultSink) error {
	c.mu.Lock()
	defer c.mu.Unlock()
	for _, a := range sink.take() {
		data, err := json.Marshal(logged{Sink: sink.name, At: a.at, Envelope: a.Envelope})
		if err != nil {
			return err
		}
		if _, err := c.log.Write(append(data, '\n')); err != nil {
			return err
		}
	}
	return nil
}

// take returns what has arrived since it was called last.
func (s *faultSink) take() []arrival {
	s.mu.Lock()
	defer s.mu.Unlock()
	got := s.got
	s.got = nil
	return got
}

// work schedules timers for ever, and moves and cancels some of them.
func (c *child) work(t *testing.T, worker int) {
	rnd := rand.New(rand.NewPCG(uint64(c.run), uint64(worker)))
	for i := 0; ; i++ {
		key := strconv.Itoa(c.run) + "-" + strconv.Itoa(worker) + "-" + strconv.Itoa(i)
		tenant := "tenant" + strconv.Itoa(i%3)
		for range 1 + rnd.IntN(2) {
			due := time.Now().Add(time.Duration(rnd.IntN(100)-10) * time.Millisecond).Truncate(time.Millisecond)
			number := int(c.numbers.Add(1))
			c.ask(t, line{Verb: "schedule", Tenant: tenant, Key: key, Number: number, Due: due}, func() (timer.Timer, error) {
				return c.service.Schedule(t.Context(), timer.Request{
					Tenant: tenant, Key: key, DueAt: due, CorrelationID: "request", Payload: []byte(strconv.Itoa(number)),
				})
			})
		}
		if rnd.IntN(3) == 0 {
			c.ask(t, line{Verb: "cancel", Tenant: tenant, Key: key}, func() (timer.Timer, error) {
				return c.service.Cancel(t.Context(), tenant, key)
			})
		}
	}
}

// ask does something, and says so before and after.
func (c *child) ask(t *testing.T, l line, do func() (timer.Timer, error)) {
	l.Call, l.At = c.calls.Add(1), time.Now()
	c.say(t, &l)
	told, err := do()
	answer := line{Call: l.Call, Answer: true, At: time.Now(), Told: told, State: errors.Is(err, timer.ErrState)}
	if err != nil {
		answer.Told, answer.Error = timer.Timer{}, err.Error()
	}
	c.say(t, &answer)
}

// say says a line to who has started the process, in one piece.
func (*child) say(t *testing.T, l *line) {
	data, err := json.Marshal(l)
	if err == nil {
		_, err = os.Stdout.Write(append(data, '\n'))
	}
	if err != nil {
		t.Error(err)
	}
}
