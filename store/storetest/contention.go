package storetest

import (
	"context"
	"errors"
	"fmt"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"github.com/abidehq/abide/internal/testenv"
	"github.com/abidehq/abide/store"
)

var contentionCases = []propertyCase{
	{name: "a thousand callers at once get a thousand keys, each key once", run: func(w *world) {
		const callers = 1000
		var messages []store.Message
		for i := range callers {
			messages = append(messages, msg(key(fmt.Sprintf("order-%d", i)), "m"))
		}
		w.putMessages(messages...)
		results := together(callers, func(int) result {
			claims, err := w.Store.Claim(w.ctx, request(upTo(1)))
			return result{claims, err}
		})
		seen := map[store.Key]bool{}
		tokens := map[store.Token]bool{}
		for i, r := range results {
			if r.err != nil || len(r.claims) != 1 {
				w.t.Fatalf("caller %d of %d got %d keys and error %v, want one of the %d ready keys", i, callers, len(r.claims), r.err, callers)
			}
			c := r.claims[0]
			if seen[c.Key] || tokens[c.Token] {
				w.t.Fatalf("%v or its token was claimed twice", c.Key)
			}
			seen[c.Key], tokens[c.Token] = true, true
		}
		for i, err := range together(callers, func(i int) error { return w.Store.Commit(w.ctx, finishTx(results[i].claims...)) }) {
			if err != nil {
				w.t.Fatalf("caller %d could not finish: %v", i, err)
			}
		}
		w.equal("number of rows", len(w.stats().Routes), 0)
	}},

	{name: "callers that wait each get a key of their own", run: func(w *world) {
		const callers = 200
		// Some come before the messages and some after them.
		var started sync.WaitGroup
		started.Add(callers / 2)
		results := together(callers+1, func(i int) result {
			if i == callers {
				started.Wait()
				return result{err: w.putOneByOne(callers)}
			}
			if i%2 == 0 {
				started.Done()
			}
			claims, err := w.Store.Claim(w.ctx, request(upTo(1), waitFor(time.Hour)))
			return result{claims, err}
		})
		if err := results[callers].err; err != nil {
			w.t.Fatalf("put: %v", err)
		}
		seen := map[store.Key]bool{}
		for i, r := range results[:callers] {
			if r.err != nil || len(r.claims) != 1 || seen[r.claims[0].Key] {
				w.t.Fatalf("caller %d got %v and error %v, want a key of its own", i, describe(r.claims), r.err)
			}
			seen[r.claims[0].Key] = true
		}
	}},

	{name: "producers and consumers at once lose nothing, repeat nothing and keep the order", run: func(w *world) {
		m := &market{w: w, producers: 8, each: 500, keys: 50, consumers: 16}
		m.run()
		m.check()
	}},

	{name: "appends at once to one log leave no gap and repeat nothing", run: func(w *world) {
		const each = 15
		writers := contenders(12)
		k := key("order-1")
		for i, err := range together(writers, func(i int) error { return w.appendInTurn(k, i, each) }) {
			if err != nil {
				w.t.Fatalf("writer %d: %v", i, err)
			}
		}
		w.eachInOrder(w.logTexts(k), writers, each)
	}},

	{name: "renewals at once with the end of a lease do not bring it back", run: func(w *world) {
		for round := range 50 {
			k := key(fmt.Sprintf("order-%d", round))
			w.put(k, "m")
			c := w.claimOne()
			errs := together(8, func(i int) error {
				if i == 3 {
					return w.Store.Commit(w.ctx, finishTx(c))
				}
				_, err := w.Store.Renew(w.ctx, time.Hour, []store.Lease{c.Lease()})
				return err
			})
			if err := errors.Join(errs...); err != nil {
				w.t.Fatal(err)
			}
			w.isLost(c)
			w.put(k, "n")
			w.finish(w.claimKey(k, []string{"n"}))
		}
	}},

	{name: "a counter that is put at its version by many at once counts them all", run: func(w *world) {
		const each = 4
		writers := contenders(32)
		k := recordKey("counter")
		for i, err := range together(writers, func(int) error { return w.count(k, each) }) {
			if err != nil {
				w.t.Fatalf("writer %d: %v", i, err)
			}
		}
		w.equal("counter", string(w.isVersion(k, int64(writers*each)).Body), strconv.Itoa(writers*each))
	}},

	{name: "a counter that is put at any version by many at once has a version for each", run: func(w *world) {
		const writers, each = 16, 25
		k := recordKey("counter")
		for _, err := range together(writers, func(int) error {
			for range each {
				if err := w.Store.Commit(w.ctx, putTx(k, store.AnyVersion, "x")); err != nil {
					return err
				}
			}
			return nil
		}) {
			if err != nil {
				w.t.Fatal(err)
			}
		}
		w.isVersion(k, writers*each)
	}},

	{name: "a message that is put by many at once is one message", run: func(w *world) {
		k := key("order-1")
		for _, err := range together(50, func(i int) error {
			return w.Store.Commit(w.ctx, &store.Tx{Put: []store.Message{msg(k, "m", withBody([]byte{byte(i)}))}})
		}) {
			if err != nil {
				w.t.Fatal(err)
			}
		}
		w.equal("number of bytes of the body", len(w.pendingOne(k).Body), 1)
		w.isRow(1, 1)
	}},
}

// result is what a Claim call returned.
type result struct {
	claims []store.Claim
	err    error
}

// putOneByOne puts n keys in n commits.
func (w *world) putOneByOne(n int) error {
	for i := range n {
		if err := w.Store.Commit(w.ctx, &store.Tx{Put: []store.Message{msg(key(fmt.Sprintf("order-%d", i)), "m")}}); err != nil {
			return err
		}
	}
	return nil
}

// appendInTurn appends n entries to a log, one by one, reading its length again
// whenever another writer was faster.
func (w *world) appendInTurn(k store.Key, writer, n int) error {
	length := 0
	for i := range n {
		for {
			err := w.Store.Commit(w.ctx, appendTx(k, length, fmt.Sprintf("%d/%d", writer, i)))
			if err == nil {
				length++
				break
			}
			if !errors.Is(err, store.ErrConflict) {
				return err
			}
			page, err := w.Store.ReadLog(w.ctx, k, length)
			if err != nil {
				return err
			}
			length = page.Length
		}
	}
	return nil
}

// eachInOrder checks that texts like 3/17 are there once for each writer and number,
// and that those of each writer are in order.
func (w *world) eachInOrder(texts []string, writers, each int) {
	w.t.Helper()
	next := make([]int, writers)
	for _, text := range texts {
		writer, number, _ := strings.Cut(text, "/")
		i, err := strconv.Atoi(writer)
		if err != nil || i >= writers || number != strconv.Itoa(next[i]) {
			w.t.Fatalf("got %q, want number %d of its writer", text, next[i])
		}
		next[i]++
	}
	w.equal("number of entries", len(texts), writers*each)
}

// contenders returns how many are at one thing at a time, of whom one succeeds and the others
// try again, so that twice as many take four times as long: fewer under the race detector,
// which sees each pair of them, however many there are.
func contenders(n int) int {
	if testenv.Raced && !testenv.Long() {
		return n / 3
	}
	return n
}

// count adds n to a counter in a record, one by one.
func (w *world) count(k store.RecordKey, n int) error {
	for done := 0; done < n; {
		r, err := w.Store.Get(w.ctx, k)
		if err != nil && !errors.Is(err, store.ErrNotFound) {
			return err
		}
		value := 0
		if err == nil {
			if value, err = strconv.Atoi(string(r.Body)); err != nil {
				return err
			}
		}
		next := store.Record{Key: k, Body: []byte(strconv.Itoa(value + 1))}
		err = w.Store.Commit(w.ctx, &store.Tx{PutRecords: []store.PutRecord{{Record: next, Expect: r.Version}}})
		if err == nil {
			done++
		} else if !errors.Is(err, store.ErrConflict) {
			return err
		}
	}
	return nil
}

// market is a number of producers that put messages and consumers that move them to
// the log of their key. Some claims are given back before they are finished.
type market struct {
	w                                *world
	producers, each, keys, consumers int

	consumed atomic.Int64
	stop     context.CancelFunc
}

func (m *market) key(i int) store.Key { return key(fmt.Sprintf("order-%d", i%m.keys)) }

func (m *market) run() {
	ctx, cancel := context.WithCancel(m.w.ctx)
	m.stop = cancel
	defer cancel()
	errs := together(m.producers+m.consumers, func(i int) error {
		var err error
		if i < m.producers {
			err = m.produce(ctx, i)
		} else {
			err = m.consume(ctx, i)
		}
		if err != nil {
			cancel() // nobody waits for what will not come
		}
		return err
	})
	if err := errors.Join(errs...); err != nil {
		m.w.t.Fatal(err)
	}
}

func (m *market) produce(ctx context.Context, producer int) error {
	for i := range m.each {
		message := msg(m.key(i), fmt.Sprintf("%d/%d", producer, i/m.keys))
		if err := m.w.Store.Commit(ctx, &store.Tx{Put: []store.Message{message}}); err != nil {
			return fmt.Errorf("producer %d: %w", producer, err)
		}
	}
	return nil
}

func (m *market) consume(ctx context.Context, consumer int) error {
	for round := 0; ; round++ {
		claims, err := m.w.Store.Claim(ctx, request(upTo(1+consumer%4), waitFor(time.Hour)))
		if err != nil {
			if m.consumed.Load() == int64(m.producers*m.each) {
				return nil // the last one cancelled all
			}
			return fmt.Errorf("consumer %d: claim: %w", consumer, err)
		}
		for _, c := range claims {
			if round%7 == 6 {
				err = m.w.Store.Release(m.w.ctx, store.Release{Lease: c.Lease()})
			} else {
				err = m.finish(c)
			}
			if err != nil {
				return fmt.Errorf("consumer %d: %w", consumer, err)
			}
		}
	}
}

// finish moves the messages of a claim to the log of the key. It does not use the
// context that ends when all are consumed, as it may be what consumes the last.
func (m *market) finish(c store.Claim) error {
	tx := finishTx(c)
	tx.Append = []store.Append{{Key: c.Key, At: c.LogLength, Entries: entries(idsOf(c.Messages)...)}}
	if err := m.w.Store.Commit(m.w.ctx, tx); err != nil {
		return err
	}
	if m.consumed.Add(int64(len(c.Messages))) == int64(m.producers*m.each) {
		m.stop()
	}
	return nil
}

func (m *market) check() {
	for i := range m.keys {
		m.w.isPending(m.key(i))
		m.w.eachInOrder(m.w.logTexts(m.key(i)), m.producers, m.each/m.keys)
	}
	m.w.equal("number of consumed messages", m.consumed.Load(), int64(m.producers*m.each))
}
