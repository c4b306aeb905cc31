package web

import (
	"strconv"

	"github.com/abidehq/abide/store"
)

func (s *site) addShards(sharded store.Sharded) {
	s.section("shards", "/shards", "Shards")
	s.page("GET /shards", func(r *request) (view, error) { return s.shards(r, sharded) })
}

// shardsData is what the page of shards shows.
type shardsData struct {
	Shards  []store.ShardStatus
	Move    *moveRow
	Command string // that moves a tenant
}

// moveRow is the move under way.
type moveRow struct {
	*store.ShardMove
	What   string // is moved
	Says   string // what the stage means
	Resume string // a command
}

// stageWords says what the stages of a move mean.
var stageWords = map[string]string{
	"copy":   "A copy is made. The tenants notice nothing.",
	"closed": "Calls of the tenants wait while the rest is copied.",
	"clean":  "The tenants are on the other shard. What is left on the first is removed.",
}

func (s *site) shards(r *request, sharded store.Sharded) (view, error) {
	if err := r.onlyEverything(); err != nil {
		return view{}, err
	}
	all, err := sharded.Shards(r.ctx())
	if err != nil {
		return view{}, err
	}
	d := shardsData{Shards: all.List, Command: "abide shards move b --tenant acme"}
	if m := all.Move; m != nil {
		what := "slot " + strconv.Itoa(m.Slot)
		if m.Slot < 0 {
			what = "tenant " + tenantName(m.Tenant)
		}
		d.Move = &moveRow{ShardMove: m, What: what, Says: stageWords[m.Stage], Resume: "abide shards resume"}
	}
	return view{template: "shards", title: "Shards", section: "shards", live: "kinds=tick", data: &d}, nil
}
