package main

import (
	"context"
	"errors"
	"fmt"
	"net"
	"os"
	"os/signal"
	"strings"
	"syscall"
	"time"

	"github.com/abidehq/abide"
	"github.com/abidehq/abide/action"
	"github.com/abidehq/abide/action/hook"

	_ "github.com/abidehq/abide/store/pgstore"
)

// What a newcomer writes besides the service, mistakes included.
var (
	// Signup has a guarded change if WELCOME is set.
	Signup = abide.NewOrchestration("signup", func(ctx abide.Context, mail string) (string, error) {
		if os.Getenv("WELCOME") != "" && abide.Changed(ctx, "welcome-mail") {
			if _, err := SendMail.Call(ctx, Mail{To: mail, Text: "welcome"}); err != nil {
				return "", err
			}
		}
		cancelled := Cancelled.Receive(ctx)
		timer := abide.NewTimer(ctx, 7*day, abide.Named("day-7"))
		if abide.Select(ctx, cancelled, timer) == 0 {
			timer.Cancel(ctx)
			return "cancelled", nil
		}
		return "expired", nil
	})

	// Patience has the time.Duration of which newcomers write "48h".
	Patience = abide.NewOrchestration("patience", func(ctx abide.Context, in struct {
		Wait time.Duration `json:"wait"`
	}) (string, error) {
		return "waited", abide.Sleep(ctx, in.Wait)
	})

	// Fan has children, three of which fail.
	Fan = abide.NewOrchestration("fan", func(ctx abide.Context, n int) (int, error) {
		var parts []*abide.Future[int]
		for i := range n {
			parts = append(parts, Part.Go(ctx, i, abide.ID(fmt.Sprintf("%s/c-%03d", abide.Self(ctx).ID, i))))
		}
		done := 0
		for _, p := range parts {
			if _, err := p.Get(ctx); err == nil {
				done++
			}
		}
		return done, nil
	})

	// Part is a child of Fan.
	Part = abide.NewOrchestration("part", func(_ abide.Context, i int) (int, error) {
		if i == 13 || i == 80 || i == 147 {
			return 0, abide.NewError("no-money", fmt.Sprintf("part %d has no money", i))
		}
		return i, nil
	})

	// Long has many events, and then waits.
	Long = abide.NewOrchestration("long", func(ctx abide.Context, n int) (string, error) {
		for i := range n {
			if _, err := Count.Call(ctx, fmt.Sprint(i)); err != nil {
				return "", err
			}
		}
		return "cooled down", abide.Sleep(ctx, time.Hour, abide.Named("cool-down"))
	})

	// Boom fails by the panic of an activity.
	Boom = abide.NewOrchestration("boom", func(ctx abide.Context, _ abide.None) (string, error) {
		return Explode.Call(ctx, abide.None{}, abide.Retry(1))
	})

	// Explode panics.
	Explode = abide.NewActivity("explode", func(context.Context, abide.None) (string, error) { panic("the boiler burst") })

	// Renewal is only there in its second version.
	Renewal = abide.NewOrchestration("renewal", func(abide.Context, abide.None) (string, error) { return "renewed", nil }, abide.Version("2"))
)

func init() {
	definitions = append(definitions, Signup, Patience, Fan, Part, Long, Boom, Explode, Renewal)
	if len(os.Args) < 2 || strings.HasPrefix(os.Args[1], "-") { // a test
		return
	}
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	defer stop()
	done := make(chan error)
	go func() { done <- lab(ctx, os.Args[1], os.Args[2:]) }() // init has a thread of its own
	if err := <-done; err != nil {
		fmt.Println("error:", err)
		os.Exit(1)
	}
	os.Exit(0)
}

// lab does one thing that a newcomer does, and prints what comes of it.
func lab(ctx context.Context, what string, args []string) error {
	switch what {
	case "serve": // ADDRESS
		listener, err := net.Listen("tcp", args[0])
		if err != nil {
			return err
		}
		fmt.Println("page http://" + listener.Addr().String() + "/abide/")
		cfg := abide.Config{Store: os.Getenv("ABIDE_STORE")}
		configure(&cfg)
		return run(ctx, cfg, listener, "a secret of sixteen or more")
	case "forgot": // the activity is not registered
		return forgot(ctx)
	case "raise": // ID
		engine, err := open(ctx)
		if err != nil {
			return err
		}
		defer engine.Close()
		return raise(ctx, engine, args[0])
	case "tenant":
		return noTenant(ctx)
	case "metrics": // ADDRESS
		listener, err := net.Listen("tcp", args[0])
		if err != nil {
			return err
		}
		fmt.Println("page http://" + listener.Addr().String() + "/abide/")
		return metrics(ctx, listener)
	default:
		return errors.New("what?")
	}
}

// forgot starts an orchestration whose activity is not registered, and waits for its result.
func forgot(ctx context.Context) error {
	engine, err := open(ctx, Boom)
	if err != nil {
		return err
	}
	defer engine.Close()
	started, err := Boom.Start(ctx, engine, abide.None{}, abide.ID("boom-1"))
	if err != nil {
		return err
	}
	ctx, cancel := context.WithTimeout(ctx, 4*time.Second)
	defer cancel()
	_, err = started.Result(ctx)
	return err
}

// noTenant adds a schedule and makes a hook without a tenant.
func noTenant(ctx context.Context) error {
	engine, err := open(ctx)
	if err != nil {
		return err
	}
	defer engine.Close()
	actions, err := newActions(engine.Store(), engine, nil)
	if err != nil {
		return err
	}
	_, addErr := actions.AddSchedule(ctx, action.Plan{ID: "no-tenant", Slug: "report", Target: "report", Cron: "30 2 * * *"})
	_, hookErr := hook.New(hook.Config{Receiver: actions, Hooks: []hook.Hook{{
		Slug: "github", Target: "deploy", Verify: hook.GitHub{Secrets: []hook.Secret{hook.NewSecret("a secret of sixteen or more")}},
	}}})
	return errors.Join(addErr, hookErr)
}
