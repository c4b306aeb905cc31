package fleet

import (
	"bufio"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"log/slog"
	"os"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/abidehq/abide"
	"github.com/abidehq/abide/bus"
	"github.com/abidehq/abide/bus/outbox"
	"github.com/abidehq/abide/internal/base"
	"github.com/abidehq/abide/store"
	"github.com/abidehq/abide/timer"
)

// workerVariable is the environment variable with which a test starts itself as a process
// of a fleet. It holds a setup.
const workerVariable = "ABIDE_FLEET_WORKER"

// sinkName is that of the sink that all processes have: each appends to a file of its own.
const sinkName = "file"

// atOnce is how many turns and how many activities a process has under way: few, so that
// what is lost with a process is not most of what there is.
const atOnce = 16

// setup says what a process is and does.
type setup struct {
	Name     string
	Store    string // the URL, perhaps through a proxy
	Ledger   string // likewise, always on the straight way
	Sink     string // the file that it publishes to
	Lease    time.Duration
	Skew     time.Duration // by which its clock is wrong
	Versions []string      // of order that it serves; the last one is what it starts
	Serve    []string      // the flags of abide serve, if it is a server
	Slots    int           // for turns and for activities; 0 means atOnce
}

// serve returns what the process serves.
func (s *setup) serve() []abide.Definition {
	list := append([]abide.Definition{effect, parcel}, underLimits...)
	if slices.Contains(s.Versions, "1") {
		list = append(list, order1)
	}
	if slices.Contains(s.Versions, "2") {
		list = append(list, order2)
	}
	return list
}

// skewed is a clock that is wrong, and goes as fast as others do.
type skewed struct {
	base.System
	by time.Duration
}

func (s skewed) Now() time.Time { return s.System.Now().Add(s.by) }

// worker is a process of a fleet.
type worker struct {
	setup
	log   *slog.Logger
	store store.Store
	close func(ctx context.Context) error // of the engine
}

// runWorker is what such a process does: it serves until it is told to stop, or until
// nobody is there any more to tell it anything. It returns its exit code.
func runWorker(text string) int {
	w := &worker{log: slog.New(slog.NewTextHandler(os.Stderr, nil))}
	err := json.Unmarshal([]byte(text), &w.setup)
	if err == nil {
		err = w.run(context.Background())
	}
	if err != nil {
		w.log.Error("the process has failed", "error", err)
		return 1
	}
	return 0
}

func (w *worker) run(ctx context.Context) error {
	var err error
	if len(w.Serve) > 0 {
		return w.runServer(ctx)
	}
	if theLedger, err = openLedger(ctx, w.Ledger, w.Name); err != nil {
		return err
	}
	if strings.HasPrefix(w.Store, "abide://") {
		return w.runRemote(ctx)
	}
	if w.store, err = store.Open(ctx, w.Store); err != nil {
		return err
	}
	if err := w.openEngine(); err != nil {
		return err
	}
	timers, err := w.timers()
	if err != nil {
		return err
	}
	running, stop := context.WithCancel(ctx)
	ended := make(chan error, 1)
	go func() { ended <- timers.Run(running) }()
	fmt.Println("ready")
	if err := w.obey(ctx, abide.NewClient(w.store, nil), ended); err != nil {
		stop()
		return err
	}
	stop()
	drain, cancel := context.WithTimeout(ctx, 20*time.Second)
	defer cancel()
	return errors.Join(<-ended, w.close(drain), w.store.Close())
}

// openEngine opens the engine of the process, whose clock may be wrong.
func (w *worker) openEngine() error {
	e, err := abide.New(w.store, abide.Config{
		Register: w.serve(), Clock: w.clock(), Logger: w.log, LeaseDuration: w.Lease, Retention: -1, MaxTurns: atOnce, MaxActivities: atOnce,
	})
	if err != nil {
		return err
	}
	w.close = e.Shutdown
	return nil
}

func (w *worker) clock() base.Clock { return skewed{by: w.Skew} }

// timers returns the service that fires timers in this process.
func (w *worker) timers() (*timer.Service, error) {
	file, err := os.OpenFile(w.Sink, os.O_APPEND|os.O_CREATE|os.O_WRONLY, 0o600)
	if err != nil {
		return nil, err
	}
	return timer.New(timer.Config{
		Store: w.store, Sinks: []outbox.Sink{{Name: sinkName, Bus: &fileBus{file}}},
		LeaseDuration: w.Lease, Retention: -1, Logger: w.log, Clock: w.clock(),
	})
}

// obey does what it is told, line by line, until that is to stop. It returns an error if
// nobody tells it anything any more, or if what it serves has come to an end.
func (w *worker) obey(ctx context.Context, client *abide.Client, ended chan error) error {
	lines := make(chan string)
	go func() {
		defer close(lines)
		for in := bufio.NewScanner(os.Stdin); in.Scan(); {
			lines <- in.Text()
		}
	}()
	for {
		select {
		case err := <-ended:
			return fmt.Errorf("what it serves has come to an end: %w", err)
		case line, ok := <-lines:
			switch verb, rest, _ := strings.Cut(line, " "); {
			case !ok:
				return errors.New("nobody is there any more")
			case verb == "stop":
				return nil
			case verb == "start":
				number, err := strconv.Atoi(rest)
				if err == nil {
					err = startOrder(ctx, client, number, w.Versions[len(w.Versions)-1])
				}
				if err != nil {
					return err
				}
				fmt.Println("started", number)
			}
		}
	}
}

// startOrder starts an order of a version. It can be done again if nobody knows whether
// it was.
func startOrder(ctx context.Context, c *abide.Client, number int, version string) error {
	o := order1
	if version == "2" {
		o = order2
	}
	_, err := o.Start(ctx, c, purchase{Number: number}, abide.ID(orderID(number)))
	return err
}

// fileBus appends envelopes to a file, a line each: when it was published, in milliseconds
// by the clock of the machine, which is that of the database too, and the envelope.
type fileBus struct{ file *os.File }

var _ bus.EventBus = (*fileBus)(nil)

func (b *fileBus) Publish(ctx context.Context, envelopes []bus.Envelope) error {
	// It takes a moment, so that a process is lost now and then while it publishes.
	if err := base.Sleep(ctx, base.System{}, 5*time.Millisecond); err != nil {
		return err
	}
	var text []byte
	for i := range envelopes {
		line, err := envelopes[i].Encode()
		if err != nil {
			return err
		}
		text = fmt.Appendf(text, "%d %s\n", time.Now().UnixMilli(), line)
	}
	_, err := b.file.Write(text) // in one go, so that a process that is killed leaves no half
	return err
}
