package abide

import (
	"context"
	"time"

	"github.com/abidehq/abide/internal/engine"
)

// BuildOperator is what operators need of a [Transport] to manage builds. The transports of [Engine], [NewClient]
// and package remote implement it; over one that does not, the methods of [Client] with these names return
// [errors.ErrUnsupported].
type BuildOperator interface {
	// Builds returns the builds that are known, or the one with an ID.
	Builds(ctx context.Context, id string) ([]Build, error)

	// SetBuild changes what is set for a build.
	SetBuild(ctx context.Context, id string, change BuildChange) error

	// MoveBuild moves instances from one build to another.
	MoveBuild(ctx context.Context, move BuildMove) (BuildMoved, error)
}

// Build is a build that pins instances, or for which something is set, and what needs it.
type Build struct {
	// ID is its [Config.Build].
	ID string

	// Percent is the share of new instances that it gets; nil if none is set.
	Percent *int

	// Drained is true if it gets no new instances and no turns that another live build can run.
	Drained bool

	// SeenAt is when it was first seen, and Workers is the number of its live workers.
	SeenAt  time.Time
	Workers int

	// Orchestrations are those, name or name@version, whose instances it pins.
	Orchestrations []string

	// Needs are the orchestrations with open instances that are pinned to it. More is true if it has more
	// than 10,000 of them, which were not counted.
	Needs []BuildNeed
	More  bool
}

// BuildNeed is an orchestration with open instances that are pinned to a build.
type BuildNeed struct {
	// Orchestration is its name or name@version, and Open the number of instances.
	Orchestration string
	Open          int

	// Until is the latest time for which one of the 100 oldest of them has set a timer; zero if none
	// has. Instances may end before it, and may need the build after it.
	Until time.Time
}

// NoShare is the percent of a build that has no share of its own.
const NoShare = -1

// BuildChange is what is to be set for a build. What is nil stays as it is.
type BuildChange struct {
	// Percent is the share of new instances of pinned orchestrations that the build gets, from 0 to 100,
	// or [NoShare]. All shares together are at most 100; the rest goes to live builds without one. Which
	// instances are in the share depends on their tenant and ID alone.
	Percent *int

	// Drained ends that the build gets new instances, and turns of instances that are not pinned, as long
	// as another live build serves the orchestration.
	Drained *bool
}

// BuildMove moves the open instances that are pinned to the build From to the build To. Their histories are replayed
// there: an instance stalls if the code does not fit.
type BuildMove struct {
	From string

	// To is empty if any build may run them from then on.
	To string

	// Orchestrations limits the move to these, name or name@version. None means all.
	Orchestrations []string

	// Live moves them although workers of From are alive. Without it that is an [ErrState].
	Live bool
}

// BuildMoved is what a call of [Client.MoveBuild] has moved: at most 1,000 instances. More is true if there are more.
type BuildMoved struct {
	Moved int
	More  bool
}

// Builds returns the builds that pin instances or have something set, in order of their IDs, with what needs them. If
// id is not empty it returns that build alone, or [ErrNotFound].
func (c *Client) Builds(ctx context.Context, id string) ([]Build, error) {
	o, err := c.buildOperator("builds")
	if err != nil {
		return nil, err
	}
	return o.Builds(ctx, id)
}

// SetBuild changes what share of new instances a build gets, and whether it is drained. Engines learn of it at once, or
// within the poll interval of their store.
func (c *Client) SetBuild(ctx context.Context, id string, change BuildChange) error {
	o, err := c.buildOperator("set build")
	if err != nil {
		return err
	}
	return o.SetBuild(ctx, id, change)
}

// MoveBuild moves instances that are pinned to a build which is gone. Call it until [BuildMoved.More] is false.
func (c *Client) MoveBuild(ctx context.Context, move BuildMove) (BuildMoved, error) {
	o, err := c.buildOperator("move build")
	if err != nil {
		return BuildMoved{}, err
	}
	return o.MoveBuild(ctx, move)
}

func (c *Client) buildOperator(call string) (BuildOperator, error) {
	o, ok := c.transport.(BuildOperator)
	if !ok {
		return nil, unsupported(call)
	}
	return o, nil
}

func (t *storeTransport) Builds(ctx context.Context, id string) ([]Build, error) {
	reports, err := t.client.Builds(ctx, id)
	if err != nil {
		return nil, err
	}
	list := make([]Build, len(reports))
	for i := range reports {
		r := &reports[i]
		b := Build{ID: r.ID, Drained: r.Drained, SeenAt: r.Since, Workers: r.Workers, Orchestrations: r.Routes, More: r.More}
		if r.Percent != NoShare {
			b.Percent = &r.Percent
		}
		for _, n := range r.Needs {
			b.Needs = append(b.Needs, BuildNeed{Orchestration: n.Route, Open: n.Open, Until: n.Until})
		}
		list[i] = b
	}
	return list, nil
}

func (t *storeTransport) SetBuild(ctx context.Context, id string, change BuildChange) error {
	return t.client.SetBuild(ctx, id, engine.BuildChange(change))
}

func (t *storeTransport) MoveBuild(ctx context.Context, m BuildMove) (BuildMoved, error) {
	moved, more, err := t.client.MoveBuild(ctx, engine.BuildMove{From: m.From, To: m.To, Routes: m.Orchestrations, Live: m.Live})
	return BuildMoved{Moved: moved, More: more}, err
}
