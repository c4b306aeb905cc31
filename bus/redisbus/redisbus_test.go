package redisbus_test

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strconv"
	"sync"
	"testing"
	"time"

	"github.com/redis/rueidis"

	"github.com/abidehq/abide/bus"
	"github.com/abidehq/abide/bus/bustest"
	"github.com/abidehq/abide/bus/redisbus"
	"github.com/abidehq/abide/internal/check"
	"github.com/abidehq/abide/internal/testenv"
)

func newBus(t *testing.T, cfg redisbus.Config) *redisbus.Bus {
	t.Helper()
	b, err := redisbus.New(cfg)
	check.OK(t, err)
	t.Cleanup(b.Close)
	return b
}

// newClient returns a connection of the test's own.
func newClient(t *testing.T, addr string) rueidis.Client {
	t.Helper()
	client, err := rueidis.NewClient(rueidis.ClientOption{InitAddress: []string{addr}, DisableCache: true})
	check.OK(t, err)
	t.Cleanup(client.Close)
	return client
}

// received reads back all that is in a stream, and checks what is written beside the
// envelopes.
func received(t *testing.T, addr, stream string) []bus.Envelope {
	t.Helper()
	client := newClient(t, addr)
	defer client.Close()
	entries, err := client.Do(t.Context(), client.B().Xrange().Key(stream).Start("-").End("+").Build()).AsXRange()
	check.OK(t, err)
	var list []bus.Envelope
	for _, entry := range entries {
		f := entry.FieldValues
		e, err := bus.Decode([]byte(f["envelope"]))
		check.OK(t, err)
		if len(f) != 6 || f["id"] != e.ID || f["type"] != e.Type || f["tenant"] != e.TenantID || f["correlation"] != e.CorrelationID ||
			f["time"] != strconv.FormatInt(e.TimestampMs, 10) {
			t.Errorf("the fields beside envelope %s are %q", e.ID, f)
		}
		list = append(list, e)
	}
	return list
}

func do(t *testing.T, addr string, command ...string) rueidis.RedisResult {
	t.Helper()
	client := newClient(t, addr)
	defer client.Close()
	result := client.Do(t.Context(), client.B().Arbitrary(command...).Build())
	if err := result.Error(); err != nil {
		t.Fatalf("%q: %v", command, err)
	}
	return result
}

func envelopes(first, count int) []bus.Envelope {
	list := make([]bus.Envelope, count)
	for i := range list {
		list[i] = bus.Envelope{
			ID: fmt.Sprintf("01938a5e-7c00-7000-8000-%012x", first+i), Type: "DueTimeReached", TenantID: "acme",
			TimestampMs: 1_731_660_000_000, Payload: fmt.Appendf(nil, `{"n":%d}`, i),
		}
	}
	return list
}

func TestBusPassesTheSuite(t *testing.T) {
	t.Parallel()
	bustest.Run(t, func(t *testing.T) bustest.Sink {
		server := testenv.Redis(t)
		return bustest.Sink{
			Bus:          newBus(t, redisbus.Config{Addresses: []string{server.Addr}}),
			Received:     func() []bus.Envelope { return received(t, server.Addr, "abide:events") },
			Deduplicates: true,
			TooLarge:     bus.MaxPayload + 1,
			Stop:         server.Stop,
			Start:        server.Start,
			Hang:         server.Hang,
		}
	})
}

// TestBusPassesTheSuiteAfterACrash: the server is killed, and what it had accepted is
// on disk.
func TestBusPassesTheSuiteAfterACrash(t *testing.T) {
	t.Parallel()
	bustest.Run(t, func(t *testing.T) bustest.Sink {
		server := testenv.Redis(t)
		return bustest.Sink{
			Bus:          newBus(t, redisbus.Config{Client: newClient(t, server.Addr), Stream: "{mine}:events"}),
			Received:     func() []bus.Envelope { return received(t, server.Addr, "{mine}:events") },
			Deduplicates: true,
			Stop:         server.Kill,
			Start:        server.Start,
		}
	})
}

func TestTheServerIsKilledDuringPublishing(t *testing.T) {
	t.Parallel()
	server := testenv.Redis(t)
	b := newBus(t, redisbus.Config{Addresses: []string{server.Addr}})
	const publishers, batches, size = 4, 30, 20
	list := envelopes(0, publishers*batches*size)
	halfway := make(chan struct{}, publishers)
	var wg sync.WaitGroup
	for own := range slices.Chunk(list, batches*size) {
		wg.Go(func() {
			n := 0
			for batch := range slices.Chunk(own, size) {
				if n++; n == batches/2 {
					halfway <- struct{}{}
				}
				check.Eventually(t, "a batch to be accepted", func() bool { return b.Publish(t.Context(), batch) == nil })
			}
		})
	}
	<-halfway
	server.Kill()
	server.Start()
	wg.Wait()
	times := map[string]int{}
	for _, e := range received(t, server.Addr, "abide:events") {
		times[e.ID]++
	}
	for _, e := range list {
		if times[e.ID] != 1 {
			t.Fatalf("envelope %s is in the stream %d times", e.ID, times[e.ID])
		}
	}
}

// TestAnEntryThatFailsIsNotTakenForADuplicate: the key that says that the stream has
// had it must not be there, or the envelope would be lost.
func TestAnEntryThatFailsIsNotTakenForADuplicate(t *testing.T) {
	t.Parallel()
	server := testenv.Redis(t)
	b := newBus(t, redisbus.Config{Addresses: []string{server.Addr}})
	list := envelopes(0, 3)
	do(t, server.Addr, "SET", "abide:events", "not a stream")
	for i, err := range bus.Outcomes(b.Publish(t.Context(), list), len(list)) {
		if err == nil || errors.Is(err, bus.ErrPermanent) {
			t.Errorf("outcome %d: %v, want an error that goes away", i, err)
		}
	}
	do(t, server.Addr, "DEL", "abide:events")
	check.OK(t, b.Publish(t.Context(), list))
	if got := received(t, server.Addr, "abide:events"); len(got) != len(list) {
		t.Errorf("the stream has %d envelopes, want %d", len(got), len(list))
	}
}

// TestAFullServerFailsAndLosesNothing: one without memory left refuses writes.
func TestAFullServerFailsAndLosesNothing(t *testing.T) {
	t.Parallel()
	server := testenv.Redis(t)
	b := newBus(t, redisbus.Config{Addresses: []string{server.Addr}})
	do(t, server.Addr, "CONFIG", "SET", "maxmemory", "1")
	list := envelopes(0, 3)
	if err := b.Publish(t.Context(), list); err == nil || errors.Is(err, bus.ErrPermanent) {
		t.Errorf("Publish: %v, want an error that goes away", err)
	}
	do(t, server.Addr, "CONFIG", "SET", "maxmemory", "0")
	check.OK(t, b.Publish(t.Context(), list))
	if got := received(t, server.Addr, "abide:events"); len(got) != len(list) {
		t.Errorf("the stream has %d envelopes, want %d", len(got), len(list))
	}
}

func TestTheWindowEnds(t *testing.T) {
	t.Parallel()
	server := testenv.Redis(t)
	b := newBus(t, redisbus.Config{Addresses: []string{server.Addr}, Window: 100 * time.Millisecond})
	check.Eventually(t, "an envelope to come again after the window", func() bool {
		check.OK(t, b.Publish(t.Context(), envelopes(0, 1)))
		return len(received(t, server.Addr, "abide:events")) > 1
	})
	// Nothing stays but the stream.
	check.Eventually(t, "the keys to go", func() bool {
		n, err := do(t, server.Addr, "DBSIZE").AsInt64()
		return err == nil && n == 1
	})
}

func TestTheStreamIsTrimmed(t *testing.T) {
	t.Parallel()
	server := testenv.Redis(t)
	for _, tt := range []struct {
		maxLen      int64
		least, most int64
	}{
		{-1, 2000, 2000},
		{0, 2000, 2000},
		{500, 500, 700}, // the server drops whole nodes, of 100 entries
	} {
		stream := fmt.Sprintf("events:%d", tt.maxLen)
		b := newBus(t, redisbus.Config{Addresses: []string{server.Addr}, Stream: stream, MaxLen: tt.maxLen})
		check.OK(t, b.Publish(t.Context(), envelopes(0, 2000)))
		n, err := do(t, server.Addr, "XLEN", stream).AsInt64()
		if err != nil || n < tt.least || n > tt.most {
			t.Errorf("with MaxLen %d, the stream has %d entries, %v; want %d to %d", tt.maxLen, n, err, tt.least, tt.most)
		}
	}
}

func TestOnlyWhatIsInvalidFails(t *testing.T) {
	t.Parallel()
	server := testenv.Redis(t)
	b := newBus(t, redisbus.Config{Addresses: []string{server.Addr}})
	list := envelopes(0, 250)
	for _, i := range []int{0, 99, 100, 249} {
		list[i].Payload = nil
	}
	for i, err := range bus.Outcomes(b.Publish(t.Context(), list), len(list)) {
		invalid := list[i].Payload == nil
		if invalid != errors.Is(err, bus.ErrPermanent) || invalid != (err != nil) {
			t.Errorf("outcome %d: %v", i, err)
		}
	}
	if got := received(t, server.Addr, "abide:events"); len(got) != 246 {
		t.Errorf("the stream has %d envelopes, want 246", len(got))
	}
}

// TestKeysShareASlot: a cluster refuses a script whose keys do not.
func TestKeysShareASlot(t *testing.T) {
	t.Parallel()
	server := testenv.Redis(t)
	for _, stream := range []string{"events", "abide:events", "{a}:events", "x{a}{b}y", "a}{b}"} {
		do(t, server.Addr, "FLUSHALL")
		b := newBus(t, redisbus.Config{Addresses: []string{server.Addr}, Stream: stream})
		e := envelopes(0, 1)
		e[0].ID = "{x}{"
		check.OK(t, b.Publish(t.Context(), e))
		keys, err := do(t, server.Addr, "KEYS", "*").AsStrSlice()
		if err != nil || len(keys) != 2 {
			t.Fatalf("the keys are %q, %v", keys, err)
		}
		if a, b := slot(keys[0]), slot(keys[1]); a != b {
			t.Errorf("%q are in the slots %d and %d", keys, a, b)
		}
	}
	for _, stream := range []string{"{}", "a{}b", "{", "}", "}{"} {
		if _, err := redisbus.New(redisbus.Config{Addresses: []string{server.Addr}, Stream: stream}); !errors.Is(err, bus.ErrInvalid) {
			t.Errorf("stream %q: %v, want ErrInvalid", stream, err)
		}
	}
}

func TestNewRefusesWhatCannotBe(t *testing.T) {
	t.Parallel()
	server := testenv.Redis(t)
	for _, cfg := range []redisbus.Config{
		{},
		{Addresses: []string{server.Addr}, Client: newClient(t, server.Addr)},
		{Addresses: []string{server.Addr}, Window: -1},
		{Addresses: []string{server.Addr}, Window: time.Microsecond},
	} {
		if _, err := redisbus.New(cfg); !errors.Is(err, bus.ErrInvalid) {
			t.Errorf("New(%+v): %v, want ErrInvalid", cfg, err)
		}
	}
	do(t, server.Addr, "CONFIG", "SET", "requirepass", "secret")
	if _, err := redisbus.New(redisbus.Config{Addresses: []string{server.Addr}}); err == nil {
		t.Error("New succeeds without the password")
	}
	b := newBus(t, redisbus.Config{Addresses: []string{server.Addr}, Password: "secret"})
	if err := b.Publish(context.WithoutCancel(t.Context()), envelopes(0, 1)); err != nil {
		t.Errorf("with the password: %v", err)
	}
	server.Kill()
	if _, err := redisbus.New(redisbus.Config{Addresses: []string{server.Addr}}); err == nil {
		t.Error("New succeeds without a server")
	}
}

func TestCloseLeavesTheConnectionOfTheCaller(t *testing.T) {
	t.Parallel()
	server := testenv.Redis(t)
	client := newClient(t, server.Addr)
	newBus(t, redisbus.Config{Client: client}).Close()
	if err := client.Do(t.Context(), client.B().Ping().Build()).Error(); err != nil {
		t.Errorf("the caller's connection: %v", err)
	}
	own := newBus(t, redisbus.Config{Addresses: []string{server.Addr}})
	own.Close()
	if err := own.Publish(t.Context(), envelopes(0, 1)); err == nil {
		t.Error("Publish succeeds after Close")
	}
}
