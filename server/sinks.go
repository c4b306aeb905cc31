package server

import (
	"context"
	"maps"
	"net/http"
	"slices"
	"strconv"
	"strings"

	"github.com/danielgtaylor/huma/v2"

	"github.com/abidehq/abide/bus/outbox"
	"github.com/abidehq/abide/server/api"
	"github.com/abidehq/abide/server/auth"
	"github.com/abidehq/abide/store"
	"github.com/abidehq/abide/timer"
)

const tagSinks = "sinks"

// maxFailed is how far envelopes in quarantine are counted.
const maxFailed = 10_000

type deliveriesQuery struct {
	PageSize  int    `query:"page_size" minimum:"1" maximum:"1000" default:"100" doc:"How many there are on a page at most."`
	PageToken string `query:"page_token" doc:"The next_page_token of the page before."`
	Tenant    string `query:"tenant" doc:"Of one tenant."`
	Sink      string `query:"sink" doc:"To that sink."`
	State     string `query:"state" enum:"pending,published,retrying,failed" doc:"With that state."`
}

// addSinks adds the routes of sinks and deliveries.
func (s *Server) addSinks() {
	if s.cfg.Store == nil {
		return // nobody knows what waits
	}
	route(s, auth.Read, huma.Operation{
		OperationID: "list-sinks", Method: http.MethodGet, Path: "/api/v1/sinks", Summary: "List sinks", Tags: []string{tagSinks},
		Description: "Those that this server publishes to, and others for which something waits. What waits is that of all tenants, so it is for who may see all of them.",
	}, func(ctx context.Context, _ *struct{}) (*answer[api.SinkList], error) {
		if err := allTenants(ctx); err != nil {
			return nil, err
		}
		sinks, err := s.sinks(ctx)
		if err != nil {
			return nil, s.problem(err)
		}
		return &answer[api.SinkList]{http.StatusOK, api.SinkList{Sinks: sinks}}, nil
	})
	route(s, auth.Read, huma.Operation{
		OperationID: "list-deliveries", Method: http.MethodGet, Path: "/api/v1/deliveries", Summary: "List deliveries of envelopes", Tags: []string{tagSinks},
		Description: "Of timers that have fired, the latest first.",
	}, func(ctx context.Context, in *deliveriesQuery) (*answer[api.DeliveryList], error) {
		tenant, err := scope(ctx, in.Tenant)
		if err != nil {
			return nil, err
		}
		in.Tenant = tenant
		list, err := s.deliveries(ctx, in)
		if err != nil {
			return nil, s.problem(err)
		}
		return &answer[api.DeliveryList]{http.StatusOK, list}, nil
	})
}

// allTenants returns an error unless the caller may see and change what is anybody's.
func allTenants(ctx context.Context) error {
	if who, _ := auth.Of(ctx); who.Tenants != nil {
		return newProblem(http.StatusForbidden, api.CodeForbidden, "access to all tenants required",
			who.Name+" has access to some alone: "+strings.Join(slices.Sorted(slices.Values(who.Tenants)), ", "))
	}
	return nil
}

// sinks returns all sinks, in the order of their names.
func (s *Server) sinks(ctx context.Context) ([]api.Sink, error) {
	stats, err := s.cfg.Store.Stats(ctx)
	if err != nil {
		return nil, err
	}
	byName := map[string]api.Sink{}
	for _, name := range s.cfg.Timers.Sinks() {
		byName[name] = api.Sink{Name: name, Configured: true}
	}
	for _, r := range stats.Routes {
		if r.Queue == outbox.Queue {
			sink := byName[r.Route]
			sink.Name, sink.Pending, sink.Ready, sink.Oldest = r.Route, r.Pending, r.Ready, r.Oldest
			byName[r.Route] = sink
		}
	}
	sinks := make([]api.Sink, 0, len(byName))
	for _, name := range slices.Sorted(maps.Keys(byName)) {
		sink := byName[name]
		sink.Failed, err = s.cfg.Store.Count(ctx, store.Query{
			Kind: store.KindQuarantine, Names: []string{outbox.Queue}, Tags: map[string]string{store.TagRoute: name},
		}, maxFailed)
		if err != nil {
			return nil, err
		}
		sinks = append(sinks, sink)
	}
	return sinks, nil
}

// maxLook is how many timers are looked at to fill a page: a filter by sink or state has to
// look at each.
const maxLook = 5_000

// deliveries returns a page of deliveries of envelopes.
func (s *Server) deliveries(ctx context.Context, q *deliveriesQuery) (api.DeliveryList, error) {
	list := api.DeliveryList{Deliveries: []api.Delivery{}}
	skip, cursor, err := readPlace(q.PageToken)
	if err != nil {
		return list, err
	}
	f := timer.Filter{Tenant: q.Tenant, Statuses: []timer.Status{timer.Fired}, Descending: true, Limit: q.PageSize}
	for looked := 0; looked < maxLook; {
		f.Cursor = cursor
		page, err := s.cfg.Timers.List(ctx, f)
		if err != nil {
			return list, err
		}
		at := 0
		for i := range page.Timers {
			t := &page.Timers[i]
			for j := range t.Deliveries {
				if at++; at <= skip || !q.matches(&t.Deliveries[j]) {
					continue
				}
				if len(list.Deliveries) == q.PageSize {
					list.NextPageToken = place(at-1, cursor)
					return list, nil
				}
				list.Deliveries = append(list.Deliveries, api.FromTimerDelivery(t, &t.Deliveries[j]))
			}
		}
		if page.Next == "" {
			return list, nil
		}
		looked += len(page.Timers)
		skip, cursor = 0, page.Next
		if len(list.Deliveries) == q.PageSize {
			break
		}
	}
	list.NextPageToken = place(0, cursor)
	return list, nil
}

func (q *deliveriesQuery) matches(d *timer.Delivery) bool {
	return (q.Sink == "" || q.Sink == d.Sink) && (q.State == "" || q.State == string(d.State))
}

// place is where a page of deliveries begins: so many of them into a page of timers.
func place(skip int, cursor string) string { return strconv.Itoa(skip) + "." + cursor }

// readPlace is the inverse of place.
func readPlace(token string) (skip int, cursor string, err error) {
	if token == "" {
		return 0, "", nil
	}
	number, cursor, ok := strings.Cut(token, ".")
	if skip, err = strconv.Atoi(number); err != nil || !ok || skip < 0 {
		return 0, "", newProblem(http.StatusBadRequest, api.CodeInvalid, "invalid request", "page_token is not one of this list")
	}
	return skip, cursor, nil
}
