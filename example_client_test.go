package abide_test

import (
	"context"
	"errors"
	"fmt"
	"log"
	"time"

	"github.com/abidehq/abide"
)

// hello takes no time, and patient waits for an event.
var (
	letters   = abide.NewValue[int]("letters")
	helloFlow = abide.NewOrchestration("hello", func(ctx abide.Context, name string) (string, error) {
		abide.SetStatus(ctx, "greeting")
		letters.Set(ctx, len(name))
		return "hello " + name, nil
	})
	goAhead     = abide.NewEvent[string]("go ahead")
	patientFlow = abide.NewOrchestration("patient", func(ctx abide.Context, _ abide.None) (string, error) { return goAhead.Wait(ctx) })
)

// The ID of an instance is unique in its tenant: starting it twice starts it once.
func ExampleID() {
	ctx := context.Background()
	e := open(patientFlow)
	defer e.Close()
	for range 2 {
		order, err := patientFlow.Start(ctx, e, abide.None{}, abide.ID("order-1"))
		if err != nil {
			log.Fatal(err)
		}
		fmt.Println(order.ID(), order.Existed())
	}
	// Output:
	// order-1 false
	// order-1 true
}

// Tenants have separate instances: the same ID can be used in each.
func ExampleTenant() {
	ctx := context.Background()
	e := open(helloFlow)
	defer e.Close()
	for _, tenant := range []string{"acme", "globex"} {
		greeting, err := helloFlow.Start(ctx, e, tenant, abide.Tenant(tenant), abide.ID("greeting"))
		if err != nil {
			log.Fatal(err)
		}
		text, err := greeting.Result(ctx)
		fmt.Println(greeting.Ref().Tenant, text, err)
	}
	// Output:
	// acme hello acme <nil>
	// globex hello globex <nil>
}

// Many instances are started in one commit: all of them or none.
func ExampleOrchestration_Prepare() {
	ctx := context.Background()
	e := open(helloFlow)
	defer e.Close()
	var requests []abide.StartRequest
	for _, name := range []string{"Ada", "Grace", "Joan"} {
		request, err := helloFlow.Prepare(e, name, abide.ID(name))
		if err != nil {
			log.Fatal(err)
		}
		requests = append(requests, request)
	}
	started, err := e.Start(ctx, requests...)
	fmt.Println(len(started), err)
	fmt.Println(helloFlow.Instance(e, "Joan").Result(ctx))
	// Output:
	// 3 <nil>
	// hello Joan <nil>
}

// An event can be raised before its instance waits for it, or even exists.
func ExampleEvent_Raise() {
	ctx := context.Background()
	e := open(patientFlow)
	defer e.Close()
	if err := goAhead.Raise(ctx, e, "order-1", "now"); err != nil {
		log.Fatal(err)
	}
	order, err := patientFlow.Start(ctx, e, abide.None{}, abide.ID("order-1"))
	if err != nil {
		log.Fatal(err)
	}
	fmt.Println(order.Result(ctx))
	// Output: now <nil>
}

// An orchestration publishes its progress as a status text and as values.
func ExampleNewValue() {
	ctx := context.Background()
	e := open(helloFlow)
	defer e.Close()
	greeting, err := helloFlow.Start(ctx, e, "Ada")
	if err != nil {
		log.Fatal(err)
	}
	info, err := e.WaitEnd(ctx, greeting.Ref())
	if err != nil {
		log.Fatal(err)
	}
	n, _, err := letters.Get(info)
	if err != nil {
		log.Fatal(err)
	}
	fmt.Println(info.Status, info.StatusText, n)
	// Output: completed greeting 3
}

// Instances are listed by status, orchestration, time and tags.
func ExampleClient_All() {
	ctx := context.Background()
	e := open(helloFlow, patientFlow)
	defer e.Close()
	for _, region := range []string{"eu", "us", "eu"} {
		if _, err := patientFlow.Start(ctx, e, abide.None{}, abide.ID("order-in-"+region), abide.Tag("region", region)); err != nil {
			log.Fatal(err)
		}
	}
	for info, err := range e.All(ctx, abide.Filter{Tags: map[string]string{"region": "eu"}}) {
		if err != nil {
			log.Fatal(err)
		}
		fmt.Println(info.Ref.ID, info.Tags["region"])
	}
	// Output: order-in-eu eu
}

// A cancelled instance ends as its code decides: by default with ErrCancelled.
func ExampleClient_Cancel() {
	ctx := context.Background()
	e := open(patientFlow)
	defer e.Close()
	order, err := patientFlow.Start(ctx, e, abide.None{}, abide.ID("order-1"))
	if err != nil {
		log.Fatal(err)
	}
	if err := e.Cancel(ctx, order.Ref(), "the customer has changed her mind"); err != nil {
		log.Fatal(err)
	}
	_, err = order.Result(ctx)
	fmt.Println(errors.Is(err, abide.ErrCancelled))
	// Output: true
}

// A change feed tells of each change of every instance.
func ExampleClient_Changes() {
	ctx, cancel := context.WithTimeout(context.Background(), time.Minute)
	defer cancel()
	e := open(helloFlow)
	defer e.Close()
	changes := e.Changes(ctx, "") // those after the call
	if _, err := helloFlow.Start(ctx, e, "Ada", abide.ID("greeting")); err != nil {
		log.Fatal(err)
	}
	for change, err := range changes {
		if err != nil {
			log.Fatal(err)
		}
		if change.Status.Ended() {
			fmt.Println(change.Ref.ID, change.Status)
			break
		}
	}
	// Output: greeting completed
}
