package catalog

import (
	"encoding/json"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/abidehq/abide/internal/schema"
	"github.com/abidehq/abide/store"
)

// Kind is the kind of the records of signatures.
const Kind = "signature"

// MaxBuilds is how many builds of a program have their signatures kept.
const MaxBuilds = 8

// MaxEvents is how many events of an orchestration have their schemas kept.
const MaxEvents = 100

// Name identifies an orchestration, by its route, or an activity.
type Name struct {
	Route    string
	Activity bool
}

// Signature is what one build of a program says of an orchestration or an activity.
type Signature struct {
	Name

	// Build identifies the program, and is empty if that is not known. At is when a process of
	// that build has last published it first, by the clock of that process.
	Build string
	At    time.Time

	// Input and Result are nil if they are not known: the program does not encode them as JSON.
	Input  *schema.Schema
	Result *schema.Schema

	// Events are the events that the orchestration has waited for, by name.
	Events map[string]*schema.Schema
}

// equal reports whether two signatures say the same, whenever it was.
func (s *Signature) equal(other *Signature) bool {
	a, b := s.body(), other.body()
	a.At, b.At = time.Time{}, time.Time{}
	x, _ := json.Marshal(a)
	y, _ := json.Marshal(b)
	return string(x) == string(y)
}

// recordBody is the body of a record: signatures of builds, the last that was published first.
type recordBody struct {
	Builds []signatureBody `json:"builds"`
}

type signatureBody struct {
	Build  string                    `json:"build,omitempty"`
	At     time.Time                 `json:"at,omitzero"`
	Input  *schema.Schema            `json:"input,omitempty"`
	Result *schema.Schema            `json:"result,omitempty"`
	Events map[string]*schema.Schema `json:"events,omitempty"`
}

func (s *Signature) body() signatureBody {
	return signatureBody{Build: s.Build, At: s.At.UTC().Truncate(time.Millisecond), Input: s.Input, Result: s.Result, Events: s.Events}
}

func (n Name) key() store.RecordKey {
	prefix := "o/"
	if n.Activity {
		prefix = "a/"
	}
	return store.RecordKey{Kind: Kind, ID: prefix + n.Route}
}

// nameOf returns the name that a record is of.
func nameOf(key store.RecordKey) (Name, bool) {
	kind, route, ok := strings.Cut(key.ID, "/")
	return Name{Route: route, Activity: kind == "a"}, ok && (kind == "a" || kind == "o")
}

// parse reads a record.
func parse(r *store.Record) ([]Signature, error) {
	name, ok := nameOf(r.Key)
	if !ok {
		return nil, fmt.Errorf("catalog: record %q is not of an orchestration or activity: %w", r.Key.ID, store.ErrCorrupt)
	}
	var body recordBody
	if err := json.Unmarshal(r.Body, &body); err != nil {
		return nil, fmt.Errorf("catalog: record %q: %w: %w", r.Key.ID, err, store.ErrCorrupt)
	}
	signatures := make([]Signature, len(body.Builds))
	for i, b := range body.Builds {
		signatures[i] = Signature{Name: name, Build: b.Build, At: b.At, Input: b.Input, Result: b.Result, Events: b.Events}
	}
	return signatures, nil
}

// merge puts a signature before those of other builds, and reports whether that is a change. Events that
// the build has published before stay: another process of it has learned them.
func merge(of *Signature, all []Signature) ([]Signature, bool) {
	next := *of
	i := slices.IndexFunc(all, func(s Signature) bool { return s.Build == of.Build })
	if i >= 0 {
		next.Events = map[string]*schema.Schema{}
		for _, known := range []map[string]*schema.Schema{all[i].Events, of.Events} {
			for name, s := range known {
				if next.Events[name] != nil || len(next.Events) < MaxEvents {
					next.Events[name] = s
				}
			}
		}
		if len(next.Events) == 0 {
			next.Events = nil
		}
		if i == 0 && next.equal(&all[0]) {
			return all, false
		}
	}
	merged := []Signature{next}
	for j := range all {
		if j != i && len(merged) < MaxBuilds {
			merged = append(merged, all[j])
		}
	}
	return merged, true
}

// put returns the write of a record.
func put(name Name, signatures []Signature, version int64) (store.PutRecord, error) {
	var body recordBody
	for i := range signatures {
		body.Builds = append(body.Builds, signatures[i].body())
	}
	data, err := json.Marshal(body)
	if err != nil {
		return store.PutRecord{}, fmt.Errorf("catalog: %s: %w", name.Route, err)
	}
	return store.PutRecord{Expect: version, Record: store.Record{Key: name.key(), Name: name.Route, Time: signatures[0].At, Body: data}}, nil
}
