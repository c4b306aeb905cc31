// Package workertest has the code of engines in tests run over a connection: everything that a program
// can do works the same way in a worker of a server elsewhere.
//
// With ABIDE_TEST_EXECUTOR=remote in the environment, the tests of a package that imports it run their
// orchestrations and activities at the other end of a session between [workerhost] and [worker]. All
// messages are encoded and decoded, and pass through channels: so time in a synctest bubble stands still
// only while something is under way.
package workertest

import (
	"context"
	"fmt"
	"io"
	"log/slog"
	"math"
	"os"

	"google.golang.org/protobuf/proto"

	"github.com/abidehq/abide/internal/base"
	"github.com/abidehq/abide/internal/engine"
	"github.com/abidehq/abide/internal/worker"
	"github.com/abidehq/abide/internal/workerhost"
	"github.com/abidehq/abide/internal/workerpb"
)

const (
	variable = "ABIDE_TEST_EXECUTOR"
	remote   = "remote"
)

// Remote reports whether code runs over a connection.
func Remote() bool { return os.Getenv(variable) == remote }

func init() {
	switch value := os.Getenv(variable); value {
	case "":
	case remote:
		engine.OnNew(overConnection)
	default:
		panic(fmt.Sprintf("%s is %q; allowed is %q, or nothing", variable, value, remote))
	}
}

// overConnection has the code of an engine run at the other end of a connection.
func overConnection(cfg *engine.Config) (closed func()) {
	if cfg.Elsewhere != nil || len(cfg.Routes)+len(cfg.Activities)+len(cfg.Entities) == 0 {
		return func() {}
	}
	clock := cfg.Clock
	if clock == nil {
		clock = base.System{}
	}
	log := cfg.Logger
	if log == nil {
		log = slog.Default()
	}
	host := workerhost.New(workerhost.Config{
		Clock: clock, Logger: log, Leave: func() {}, Lost: func() {},
		Request: func(context.Context, *workerpb.Request) *workerpb.Reply { return &workerpb.Reply{} },
		Awaits:  func(*workerpb.AwaitedEvent) {},
	})
	session := worker.New(worker.Config{Executor: cfg.Executor, Activities: cfg.Activities, Entities: cfg.Entities, Revision: math.MaxUint32, Clock: clock, Logger: log})
	cfg.Executor = host
	activities := map[string]engine.Activity{}
	for name := range cfg.Activities {
		activities[name] = host.Activity
	}
	cfg.Activities = activities
	entities := map[string]engine.EntityCode{}
	for name := range cfg.Entities {
		entities[name] = host.Entity
	}
	cfg.Entities = entities
	up, down, end := make(chan []byte), make(chan []byte), make(chan struct{})
	ended := make(chan struct{}, 2)
	go func() {
		_ = host.Run(&stream[*workerpb.ToWorker, *workerpb.FromWorker]{out: down, in: up, end: end, empty: func() *workerpb.FromWorker { return &workerpb.FromWorker{} }})
		ended <- struct{}{}
	}()
	go func() {
		_ = session.Run(&stream[*workerpb.FromWorker, *workerpb.ToWorker]{out: up, in: down, end: end, empty: func() *workerpb.ToWorker { return &workerpb.ToWorker{} }})
		ended <- struct{}{}
	}()
	return func() {
		close(end)
		host.Stop(io.EOF)
		<-ended
		<-ended
	}
}

// stream is one end of a connection.
type stream[Out, In proto.Message] struct {
	out   chan<- []byte
	in    <-chan []byte
	end   <-chan struct{}
	empty func() In
}

// Send sends a message.
func (s *stream[Out, In]) Send(m Out) error {
	data, err := proto.Marshal(m)
	if err != nil {
		return err
	}
	select {
	case s.out <- data:
		return nil
	case <-s.end:
		return io.EOF
	}
}

// Recv receives a message.
func (s *stream[Out, In]) Recv() (In, error) {
	select {
	case data := <-s.in:
		m := s.empty()
		return m, proto.Unmarshal(data, m)
	case <-s.end:
		var none In
		return none, io.EOF
	}
}
