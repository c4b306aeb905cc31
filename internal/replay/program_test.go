package replay_test

import (
	"context"
	"fmt"
	"strings"
	"time"

	"github.com/abidehq/abide/history"
	"github.com/abidehq/abide/internal/replay"
)

// choices turns bytes into decisions. When they run out, the rest is zeros.
type choices struct{ left []byte }

// pick returns a number below n.
func (c *choices) pick(n int) int {
	if len(c.left) == 0 {
		return 0
	}
	b := int(c.left[0])
	c.left = c.left[1:]
	return b % n
}

// done reports whether they have run out.
func (c *choices) done() bool { return len(c.left) == 0 }

// deed is something that a random orchestration does.
type deed struct {
	what deedKind
	n    int // says which one, among those that there are
	body []deed
}

type deedKind int

const (
	askActivity deedKind = iota
	askTimer
	askEvent
	askChild
	askChildWithoutID
	askPromise // and a coroutine that keeps it
	waitForOne
	waitForAny
	tellResult
	cancelOne
	cancelScope
	moveTimer
	stepGood
	stepBad
	markChange
	sendEvent
	detachChild
	setValue
	endNow
	// The following have a body.
	beside
	inScope
	inShield
	deferred
	deedKinds
)

// maxDepth is how deep the bodies of a random orchestration are nested.
const maxDepth = 3

// drawDeeds makes an orchestration of the choices. All bytes are good for one, so that
// a fuzzer gets somewhere.
func drawDeeds(c *choices, depth int) []deed {
	var block []deed
	most := mostDeeds(depth)
	for range c.pick(most) + most/5 {
		if c.done() {
			break
		}
		kinds := deedKinds
		if depth == maxDepth {
			kinds = beside
		}
		d := deed{what: deedKind(c.pick(int(kinds))), n: c.pick(256)}
		if d.hasBody(depth) {
			d.body = drawDeeds(c, depth+1)
		}
		block = append(block, d)
	}
	return block
}

// mostDeeds is about how many deeds there are in a body.
func mostDeeds(depth int) int {
	if depth == 0 {
		return 30
	}
	return 6
}

func (d *deed) hasBody(depth int) bool {
	return d.what >= beside || d.what == askPromise && depth < maxDepth
}

// actor does what deeds say. Its coroutines share all that it knows.
type actor struct {
	ran     *int // how many steps ran
	futures []*replay.Future
	cancels []func(string)
	chosen  int // by the last select
}

// codeOf returns an orchestration that does the deeds and counts the steps that run.
func codeOf(block []deed, ran *int) replay.Code {
	return func(c *replay.Context, _ []byte) replay.Outcome {
		a := &actor{ran: ran}
		if o := a.block(c, block); o != nil {
			return *o
		}
		c.Wait(a.futures...)
		if why := c.Cancelled(); why != nil {
			return replay.Outcome{Failure: why}
		}
		return result(a.known())
	}
}

func (a *actor) block(c *replay.Context, block []deed) *replay.Outcome {
	for i := range block {
		if block[i].what == deferred {
			return a.deferring(c, block[i].body, block[i+1:])
		}
		if o := a.do(c, &block[i]); o != nil {
			return o
		}
	}
	return nil
}

// deferring runs the rest of a block, and then the body.
func (a *actor) deferring(c *replay.Context, body, rest []deed) *replay.Outcome {
	defer a.block(c, body)
	return a.block(c, rest)
}

// do does what ends the code or has a body; the rest is further down.
func (a *actor) do(c *replay.Context, d *deed) *replay.Outcome {
	switch d.what {
	case endNow:
		switch d.n % 8 { // the others go on: code that ends at once is dull
		case 0:
			return &replay.Outcome{Failure: c.Cancelled()}
		case 1:
			return &replay.Outcome{Continue: &replay.Continue{Name: "test", Version: "2"}}
		case 2:
			return &replay.Outcome{Failure: &history.Failure{Message: a.known()}}
		}
	case beside:
		c.Go(func(c *replay.Context) { a.block(c, d.body) })
	case askPromise:
		f, keep := c.Promise("p")
		a.futures = append(a.futures, f)
		c.Go(func(c *replay.Context) {
			a.block(c, d.body)
			keep()
		})
	case inScope:
		scope, cancel := c.WithScope()
		a.cancels = append(a.cancels, cancel)
		return a.block(scope, d.body)
	case inShield:
		return a.block(c.Shield(), d.body)
	default:
		a.ask(c, d)
	}
	return nil
}

func (a *actor) ask(c *replay.Context, d *deed) {
	add := func(f *replay.Future) { a.futures = append(a.futures, f) }
	switch d.what {
	case askActivity:
		add(c.Activity(fmt.Sprintf("a%d", d.n), []byte(a.known()), history.Activity{}))
	case askTimer:
		add(c.Timer("", c.Now().Add(time.Duration(c.Uint64()%1e6)*time.Microsecond)))
	case askEvent:
		add(c.Receive(eventName(d.n)))
	case askChild:
		add(c.Child("child", fmt.Sprintf("c%d", d.n), nil, history.Child{}))
	case askChildWithoutID:
		add(c.Child("child", "", nil, history.Child{}))
	case stepGood:
		c.Step("good", func(context.Context) ([]byte, *history.Failure) {
			*a.ran++
			return []byte(a.known()), nil
		})
	case stepBad:
		c.Step("bad", func(context.Context) ([]byte, *history.Failure) {
			*a.ran++
			return nil, &history.Failure{Message: a.known()}
		})
	case markChange:
		c.SetStatus(fmt.Sprint(c.Changed(fmt.Sprintf("change-%d", d.n%3))))
	case sendEvent:
		c.Send(c.Self(), eventName(d.n), []byte(a.known()))
	case detachChild:
		c.SetStatus(c.Detach("child", "", nil, history.Child{}))
	case setValue:
		c.SetValue("now", fmt.Append(nil, c.Now(), c.Uint64(), c.Cancelled() != nil))
	case cancelScope:
		if n := len(a.cancels); n > 0 {
			a.cancels[d.n%n]("enough")
		}
	default:
		if len(a.futures) > 0 {
			a.use(c, d.what, d.n%len(a.futures))
		}
	}
}

// use does something with the i-th future.
func (a *actor) use(c *replay.Context, what deedKind, i int) {
	f := a.futures[i]
	switch what {
	case waitForOne:
		c.Wait(f)
	case waitForAny:
		a.chosen = c.WaitAny(a.futures[i:]...)
	case tellResult:
		data, failure := f.Result()
		c.SetStatus(fmt.Sprintf("%v %t %s %v %v %s", f, f.Done(), data, failure != nil, f.At(), f.Target()))
	case cancelOne:
		c.Cancel(f)
	case moveTimer:
		c.SetStatus(fmt.Sprint(c.Move(f, c.Now().Add(time.Hour+time.Microsecond))))
	}
}

// known is all that the code knows, so that it makes a difference in history.
func (a *actor) known() string {
	var b strings.Builder
	fmt.Fprintf(&b, "%d:", a.chosen)
	for _, f := range a.futures {
		switch data, failure := f.Result(); {
		case !f.Done():
			b.WriteByte('-')
		case failure != nil:
			b.WriteByte('!')
		default:
			b.Write(data)
		}
	}
	return b.String()
}

func eventName(n int) string { return fmt.Sprintf("e%d", n%2) }
