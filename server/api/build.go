package api

import (
	"time"

	"github.com/abidehq/abide"
)

// Build is a build that pins instances, or for which something is set.
type Build struct {
	ID             string      `json:"id"`
	Percent        *int        `json:"percent,omitempty" doc:"The share of new instances that it gets; not there if none is set."`
	Drained        bool        `json:"drained,omitempty" doc:"It gets no new instances, and no turns that another live build can run."`
	SeenAt         time.Time   `json:"seen_at,omitzero" doc:"When it was first seen."`
	Workers        int         `json:"workers" doc:"How many of its workers are alive."`
	Orchestrations []string    `json:"orchestrations,omitempty" doc:"Whose instances it pins, as name or name@version."`
	Needs          []BuildNeed `json:"needs" doc:"The orchestrations with open instances that are pinned to it."`
	More           bool        `json:"more,omitempty" doc:"It has more than 10,000 open instances, and the others were not counted."`
}

// BuildNeed is an orchestration with open instances that are pinned to a build.
type BuildNeed struct {
	Orchestration string    `json:"orchestration" doc:"As name or name@version."`
	Open          int       `json:"open" doc:"How many instances have not ended."`
	Until         time.Time `json:"until,omitzero" doc:"The latest time for which one of the 100 oldest of them has set a timer. They may end before it, and need the build after it."`
}

// BuildList is all builds.
type BuildList struct {
	Builds []Build `json:"builds"`
}

// BuildChange is what is to be set for a build.
type BuildChange struct {
	Percent *int  `json:"percent,omitempty" minimum:"-1" maximum:"100" doc:"The share of new instances that it gets; -1 for none of its own."`
	Drained *bool `json:"drained,omitempty" doc:"Whether it gets nothing that another live build can run."`
}

// BuildMove moves the open instances of a build to another one.
type BuildMove struct {
	To             string   `json:"to,omitempty" maxLength:"128" doc:"The build that they are pinned to from then on; without it any may run them."`
	Orchestrations []string `json:"orchestrations,omitempty" maxItems:"1000" doc:"Those of these orchestrations alone, as name or name@version."`
	Live           bool     `json:"live,omitempty" doc:"Although workers of the build are alive."`
}

// BuildMoved is how many instances were moved.
type BuildMoved struct {
	Moved int  `json:"moved"`
	More  bool `json:"more,omitempty" doc:"There are more: ask again."`
}

// FromBuild returns a build for the wire.
func FromBuild(b *abide.Build) Build {
	out := Build{
		ID: b.ID, Percent: b.Percent, Drained: b.Drained, SeenAt: b.SeenAt, Workers: b.Workers, Orchestrations: b.Orchestrations,
		Needs: make([]BuildNeed, len(b.Needs)), More: b.More,
	}
	for i := range b.Needs {
		out.Needs[i] = BuildNeed(b.Needs[i])
	}
	return out
}

// Build is the inverse of [FromBuild].
func (b *Build) Build() abide.Build {
	out := abide.Build{
		ID: b.ID, Percent: b.Percent, Drained: b.Drained, SeenAt: b.SeenAt, Workers: b.Workers, Orchestrations: b.Orchestrations, More: b.More,
	}
	for i := range b.Needs {
		out.Needs = append(out.Needs, abide.BuildNeed(b.Needs[i]))
	}
	return out
}
