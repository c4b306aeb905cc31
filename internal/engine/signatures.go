package engine

import (
	"context"
	"fmt"
	"slices"
	"strings"

	"github.com/abidehq/abide/internal/catalog"
	"github.com/abidehq/abide/internal/schema"
)

// Signature is what a build of a program says of an orchestration or an activity.
type Signature = catalog.Signature

// SignatureName identifies an orchestration, by its route, or an activity.
type SignatureName = catalog.Name

// Signatures returns what programs have published of their orchestrations and activities.
func (c *Client) Signatures(ctx context.Context) ([]Signature, error) {
	book := c.catalog
	if book == nil {
		book = catalog.New(c.store, c.clock, nil)
	}
	all, err := book.All(ctx)
	return all, wrap("signatures", err)
}

// Learn notes an event that an orchestration of this process waits for, so that others can check it,
// and returns the name of its schema.
func (c *Client) Learn(route, event string, s *schema.Schema) string {
	if c.catalog == nil || s == nil {
		return ""
	}
	c.catalog.Learn(route, event, s)
	return catalog.ID(s)
}

// checkInputs returns [ErrPayload] if an input does not fit its orchestration, and [ErrUnserved] if
// no worker has ever served the orchestration. An input of the type that this process serves costs
// neither a read nor a look at its bytes.
func (c *Client) checkInputs(ctx context.Context, starts []Start) error {
	if c.catalog == nil {
		return nil
	}
	for i := range starts {
		s := &starts[i]
		if s.Unchecked {
			continue
		}
		name := catalog.Name{Route: Route(s.Name, s.Version)}
		own := c.catalog.Own(name)
		if own != nil && (own.Input == nil || own.Input == s.Schema || own.Input.Check(s.Input) == nil) {
			continue
		}
		signatures, err := c.catalog.Get(ctx, name)
		if err != nil {
			return wrap("start", err)
		}
		if own != nil {
			signatures = append([]Signature{*own}, signatures...)
		}
		if len(signatures) == 0 {
			return c.neverServed(ctx, s)
		}
		input := func(s *Signature) (*schema.Schema, bool) { return s.Input, true }
		if err := c.checkPayload(ctx, signatures, input, s.Input); err != nil {
			return fmt.Errorf("abide: start: the input of orchestration %q: %w: %w", name.Route, err, ErrPayload)
		}
	}
	return nil
}

// checkPayload returns an error if data fits neither the signature that was published last nor that of
// another live build: during a rolling deploy both are right. Of returns the schema of a signature, nil
// if it has none, and false if the signature does not know what is checked.
func (c *Client) checkPayload(ctx context.Context, signatures []Signature, of func(*Signature) (*schema.Schema, bool), data []byte) error {
	var first error
	var live map[string]bool
	for i := range signatures {
		s, known := of(&signatures[i])
		if !known {
			continue
		}
		if s == nil {
			return nil
		}
		if first != nil {
			if live == nil {
				live = c.liveBuilds(ctx, signatures[0].Route)
			}
			if !live[signatures[i].Build] {
				continue
			}
		}
		err := s.Check(data)
		if err == nil {
			return nil
		}
		if first == nil {
			first = err
		}
	}
	return first
}

// liveBuilds returns the builds of live workers that serve a route. If they cannot be read there are
// none.
func (c *Client) liveBuilds(ctx context.Context, route string) map[string]bool {
	builds := map[string]bool{}
	workers, err := c.peers.get(ctx, c, c.clock.Now())
	if err != nil {
		return builds
	}
	for i := range workers {
		if slices.Contains(workers[i].Routes, route) {
			builds[workers[i].Build] = true
		}
	}
	return builds
}

// served reports whether this process or a live worker serves a route for a tenant, as far as it is known.
func (c *Client) served(ctx context.Context, route, tenant string) bool {
	if c.catalog == nil || !c.drained.Load() && c.catalog.Own(catalog.Name{Route: route}) != nil && (c.tenants == nil || slices.Contains(c.tenants, tenant)) {
		return true
	}
	workers, err := c.peers.get(ctx, c, c.clock.Now())
	return err == nil && slices.ContainsFunc(workers, func(w Worker) bool { return w.Serves(route, tenant) })
}

// maxNames is how many names an error lists.
const maxNames = 10

// neverServed returns the error of a start of an orchestration that no worker has ever served, with
// what is served under that name or under a similar one.
func (c *Client) neverServed(ctx context.Context, s *Start) error {
	all, err := c.catalog.All(ctx)
	if err != nil {
		return wrap("start", err)
	}
	var versions, names []string
	for i := range all {
		if all[i].Activity {
			continue
		}
		name, version, _ := strings.Cut(all[i].Route, "@")
		if name == s.Name && !slices.Contains(versions, version) {
			versions = append(versions, version)
		}
		if !slices.Contains(names, all[i].Route) {
			names = append(names, all[i].Route)
		}
	}
	switch {
	case len(versions) > 0:
		for i, v := range versions {
			if versions[i] = fmt.Sprintf("%q", v); v == "" {
				versions[i] = "none"
			}
		}
		return fmt.Errorf("abide: start: orchestration %q, version %q: %w; its versions are %s", s.Name, s.Version, ErrUnserved, strings.Join(versions, ", "))
	case len(names) == 0:
		return fmt.Errorf("abide: start: orchestration %q: %w, nor is any other on this store; start a worker, or start it unchecked to have it wait for one", s.Name, ErrUnserved)
	}
	more := ""
	if len(names) > maxNames {
		names, more = names[:maxNames], ", …"
	}
	return fmt.Errorf("abide: start: orchestration %q: %w; those that are or were served are %s%s", s.Name, ErrUnserved, strings.Join(names, ", "), more)
}

// markUnserved says of starts whether a live worker serves them.
func (c *Client) markUnserved(ctx context.Context, starts []Start, done []Started) {
	if c.catalog == nil {
		return
	}
	for i := range starts {
		done[i].Unserved = !c.served(ctx, Route(starts[i].Name, starts[i].Version), starts[i].Ref.Tenant)
	}
}

// checkEvent returns [ErrPayload] if the payload of an event does not fit what the instance waits for,
// or what its orchestration has waited for under that name.
func (c *Client) checkEvent(ctx context.Context, info *Info, name string, data []byte) error {
	if c.catalog == nil {
		return nil
	}
	of := catalog.Name{Route: info.Route()}
	waits := slices.IndexFunc(info.Awaited, func(a Awaited) bool { return a.Name == name })
	own := c.catalog.Own(of)
	if own != nil && waits >= 0 {
		// What this process waits for itself: the common case reads nothing.
		if s := own.Events[name]; s != nil && catalog.ID(s) == info.Awaited[waits].Schema {
			return payloadError(name, s.Check(data))
		}
	}
	signatures, err := c.catalog.Get(ctx, of)
	if err != nil {
		return wrap("raise", err)
	}
	if own != nil {
		signatures = append([]Signature{*own}, signatures...)
	}
	event := func(s *Signature) (*schema.Schema, bool) {
		of, known := s.Events[name]
		return of, known
	}
	if waits >= 0 && info.Awaited[waits].Schema != "" {
		if exact := catalog.EventSchema(signatures, name, info.Awaited[waits].Schema); exact != nil {
			event = func(*Signature) (*schema.Schema, bool) { return exact, true }
		}
	}
	return payloadError(name, c.checkPayload(ctx, signatures, event, data))
}

// payloadError returns the error of an event whose payload does not fit, or nil.
func payloadError(name string, err error) error {
	if err == nil {
		return nil
	}
	return fmt.Errorf("abide: raise: the payload of event %q: %w: %w", name, err, ErrPayload)
}
