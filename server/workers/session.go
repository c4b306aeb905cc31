package workers

import (
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"net/url"
	"slices"
	"sync"
	"time"

	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"

	"github.com/abidehq/abide"
	"github.com/abidehq/abide/internal/catalog"
	"github.com/abidehq/abide/internal/engine"
	"github.com/abidehq/abide/internal/schema"
	"github.com/abidehq/abide/internal/workerhost"
	"github.com/abidehq/abide/internal/workerlink"
	"github.com/abidehq/abide/internal/workerpb"
	"github.com/abidehq/abide/server/api"
	"github.com/abidehq/abide/server/auth"
	"github.com/abidehq/abide/store"
)

var workPath = &url.URL{Path: "/abide.worker.v1.Workers/Work"}

// workerSession is a worker that is connected: the session, and the engine whose code it runs.
type workerSession struct {
	s      *Service
	name   string
	remote string
	who    auth.Identity // may be bound to tenants: then the engine is, too
	host   *workerhost.Session
	engine *engine.Engine
	ready  bool // the engine is there; guarded by Service.mu
	ending sync.Once
}

// Work is the session of a worker.
func (s *Service) Work(stream workerpb.Workers_WorkServer) error {
	r, who, err := s.identify(stream.Context())
	if err != nil {
		return err
	}
	var hello *workerpb.Hello
	if err = mayWork(&who); err == nil {
		hello, err = s.hear(stream)
	}
	if err == nil {
		err = mayServe(&who, hello)
	}
	w := &workerSession{s: s, name: hello.GetName(), who: who, remote: r.RemoteAddr}
	if err == nil {
		err = s.enter(w)
	}
	if err != nil {
		w.refused(err)
		return err
	}
	defer s.leave(w)
	return w.run(stream, hello, r, who)
}

// refused logs that the worker was refused, or that its session has ended because of what it did.
func (w *workerSession) refused(why error) {
	w.s.refusals.note("worker refused", w.remote, errors.New(status.Convert(why).Message()), "worker", w.name, "by", w.who.Subject)
}

// hear returns what a worker says of itself, which must be soon.
func (s *Service) hear(stream workerpb.Workers_WorkServer) (*workerpb.Hello, error) {
	type first struct {
		m   *workerpb.FromWorker
		err error
	}
	heard := make(chan first, 1)
	go func() {
		m, err := stream.Recv()
		heard <- first{m, err}
	}()
	late := make(chan struct{})
	defer s.cfg.Clock.AfterFunc(greetWithin, func() { close(late) })()
	select {
	case f := <-heard:
		if f.err != nil {
			return nil, f.err
		}
		if f.m.GetHello() == nil {
			return nil, status.Error(codes.InvalidArgument, "the first message does not say what the worker runs")
		}
		return f.m.GetHello(), checkHello(f.m.GetHello())
	case <-late:
		return nil, status.Errorf(codes.DeadlineExceeded, "the worker has said nothing within %v", greetWithin)
	}
}

// maxNames is how many orchestrations and activities a worker may serve.
const maxNames = 10_000

// minLease is the shortest lease that a busy process can renew in time.
const minLease = 100 * time.Millisecond

// checkHello returns what is wrong with what a worker says of itself.
func checkHello(h *workerpb.Hello) error {
	refuse := func(format string, args ...any) error { return status.Errorf(codes.InvalidArgument, format, args...) }
	switch {
	case h.GetProtocol() < workerlink.Protocol:
		return refuse("the worker speaks version %d of the protocol, the server %d and later", h.GetProtocol(), workerlink.Protocol)
	case len(h.GetName()) > engine.MaxName, len(h.GetHost()) > engine.MaxName, len(h.GetVersion()) > engine.MaxName, len(h.GetRun()) > engine.MaxName, len(h.GetBuild()) > engine.MaxBuild:
		return refuse("the name, host, version or build of the worker is too long")
	case len(h.GetOrchestrations())+len(h.GetActivities())+len(h.GetEntities()) > maxNames:
		return refuse("the worker runs %d orchestrations, activities and entities, at most %d are allowed", len(h.GetOrchestrations())+len(h.GetActivities())+len(h.GetEntities()), maxNames)
	case h.GetTurnSlots() < 0, h.GetActivitySlots() < 0, h.GetCacheSize() < 0, h.GetMaxHistory() < 0, h.GetMaxHistoryBytes() < 0:
		return refuse("slots, the size of the cache and limits of histories must not be negative")
	}
	if err := errors.Join(checkPinned(h), checkCaps(h)); err != nil {
		return refuse("%v", err)
	}
	lease := time.Duration(h.GetLeaseMs()) * time.Millisecond
	if lease != 0 && (lease < minLease || lease > store.MaxLease) {
		return refuse("the lease is %v, %v to %v is allowed", lease, minLease, store.MaxLease)
	}
	for _, route := range h.GetOrchestrations() {
		if err := engine.CheckRoute(route); err != nil {
			return refuse("%v", err)
		}
	}
	for _, name := range h.GetActivities() {
		if err := engine.CheckName("activity", name); err != nil {
			return refuse("%v", err)
		}
	}
	for _, name := range h.GetEntities() {
		if err := engine.CheckName("entity", name); err != nil {
			return refuse("%v", err)
		}
	}
	return nil
}

// checkCaps returns what is wrong with the activities of which a worker limits how many are in flight.
func checkCaps(h *workerpb.Hello) error {
	if len(h.GetCaps()) == 0 {
		return nil
	}
	runs := make(map[string]bool, len(h.GetActivities()))
	for _, name := range h.GetActivities() {
		runs[name] = true
	}
	for _, c := range h.GetCaps() {
		switch name := c.GetActivity(); {
		case !runs[name]:
			return fmt.Errorf("the worker limits activity %q, and does not run it", name)
		case c.GetMost() < 1:
			return fmt.Errorf("the worker limits activity %q to %d in flight, at least 1 has to be allowed", name, c.GetMost())
		}
	}
	return nil
}

// capsOf returns how many attempts of an activity a worker may have in flight, by name.
func capsOf(h *workerpb.Hello) map[string]int {
	caps := make(map[string]int, len(h.GetCaps()))
	for _, c := range h.GetCaps() {
		caps[c.GetActivity()] = int(c.GetMost())
	}
	return caps
}

// checkPinned returns what is wrong with the orchestrations that a worker pins. Each is claimed by two routes.
func checkPinned(h *workerpb.Hello) error {
	pinned := append(slices.Clone(h.GetPinned()), h.GetPinnedUntilContinue()...)
	if n := len(h.GetOrchestrations()) + len(pinned); n >= maxNames {
		return fmt.Errorf("the worker runs too many orchestrations: %d, with those that it pins", n)
	}
	if len(pinned) > 0 {
		if err := engine.CheckBuild(h.GetBuild()); err != nil {
			return err
		}
	}
	runs := make(map[string]bool, len(h.GetOrchestrations()))
	for _, route := range h.GetOrchestrations() {
		runs[route] = true
	}
	for _, route := range pinned {
		if !runs[route] {
			return fmt.Errorf("the worker pins %q, and does not run it", route)
		}
		runs[route] = false // neither in both lists nor twice in one
	}
	return nil
}

// pinsOf returns how the instances of a worker's orchestrations are pinned.
func pinsOf(h *workerpb.Hello) map[string]engine.Pin {
	pins := map[string]engine.Pin{}
	for _, route := range h.GetPinned() {
		pins[route] = engine.Pinned
	}
	for _, route := range h.GetPinnedUntilContinue() {
		pins[route] = engine.PinnedUntilContinue
	}
	return pins
}

// run serves the session until it ends.
func (w *workerSession) run(stream workerpb.Workers_WorkServer, hello *workerpb.Hello, r *http.Request, who auth.Identity) error {
	s := w.s
	signatures, err := signaturesOf(hello)
	if err != nil {
		return w.invalid(err)
	}
	w.host = workerhost.New(workerhost.Config{
		Clock: s.cfg.Clock, Logger: s.cfg.Logger, Request: w.request, Awaits: w.awaits, Leave: func() { go w.finish() },
		Lost: func() { w.engine.StopClaiming() },
	})
	cfg := w.config(hello, signatures)
	if w.engine, err = engine.New(cfg); err != nil {
		return w.invalid(err)
	}
	w.listed(stream.Context())
	if err := stream.Send(&workerpb.ToWorker{Welcome: &workerpb.Welcome{
		Protocol: workerlink.Protocol, Server: s.cfg.Version, LeaseMs: cmp.Or(cfg.LeaseDuration, engine.DefaultLease).Milliseconds(),
		Revision: workerlink.Revision,
	}}); err != nil {
		w.host.Stop(err)
		_ = w.host.Run(stream) // what it was sent is lost
		w.end()
		return err
	}
	if s.isReady(w) {
		go w.drain() // the service stops
	}
	s.cfg.Logger.Info("worker connected", "worker", w.name, "remote", r.RemoteAddr, "by", who.Subject, "build", hello.GetBuild(),
		"orchestrations", len(hello.GetOrchestrations()), "activities", len(hello.GetActivities()))
	stop := context.AfterFunc(stream.Context(), func() { w.host.Stop(context.Cause(stream.Context())) })
	defer stop()
	check := w.watch(r, who)
	defer check()
	err = w.host.Run(stream)
	w.end()
	if errors.Is(err, errLeft) {
		s.cfg.Logger.Info("worker left", "worker", w.name, "remote", r.RemoteAddr)
		return nil
	}
	if errors.Is(err, workerhost.ErrProtocol) || status.Code(err) == codes.ResourceExhausted { // or a message that is too large
		w.refused(err)
	} else {
		s.cfg.Logger.Warn("worker lost", "worker", w.name, "remote", r.RemoteAddr, "error", err)
	}
	return status.Errorf(codes.Aborted, "%v", err)
}

// invalid refuses a worker because of what it says of itself.
func (w *workerSession) invalid(why error) error {
	w.refused(why)
	return status.Errorf(codes.InvalidArgument, "%v", why)
}

// listWithin is how long a worker waits until its names are known. A store that is out of reach does not keep
// it from connecting.
const listWithin = 5 * time.Second

// listed waits until others know what the worker serves: a client that starts what it serves right after it
// was welcomed is not told that nobody does.
func (w *workerSession) listed(ctx context.Context) {
	late := make(chan struct{})
	defer w.s.cfg.Clock.AfterFunc(listWithin, func() { close(late) })()
	select {
	case <-w.engine.Listed():
	case <-late:
	case <-ctx.Done():
	}
}

// drained tells the worker that an operator has drained it, and then that nothing is under way.
func (w *workerSession) drained(ended <-chan struct{}) {
	w.host.Draining()
	go func() {
		select {
		case <-ended:
			w.host.Drained()
		case <-w.host.Gone():
		}
	}()
}

// errLeft ends the session of a worker that has left, with nothing under way.
var errLeft = errors.New("the worker has left")

// config returns the configuration of the worker's engine.
func (w *workerSession) config(h *workerpb.Hello, signatures []engine.Signature) engine.Config {
	s := w.s
	cfg := engine.Config{
		Store: s.store, Clock: s.cfg.Clock, Logger: s.cfg.Logger.With("worker", h.GetName()),
		MeterProvider: s.cfg.MeterProvider, TracerProvider: s.cfg.TracerProvider,
		Executor: w.host, Routes: h.GetOrchestrations(), Activities: map[string]engine.Activity{}, Entities: map[string]engine.EntityCode{}, Signatures: signatures,
		MaxTurns: s.slots(h.GetTurnSlots(), engine.DefaultTurns), MaxActivities: s.slots(h.GetActivitySlots(), engine.DefaultActivities), MaxInFlight: capsOf(h),
		CacheSize: min(int(h.GetCacheSize()), maxCache), LeaseDuration: time.Duration(h.GetLeaseMs()) * time.Millisecond,
		Retention:          cmp.Or(time.Duration(h.GetRetentionMs())*time.Millisecond, s.cfg.Retention),
		StepCommitInterval: time.Duration(h.GetStepCommitUs()) * time.Microsecond, DeadlockTimeout: time.Duration(h.GetDeadlockMs()) * time.Millisecond,
		MaxHistory: int(h.GetMaxHistory()), MaxHistoryBytes: int(h.GetMaxHistoryBytes()), Build: h.GetBuild(), Pins: pinsOf(h), Peers: s.peers,
		Elsewhere: &engine.Worker{Host: h.GetHost(), PID: int(h.GetPid()), Version: h.GetVersion(), Run: h.GetRun()}, Tenants: stored(w.who.Tenants),
		Drained: w.drained,
	}
	if h.GetDrained() {
		cfg.Elsewhere.State = engine.WorkerDraining
	}
	if !h.GetUnlisted() {
		cfg.WorkerName = h.GetName()
	}
	for _, name := range h.GetActivities() {
		cfg.Activities[name] = w.host.Activity
	}
	for _, name := range h.GetEntities() {
		cfg.Entities[name] = w.host.Entity
	}
	return cfg
}

// stored returns tenants as the store has them: the default one has no name there. Nil stays nil.
func stored(tenants []string) []string {
	if tenants == nil {
		return nil
	}
	list := make([]string, 0, len(tenants))
	for _, tenant := range tenants {
		if tenant == abide.DefaultTenant {
			tenant = ""
		}
		list = append(list, tenant)
	}
	return list
}

// allows returns the problem of a request about a tenant that the worker has no access to, or nil. It is the same
// whatever there is of that tenant.
func (w *workerSession) allows(tenant string) error {
	tenant = cmp.Or(tenant, abide.DefaultTenant)
	if w.who.Allows(tenant) {
		return nil
	}
	return &api.Problem{
		Type: "about:blank", Status: http.StatusForbidden, Code: api.CodeForbidden, Title: "tenant not allowed", Detail: w.who.Name + " has no access to tenant " + tenant,
	}
}

// maxCache is how many instances of a worker are remembered at most.
const maxCache = 100_000

func (s *Service) slots(asked int32, usual int) int {
	return min(cmp.Or(int(asked), usual), s.cfg.MaxSlots)
}

// signaturesOf returns what the worker says of its orchestrations and activities.
func signaturesOf(h *workerpb.Hello) ([]engine.Signature, error) {
	signatures := []engine.Signature{}
	parse := func(data []byte) (*schema.Schema, error) {
		if len(data) == 0 {
			return nil, nil
		}
		return schema.Parse(data)
	}
	for _, s := range h.GetSignatures() {
		input, err := parse(s.GetInput())
		if err != nil {
			return nil, fmt.Errorf("schema of the input of %q: %w", s.GetName(), err)
		}
		result, err := parse(s.GetResult())
		if err != nil {
			return nil, fmt.Errorf("schema of the result of %q: %w", s.GetName(), err)
		}
		signatures = append(signatures, engine.Signature{Name: catalog.Name{Route: s.GetName(), Activity: s.GetActivity()}, Input: input, Result: result})
	}
	return signatures, nil
}

// watch ends the session when the worker may not do any more what it does: its token was revoked or has
// expired.
func (w *workerSession) watch(r *http.Request, who auth.Identity) (stop func()) {
	if w.s.cfg.Auth == nil {
		return func() {}
	}
	ctx, cancel := context.WithCancel(r.Context())
	var again func()
	again = func() {
		if ctx.Err() != nil {
			return
		}
		if !w.s.cfg.Auth.Still(r, who) {
			w.host.Stop(fmt.Errorf("the credentials of the worker are not valid any more"))
			return
		}
		w.s.cfg.Clock.AfterFunc(w.s.cfg.Recheck, again)
	}
	w.s.cfg.Clock.AfterFunc(w.s.cfg.Recheck, again)
	return cancel
}

// drain has the worker connect elsewhere, and ends its session when what is under way is done.
func (w *workerSession) drain() {
	w.host.Drain()
	w.finish()
}

// finish lets what is under way come to its end, and then ends the session.
func (w *workerSession) finish() {
	w.ending.Do(func() {
		ctx, cancel := context.WithTimeout(context.Background(), w.s.cfg.Drain)
		defer cancel()
		if err := w.engine.Close(ctx); err != nil {
			w.s.cfg.Logger.Warn("worker left with work under way, which will run again", "worker", w.name, "error", err)
		}
		w.host.Stop(errLeft)
	})
}

// end gives back what a worker had that is gone.
func (w *workerSession) end() {
	w.ending.Do(func() {
		ctx, cancel := context.WithCancel(context.Background())
		cancel()
		_ = w.engine.Close(ctx) // its work has returned: it was lost
	})
}

// awaits learns of an event that an orchestration of the worker waits for.
func (w *workerSession) awaits(e *workerpb.AwaitedEvent) {
	if s, err := schema.Parse(e.GetSchema()); err == nil && len(e.GetEvent()) <= engine.MaxName && w.engine.Serves(e.GetOrchestration()) {
		w.engine.Learn(e.GetOrchestration(), e.GetEvent(), s)
	}
}

// request makes a request of the worker's program.
func (w *workerSession) request(ctx context.Context, r *workerpb.Request) *workerpb.Reply {
	reply, err := w.answer(ctx, r)
	if err != nil {
		p := w.s.cfg.Problem(err)
		if p.Status == http.StatusForbidden {
			w.s.refusals.note("request of a worker refused", w.remote, err, "worker", w.name, "by", w.who.Subject)
		}
		text, _ := json.Marshal(p) // a problem always has one
		return &workerpb.Reply{Status: int32(p.Status), Problem: text}
	}
	return reply
}

func (w *workerSession) answer(ctx context.Context, r *workerpb.Request) (*workerpb.Reply, error) {
	if wait := r.GetWait(); wait != nil {
		if err := w.allows(wait.GetTenant()); err != nil {
			return nil, err
		}
		info, err := w.engine.Await(ctx, engine.Ref{Tenant: wait.GetTenant(), ID: wait.GetId()}, wait.GetAfter())
		if err != nil {
			return nil, err
		}
		return &workerpb.Reply{Instance: info.Encode()}, nil
	}
	starts := make([]engine.Start, len(r.GetStarts()))
	for i, s := range r.GetStarts() {
		if err := w.allows(s.GetTenant()); err != nil {
			return nil, err
		}
		var err error
		if starts[i], err = workerlink.DecodeStart(s); err != nil {
			return nil, err
		}
	}
	started, err := w.engine.Start(ctx, starts...)
	if err != nil {
		return nil, err
	}
	reply := &workerpb.Reply{}
	for i := range started {
		reply.Started = append(reply.Started, &workerpb.Started{Existed: started[i].Existed, Unserved: started[i].Unserved, Revision: started[i].Revision})
	}
	return reply, nil
}
