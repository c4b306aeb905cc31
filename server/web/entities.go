package web

import (
	"github.com/abidehq/abide"
	"github.com/abidehq/abide/history"
)

func (s *site) addEntities() {
	s.section("entities", "/entities", "Entities")
	s.page("GET /entities", s.entities)
	s.page("GET /entities/{tenant}/{id}", s.entity)
}

func entityPath(ref abide.Ref) string {
	return "/entities/" + segment(ref.Tenant) + "/" + segment(ref.ID)
}

// entitiesData is what the list of entities shows.
type entitiesData struct {
	Scope       scope
	Prefix      string
	Rows        []abide.EntityInfo
	First, Next string
}

func (s *site) entities(r *request) (view, error) {
	sc, err := r.scope()
	if err != nil {
		return view{}, err
	}
	d := entitiesData{Scope: sc, Prefix: r.value("prefix")}
	f := abide.EntityFilter{Prefix: d.Prefix, Empty: true, Limit: rows, Cursor: r.value("cursor")}
	if sc.Asked != "" {
		f.Tenant = &sc.Asked
	}
	page, err := s.engine.Entities(r.ctx(), f)
	if err != nil {
		return view{}, err
	}
	d.Rows = page.Entities
	pairs := []string{"tenant", sc.Asked, "prefix", d.Prefix}
	if f.Cursor != "" {
		d.First = s.with("/entities", pairs...)
	}
	if page.Next != "" {
		d.Next = s.with("/entities", append(pairs, "cursor", page.Next)...)
	}
	return view{template: "entities", title: "Entities", section: "entities", live: "kinds=tick", data: &d}, nil
}

// entityData is what the page of an entity shows.
type entityData struct {
	Entity   abide.EntityInfo
	Waiting  []entityWait
	More     int // that wait and are not listed
	Commands []command
}

// entityWait is what waits for the lock of an entity.
type entityWait struct{ What, From string }

func (s *site) entity(r *request) (view, error) {
	tenant, err := r.owner()
	if err != nil {
		return view{}, err
	}
	e, err := s.engine.Entity(r.ctx(), abide.Ref{Tenant: tenant, ID: r.named("id")})
	if err != nil {
		return view{}, err
	}
	d := entityData{Entity: e, More: e.Backlog - len(e.Waiting)}
	for _, w := range e.Waiting {
		what := map[history.Kind]string{
			history.EntityCalled: "call of ", history.EntitySignaled: "signal ", history.EntityLockRequested: "request for the lock",
		}[w.Kind]
		d.Waiting = append(d.Waiting, entityWait{what + w.Operation, w.From})
	}
	d.Commands = []command{
		{"Copy as curl", s.curl(r, entityPath(e.Ref))},
		{"Copy as command", s.tool(r, "entities show "+shellQuote(e.Ref.ID)+tenantFlag(e.Ref.Tenant))},
	}
	return view{template: "entity", title: e.Ref.ID, section: "entities", live: "kinds=tick", data: &d}, nil
}
