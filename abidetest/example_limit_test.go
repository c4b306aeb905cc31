package abidetest_test

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"strconv"
	"sync"
	"testing"
	"time"

	"github.com/abidehq/abide"
	"github.com/abidehq/abide/abidetest"
	"github.com/abidehq/abide/action"
	"github.com/abidehq/abide/action/target"
	"github.com/abidehq/abide/bus"
	"github.com/abidehq/abide/bus/outbox"
	"github.com/abidehq/abide/internal/check"
	"github.com/abidehq/abide/store"
	"github.com/abidehq/abide/timer"
)

type Payment struct {
	Customer string
	Cents    int
}

var (
	Stripe      = abide.NewLimit("stripe", abide.Concurrency(10), abide.Rate(100, time.Second))
	PerCustomer = abide.NewLimit("customer", abide.Concurrency(2), abide.PerKey())
	OneReport   = abide.NewLimit("report", abide.Concurrency(1))
	PerAccount  = abide.NewLimit("account", abide.Concurrency(1), abide.PerKey())
	PerUser     = abide.NewLimit("user", abide.Rate(1, time.Minute), abide.PerKey())
)

var (
	Pay         = abide.NewActivity("pay", pay)
	Payments    = abide.NewOrchestration("payment", paymentFlow)
	Refunds     = abide.NewOrchestration("refund", refundFlow)
	Reports     = abide.NewOrchestration("report", reportFlow)
	MonthEnd    = abide.NewOrchestration("month-end", monthEndFlow)
	Syncs       = abide.NewOrchestration("sync", syncFlow)
	Reindex     = abide.NewOrchestration("reindex", reindexFlow)
	WriteEvents = abide.NewOrchestration("write-events", writeEventsFlow)
	Render      = abide.NewActivity("render", render)
	Films       = abide.NewOrchestration("film", filmFlow)
)

func pay(context.Context, Payment) (string, error) { return "", errors.New("it is stubbed") }

func paymentFlow(ctx abide.Context, in Payment) (string, error) {
	return Pay.Call(ctx, in, abide.Under(Stripe), abide.UnderKey(PerCustomer, in.Customer))
}

func refundFlow(ctx abide.Context, in Payment) (string, error) {
	in.Cents = -in.Cents
	return Pay.Call(ctx, in, abide.Under(Stripe), abide.Priority(10))
}

func reportFlow(ctx abide.Context, month string) (string, error) {
	return "report of " + month, abide.Sleep(ctx, time.Hour)
}

func startReport(ctx context.Context, client *abide.Client, month string) error {
	_, err := Reports.Start(ctx, client, month, abide.ID("report-"+month), abide.Under(OneReport), abide.Priority(-5))
	return err
}

func monthEndFlow(ctx abide.Context, months []string) ([]string, error) {
	var reports []*abide.Future[string]
	for _, month := range months {
		reports = append(reports, Reports.Go(ctx, month, abide.Under(OneReport)))
	}
	return abide.All(ctx, reports...)
}

func syncFlow(ctx abide.Context, account string) (string, error) {
	return account, abide.Sleep(ctx, 10*time.Minute)
}

func reindexFlow(_ abide.Context, text string) (string, error) { return text, nil }

func writeEventsFlow(_ abide.Context, events []string) (int, error) { return len(events), nil }

func render(context.Context, string) (string, error) { return "", errors.New("it is stubbed") }

func filmFlow(ctx abide.Context, title string) (string, error) { return Render.Call(ctx, title) }

// open starts a process that has at most 64 activities under way, and at most four of them renders.
func open(ctx context.Context, url string) (*abide.Engine, error) {
	return abide.Open(ctx, abide.Config{
		Store:         url,
		Register:      []abide.Definition{Payments, Pay, Films, Render},
		MaxActivities: 64,
		MaxInFlight:   map[string]int{"render": 4},
	})
}

// slowDown is what a program does that knows better than its configuration.
func slowDown(ctx context.Context, client *abide.Client) error {
	_, err := client.ChangeLimit(ctx, "", "stripe", abide.LimitChange{
		Set: &abide.LimitRule{Concurrency: 5, Rate: 20, Per: time.Second},
	})
	return err
}

// join starts a synchronization of an account, or returns the one that is under way.
func join(ctx context.Context, client *abide.Client, account string) (*abide.Instance[string], error) {
	return Syncs.Start(ctx, client, account, abide.ID("sync-"+account), abide.ReplaceEnded())
}

var errUnderWay = errors.New("a synchronization of the account is under way")

// reject starts a synchronization of an account, unless one is under way.
func reject(ctx context.Context, client *abide.Client, account string) (*abide.Instance[string], error) {
	sync, err := join(ctx, client, account)
	if err == nil && sync.Existed() {
		return nil, errUnderWay
	}
	return sync, err
}

// queue starts a synchronization of an account, which begins when those before it have ended.
func queue(ctx context.Context, client *abide.Client, account string) (*abide.Instance[string], error) {
	return Syncs.Start(ctx, client, account, abide.UnderKey(PerAccount, account))
}

// replace cancels the synchronization of an account that is under way. The new one begins when that has ended.
func replace(ctx context.Context, client *abide.Client, account string) (*abide.Instance[string], error) {
	open := abide.Filter{
		Orchestrations: []string{"sync"}, Tags: map[string]string{"account": account}, Statuses: []abide.Status{abide.Pending, abide.Running},
	}
	page, err := client.List(ctx, open)
	if err != nil {
		return nil, err
	}
	for _, before := range page.Instances {
		if err := client.Cancel(ctx, before.Ref, "replaced"); err != nil && !errors.Is(err, abide.ErrState) {
			return nil, err
		}
	}
	return Syncs.Start(ctx, client, account, abide.UnderKey(PerAccount, account), abide.Tag("account", account))
}

// oncePerMinute starts a synchronization of an account, unless one was started in this minute.
func oncePerMinute(ctx context.Context, client *abide.Client, account string, now time.Time) (*abide.Instance[string], error) {
	return Syncs.Start(ctx, client, account, abide.ID(fmt.Sprintf("sync-%s-%d", account, now.Unix()/60)))
}

// oneEachMinute starts a synchronization for a user, which begins a minute after the one before it at the earliest.
func oneEachMinute(ctx context.Context, client *abide.Client, user string) (*abide.Instance[string], error) {
	return Syncs.Start(ctx, client, user, abide.UnderKey(PerUser, user))
}

// Burst is what a debounced document has been through since it was last quiet.
type Burst struct {
	Text    string
	Changes int
	Since   time.Time
}

const (
	quietFor = 5 * time.Second
	atMost   = time.Minute
)

var (
	Debounce = abide.NewEntity[Burst]("debounce")
	Touch    = abide.NewOperation(Debounce, "touch", touch)
	Settle   = abide.NewOperation(Debounce, "settle", settle)
)

// touch notes a change, and has the entity told when the document may have settled.
func touch(ctx abide.EntityContext, b *Burst, text string) (abide.None, error) {
	if b.Changes == 0 {
		b.Since = ctx.Now()
	}
	b.Text, b.Changes = text, b.Changes+1
	at := ctx.Now().Add(quietFor)
	if last := b.Since.Add(atMost); last.Before(at) {
		at = last
	}
	return abide.None{}, Settle.SignalFrom(ctx, ctx.ID().Key, b.Changes, abide.DelayUntil(at))
}

// settle starts what the burst is for, unless the document has changed since.
func settle(ctx abide.EntityContext, b *Burst, changes int) (abide.None, error) {
	if changes != b.Changes {
		return abide.None{}, nil
	}
	_, err := Reindex.StartFrom(ctx, b.Text, abide.ID(fmt.Sprintf("reindex-%s-%d", ctx.ID().Key, b.Since.UnixMilli())))
	ctx.Delete()
	return abide.None{}, err
}

// Batch is a batch that is being filled.
type Batch struct {
	Number int
	Events []string
}

const (
	batchSize = 100
	batchTime = 10 * time.Second
)

var (
	Batches = abide.NewEntity[Batch]("batch")
	Add     = abide.NewOperation(Batches, "add", add)
	Flush   = abide.NewOperation(Batches, "flush", flush)
)

// add adds an event to a batch. The first one sets the time at which the batch is written.
func add(ctx abide.EntityContext, b *Batch, event string) (abide.None, error) {
	b.Events = append(b.Events, event)
	switch len(b.Events) {
	case 1:
		return abide.None{}, Flush.SignalFrom(ctx, ctx.ID().Key, b.Number, abide.Delay(batchTime))
	case batchSize:
		return flush(ctx, b, b.Number)
	}
	return abide.None{}, nil
}

// flush writes a batch, unless it is another one by now.
func flush(ctx abide.EntityContext, b *Batch, number int) (abide.None, error) {
	if number != b.Number || len(b.Events) == 0 {
		return abide.None{}, nil
	}
	id := fmt.Sprintf("events-%s-%d", ctx.ID().Key, b.Number)
	_, err := WriteEvents.StartFrom(ctx, b.Events, abide.ID(id), abide.Under(Stripe))
	*b = Batch{Number: b.Number + 1}
	return abide.None{}, err
}

// newSyncs returns a service whose actions synchronize an account, which is their slug: one at a time for each.
func newSyncs(s store.Store, client abide.Caller) (*action.Service, error) {
	start, err := target.NewStart(target.StartConfig{
		Client: client, Orchestration: Syncs.Name(),
		Under: []target.Under{{Limit: PerAccount, Key: "{slug}"}},
	})
	if err != nil {
		return nil, err
	}
	return action.New(action.Config{
		Store: s, Targets: map[string]action.Definition{"sync": {Target: start, Idempotent: true}},
	})
}

// syncWhenDue synchronizes the account that a timer is about, which is its payload. An event that is delivered twice
// starts one instance.
func syncWhenDue(client abide.Caller) bus.Handler {
	return func(ctx context.Context, e bus.Envelope) error {
		var due timer.DueTimeReached
		var account string
		if err := errors.Join(json.Unmarshal(e.Payload, &due), json.Unmarshal(due.Payload, &account)); err != nil {
			return fmt.Errorf("%w: %w", err, bus.ErrPermanent)
		}
		_, err := Syncs.Start(ctx, client, account, abide.ID("due-"+e.ID), abide.Tenant(e.TenantID), abide.UnderKey(PerAccount, account))
		return err
	}
}

// TestPaymentsUnderLimits: two of a customer at a time, each of which takes a second; and refunds go first.
func TestPaymentsUnderLimits(t *testing.T) {
	t.Parallel()
	abidetest.Run(t, func(t *testing.T, env *abidetest.Env) {
		env.Register(Payments, Refunds)
		var mu sync.Mutex
		var order []int
		now, most := map[string]int{}, 0
		abidetest.Stub(env, Pay, func(_ context.Context, in Payment) (string, error) {
			mu.Lock()
			order = append(order, in.Cents)
			now[in.Customer]++
			most = max(most, now[in.Customer])
			mu.Unlock()
			<-time.After(time.Second) // virtual
			mu.Lock()
			now[in.Customer]--
			mu.Unlock()
			return "paid", nil
		})
		begun := env.Now()
		var all []*abidetest.Instance[string]
		for i := range 12 {
			all = append(all, abidetest.Start(env, Payments, Payment{fmt.Sprint("customer-", i%2), 100}))
		}
		for _, payment := range all {
			payment.Result()
		}
		if took := env.Now().Sub(begun); most != 2 || took < 3*time.Second || took > 5*time.Second {
			t.Errorf("%d of a customer at a time, and all took %v", most, took)
		}

		paused := true
		_, err := env.Client().ChangeLimit(t.Context(), "", "stripe", abide.LimitChange{Paused: &paused})
		check.OK(t, err)
		check.OK(t, slowDown(t.Context(), env.Client()))
		env.Advance(2 * time.Second) // a change counts everywhere within a second
		order = nil
		payment := abidetest.Start(env, Payments, Payment{"customer-7", 200})
		env.Advance(time.Minute)
		refund := abidetest.Start(env, Refunds, Payment{"customer-7", 200})
		env.Advance(time.Minute)
		limit, err := env.Client().Limit(t.Context(), "", "stripe")
		check.OK(t, err)
		check.Equal(t, "the rule", limit.Rule(), abide.LimitRule{Concurrency: 5, Rate: 20, Per: time.Second, Burst: 2})
		check.Equal(t, "what waits", limit.Waiting, 2)
		paused = false
		_, err = env.Client().ChangeLimit(t.Context(), "", "stripe", abide.LimitChange{Paused: &paused, Set: &abide.LimitRule{Concurrency: 1}})
		check.OK(t, err)
		payment.Result()
		refund.Result()
		if !slices.Equal(order, []int{-200, 200}) {
			t.Errorf("what waited ran in the order %v", order)
		}
	})
}

// TestRendersLeaveSlots: a process has four renders under way, and a payment does not wait for them.
func TestRendersLeaveSlots(t *testing.T) {
	t.Parallel()
	e, err := open(t.Context(), "memory://")
	check.OK(t, err)
	check.OK(t, e.Close())
	abidetest.Run(t, func(t *testing.T, env *abidetest.Env) {
		env.Config.MaxInFlight = map[string]int{"render": 4}
		env.Register(Payments, Films)
		var now, most int
		var mu sync.Mutex
		abidetest.Stub(env, Render, func(context.Context, string) (string, error) {
			mu.Lock()
			now++
			most = max(most, now)
			mu.Unlock()
			<-time.After(time.Hour)
			mu.Lock()
			defer mu.Unlock()
			now--
			return "", nil
		})
		abidetest.Stub(env, Pay, func(_ context.Context, in Payment) (string, error) { return in.Customer, nil })
		for i := range 12 {
			abidetest.Start(env, Films, fmt.Sprint(i))
		}
		begun := env.Now()
		check.Equal(t, "receipt", abidetest.Start(env, Payments, Payment{Customer: "ann"}).Result(), "ann")
		check.Equal(t, "how long the payment took", env.Now().Sub(begun), 0)
		env.Advance(3 * time.Hour)
		mu.Lock()
		defer mu.Unlock()
		check.Equal(t, "renders under way", now, 0)
		check.Equal(t, "most renders at a time", most, 4)
	})
}

// TestReportsUnderALimit: one at a time, whether they are started or are children.
func TestReportsUnderALimit(t *testing.T) {
	t.Parallel()
	abidetest.Run(t, func(t *testing.T, env *abidetest.Env) {
		env.Register(Reports, MonthEnd)
		begun := env.Now()
		monthEnd := abidetest.Start(env, MonthEnd, []string{"october", "november"})
		env.Advance(time.Minute)
		check.OK(t, startReport(t.Context(), env.Client(), "december"))
		december := abidetest.Find(env, Reports, "report-december")
		waits, err := env.Client().Waits(t.Context(), december.Ref())
		check.OK(t, err)
		if len(waits) != 1 || waits[0].Limit == nil || waits[0].Limit.Limit != "report" || waits[0].Limit.Ahead != 1 {
			t.Errorf("it waits for %+v", waits)
		}
		check.Equal(t, "status", december.Status(), abide.Pending)
		check.Equal(t, "reports", len(monthEnd.Result()), 2)
		december.Result()
		if took := env.Now().Sub(begun); took < 179*time.Minute || took > 181*time.Minute {
			t.Errorf("three reports of an hour took %v", took)
		}
	})
}

// TestOneOfAKind joins, rejects, queues and replaces.
func TestOneOfAKind(t *testing.T) {
	t.Parallel()
	abidetest.Run(t, func(t *testing.T, env *abidetest.Env) {
		env.Register(Syncs)
		ctx, client := t.Context(), env.Client()
		must := func(i *abide.Instance[string], err error) *abide.Instance[string] {
			t.Helper()
			check.OK(t, err)
			return i
		}
		first := must(join(ctx, client, "7"))
		second := must(join(ctx, client, "7"))
		if first.Existed() || !second.Existed() || first.ID() != second.ID() {
			t.Errorf("the second has not joined the first")
		}
		if _, err := reject(ctx, client, "7"); !errors.Is(err, errUnderWay) {
			t.Errorf("it was rejected with %v", err)
		}
		env.Advance(11 * time.Minute)
		must(reject(ctx, client, "7")) // the first one has ended

		begun := env.Now()
		var queued []*abide.Instance[string]
		for range 3 {
			queued = append(queued, must(queue(ctx, client, "8")))
		}
		for _, i := range queued {
			_, err := i.Result(ctx)
			check.OK(t, err)
		}
		if took := env.Now().Sub(begun); took < 29*time.Minute || took > 31*time.Minute {
			t.Errorf("three that were queued took %v", took)
		}

		before := must(replace(ctx, client, "9"))
		env.Advance(time.Minute)
		after := must(replace(ctx, client, "9"))
		if _, err := before.Result(ctx); !errors.Is(err, abide.ErrCancelled) {
			t.Errorf("the one that was replaced ended with %v", err)
		}
		_, err := after.Result(ctx)
		check.OK(t, err)
	})
}

// TestThrottled: what is too much is dropped, or delayed.
func TestThrottled(t *testing.T) {
	t.Parallel()
	abidetest.Run(t, func(t *testing.T, env *abidetest.Env) {
		env.Register(Syncs)
		ctx, client, begun := t.Context(), env.Client(), env.Now()
		started := 0
		var last *abide.Instance[string]
		for range 10 {
			i, err := oncePerMinute(ctx, client, "7", env.Now())
			check.OK(t, err)
			if !i.Existed() {
				started++
			}
			last, err = oneEachMinute(ctx, client, "ann")
			check.OK(t, err)
			env.Advance(15 * time.Second)
		}
		check.Equal(t, "how many were started in three minutes", started, 3)
		_, err := last.Result(ctx)
		check.OK(t, err)
		if took := env.Now().Sub(begun); took < 19*time.Minute || took > 20*time.Minute { // the tenth begins after nine minutes, and takes ten
			t.Errorf("the last of ten ended after %v", took)
		}
	})
}

// TestDebounced: a document is indexed when it has settled, and a minute after the first change at the latest.
func TestDebounced(t *testing.T) {
	t.Parallel()
	abidetest.Run(t, func(t *testing.T, env *abidetest.Env) {
		env.Register(Debounce, Reindex)
		touched := func(doc, text string) {
			t.Helper()
			check.OK(t, Touch.Send(t.Context(), env.Client(), doc, text))
		}
		indexed := func(doc string, since time.Time) string {
			t.Helper()
			return abidetest.Find(env, Reindex, fmt.Sprintf("reindex-%s-%d", doc, since.UnixMilli())).Result()
		}
		begun := env.Now()
		for _, text := range []string{"a", "ab", "abc"} {
			touched("short", text)
			env.Advance(3 * time.Second)
		}
		env.Advance(3 * time.Second)
		check.Equal(t, "what is indexed", indexed("short", begun), "abc")

		begun = env.Now()
		for i := range 21 {
			touched("long", fmt.Sprint("version ", i))
			env.Advance(3 * time.Second)
		}
		if got := indexed("long", begun); got != "version 19" && got != "version 20" {
			t.Errorf("after a minute %q is indexed", got)
		}
	})
}

// TestBatched: what fills a batch is written at once, and the rest a while later.
func TestBatched(t *testing.T) {
	t.Parallel()
	abidetest.Run(t, func(t *testing.T, env *abidetest.Env) {
		env.Register(Batches, WriteEvents)
		for i := range 250 {
			check.OK(t, Add.Send(t.Context(), env.Client(), "clicks", fmt.Sprint("event-", i)))
		}
		env.Settle()
		events := func(batch int) *abidetest.Instance[int] {
			return abidetest.Find(env, WriteEvents, fmt.Sprint("events-clicks-", batch))
		}
		check.Equal(t, "events of a batch that is full", events(0).Result()+events(1).Result(), 200)
		begun := env.Now()
		env.Advance(11 * time.Second)
		check.Equal(t, "events of the last one", events(2).Result(), 50)
		if limit, err := env.Client().Limit(t.Context(), "", "stripe"); err != nil || limit.Rule().Concurrency != 10 {
			t.Errorf("batches are written under the limit %+v, %v", limit, err)
		}
		if started := events(2).Info().StartedAt; started.Sub(begun) < 9*time.Second {
			t.Errorf("the last one was started after %v", started.Sub(begun))
		}
	})
}

// oneSyncOfEach checks that two synchronizations of each account have been asked for, and run one after the other.
func oneSyncOfEach(t *testing.T, env *abidetest.Env, tenant string, accounts ...string) {
	t.Helper()
	count := func(status abide.Status) int {
		t.Helper()
		page, err := env.Client().List(t.Context(), abide.Filter{Tenant: &tenant, Orchestrations: []string{Syncs.Name()}, Statuses: []abide.Status{status}})
		check.OK(t, err)
		return len(page.Instances)
	}
	for i := range 3 {
		running := len(accounts)
		if i == 2 {
			running = 0
		}
		check.Equal(t, fmt.Sprintf("instances that run in period %d", i), count(abide.Running), running)
		check.Equal(t, fmt.Sprintf("instances that have completed in period %d", i), count(abide.Completed), i*len(accounts))
		env.Advance(10 * time.Minute)
	}
}

// TestActionsUnderALimit: actions complete at once, and what they start runs one at a time for each account.
func TestActionsUnderALimit(t *testing.T) {
	t.Parallel()
	abidetest.Run(t, func(t *testing.T, env *abidetest.Env) {
		env.Register(Syncs)
		service, err := newSyncs(env.Store(), env.Client())
		check.OK(t, err)
		run(t, service)
		for i := range 4 {
			account := fmt.Sprint("account-", i%2)
			_, _, err := service.Add(t.Context(), action.Request{ID: fmt.Sprint(i), Slug: account, Target: "sync", Payload: json.RawMessage(strconv.Quote(account))})
			check.OK(t, err)
		}
		env.Advance(2 * time.Minute)
		for i := range 4 {
			a, err := service.Get(t.Context(), action.DefaultTenant, fmt.Sprint(i))
			check.OK(t, err)
			check.Equal(t, "status of the action", a.Status, action.Completed)
		}
		oneSyncOfEach(t, env, abide.DefaultTenant, "account-0", "account-1")
	})
}

// TestTimersUnderALimit: timers fire when they are due, and what they start runs one at a time for each account.
func TestTimersUnderALimit(t *testing.T) {
	t.Parallel()
	abidetest.Run(t, func(t *testing.T, env *abidetest.Env) {
		env.Register(Syncs)
		var local bus.Local
		var twice error
		local.Subscribe(bus.Filter{Type: timer.TypeDueTimeReached}, func(ctx context.Context, e bus.Envelope) error {
			h := syncWhenDue(env.Client())
			twice = errors.Join(twice, h(ctx, e))
			return h(ctx, e)
		})
		timers, err := timer.New(timer.Config{Store: env.Store(), Logger: env.Config.Logger, Sinks: []outbox.Sink{{Name: "local", Bus: &local}}})
		check.OK(t, err)
		run(t, timers)
		for i := range 4 {
			account := fmt.Sprintf(`"account-%d"`, i%2)
			_, err := timers.Schedule(t.Context(), timer.Request{Tenant: "acme", Key: fmt.Sprint("sync-", i), Delay: time.Hour, Payload: json.RawMessage(account)})
			check.OK(t, err)
		}
		env.Advance(time.Hour + time.Minute)
		check.OK(t, twice)
		oneSyncOfEach(t, env, "acme", "account-0", "account-1")
	})
}
