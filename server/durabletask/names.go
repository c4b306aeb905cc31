package durabletask

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"slices"

	"github.com/abidehq/abide/store"
)

// names are the routes of orchestrations, those of activities, and the entities that a task hub has used.
type names struct {
	Orchestrations []string `json:"orchestrations,omitempty"`
	Activities     []string `json:"activities,omitempty"`
	Entities       []string `json:"entities,omitempty"`
}

// maxNames is how many names a task hub may have.
const maxNames = 10_000

// kindHub is the kind of the record that keeps the names of a task hub.
const kindHub = "taskhub"

func hubKey(tenant string) store.RecordKey {
	return store.RecordKey{Kind: kindHub, Tenant: tenant, ID: "names"}
}

// lists returns pointers to the lists.
func (n *names) lists() []*[]string {
	return []*[]string{&n.Orchestrations, &n.Activities, &n.Entities}
}

// add adds those of more that are missing, and reports whether there were any. The lists are replaced, never
// changed.
func (n *names) add(more names) (added bool) {
	from := more.lists()
	for i, list := range n.lists() {
		for _, name := range *from[i] {
			if !slices.Contains(*list, name) {
				*list, added = append(slices.Clip(*list), name), true
			}
		}
	}
	return added
}

// has reports whether all of more are there.
func (n *names) has(more *names) bool {
	own := n.lists()
	for i, list := range more.lists() {
		for _, name := range *list {
			if !slices.Contains(*own[i], name) {
				return false
			}
		}
	}
	return true
}

func (n *names) len() int { return len(n.Orchestrations) + len(n.Activities) + len(n.Entities) }

// parseNames reads a record.
func parseNames(r store.Record) (n names, version int64, err error) {
	if err := json.Unmarshal(r.Body, &n); err != nil {
		return names{}, 0, fmt.Errorf("names of task hub %q: %w: %w", r.Key.Tenant, err, store.ErrCorrupt)
	}
	return n, r.Version, nil
}

// readNames returns the names of a task hub, none if it has no record.
func readNames(ctx context.Context, s store.Store, tenant string) (n names, version int64, err error) {
	r, err := s.Get(ctx, hubKey(tenant))
	if errors.Is(err, store.ErrNotFound) {
		return names{}, 0, nil
	}
	if err != nil {
		return names{}, 0, err
	}
	return parseNames(r)
}

// awaitNames returns the names of a task hub as soon as they are later than a version.
func awaitNames(ctx context.Context, s store.Store, tenant string, after int64) (n names, version int64, err error) {
	r, err := s.Await(ctx, hubKey(tenant), after)
	if errors.Is(err, store.ErrNotFound) { // deleted with its tenant
		return names{}, 0, nil
	}
	if err != nil {
		return names{}, 0, err
	}
	return parseNames(r)
}

// changeTries is how often a change of the names is tried that meets another one.
const changeTries = 20

// addNames adds names to those of a task hub, durably.
func addNames(ctx context.Context, s store.Store, tenant string, more names) (n names, version int64, err error) {
	for try := 1; ; try++ {
		n, version, err := readNames(ctx, s, tenant)
		if err != nil || !n.add(more) {
			return n, version, err
		}
		if n.len() > maxNames {
			return n, version, fmt.Errorf("the task hub has used %d names of orchestrations, activities and entities, at most %d are allowed", n.len(), maxNames)
		}
		body, err := json.Marshal(n)
		if err != nil {
			return n, version, err
		}
		put := store.PutRecord{Expect: version, Record: store.Record{Key: hubKey(tenant), Body: body}}
		err = s.Commit(ctx, &store.Tx{PutRecords: []store.PutRecord{put}})
		if err == nil {
			return n, version + 1, nil
		}
		if !errors.Is(err, store.ErrConflict) || try == changeTries {
			return names{}, 0, err
		}
	}
}
