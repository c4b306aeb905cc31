package engine

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"time"

	"github.com/abidehq/abide/history"
	"github.com/abidehq/abide/internal/wire"
	"github.com/abidehq/abide/store"
)

// limitState is the record of a limit: what code declares, and what an operator has set instead.
type limitState struct {
	name string

	// declared is the rule as code has declared it last, at declaredAt; hasDeclared is false for a limit that an
	// operator has made.
	declared    history.Limit
	declaredAt  time.Time
	hasDeclared bool

	// set replaces the declared rule if hasSet. changedAt and by say when an operator has changed the limit, and
	// which one.
	set       history.Limit
	hasSet    bool
	paused    bool
	changedAt time.Time
	by        string

	version int64
}

// Statuses of a limit's record.
const (
	limitActive = "active"
	limitPaused = "paused"
)

const (
	limitFieldDeclared = 1
	limitFieldSet      = 2
	limitFieldPaused   = 3
	limitFieldChanged  = 4
)

// current returns the rule that counts.
func (s *limitState) current() *history.Limit {
	if s.hasSet {
		return &s.set
	}
	return &s.declared
}

func (s *limitState) rule() rule { return ruleOf(s.current(), s.paused) }

// learn notes what code has declared, and reports whether that is new.
func (s *limitState) learn(l history.Limit, at time.Time) bool {
	l.Key = ""
	if s.hasDeclared && (s.declared == l || at.Before(s.declaredAt)) {
		return false
	}
	s.name, s.declared, s.declaredAt, s.hasDeclared = l.Name, l, at, true
	return true
}

func (s *limitState) put(tenant string) store.PutRecord {
	out := []byte{gateFormat}
	field := func(number uint64, data []byte) {
		out = wire.AppendNumber(out, number)
		out = wire.AppendString(out, data)
	}
	if s.hasDeclared {
		field(limitFieldDeclared, append(wire.AppendTime(nil, s.declaredAt), encodeLimits([]history.Limit{s.declared})...))
	}
	if s.hasSet {
		field(limitFieldSet, encodeLimits([]history.Limit{s.set}))
	}
	status := limitActive
	if s.paused {
		status = limitPaused
		field(limitFieldPaused, nil)
	}
	if !s.changedAt.IsZero() {
		field(limitFieldChanged, wire.AppendString(wire.AppendTime(nil, s.changedAt), s.by))
	}
	return store.PutRecord{Expect: s.version, Record: store.Record{
		Key: limitRecord(tenant, s.name), Status: status, Name: s.name, Time: s.changedAt, Body: out,
	}}
}

// limitOf decodes the record of a limit. The error matches store.ErrCorrupt if it cannot be read.
func limitOf(r store.Record) (s limitState, err error) {
	s.name, s.version = r.Key.ID, r.Version
	d := read(r.Body)
	d.Format(gateFormat)
	one := func(data []byte) history.Limit {
		l := read(wire.AppendString(nil, data))
		limits := l.limits()
		if len(limits) != 1 {
			d.Fail("not a limit")
			return history.Limit{}
		}
		return limits[0]
	}
	for d.Err == nil && len(d.Data) > 0 {
		number, f := d.Number(), read(d.Bytes())
		switch {
		case d.Err != nil:
		case number == limitFieldDeclared:
			s.declaredAt = f.Time()
			s.declared, s.hasDeclared = one(f.Data), true
		case number == limitFieldSet:
			s.set, s.hasSet = one(f.Data), true
		case number == limitFieldPaused:
			s.paused = true
		case number == limitFieldChanged:
			s.changedAt, s.by = f.Time(), f.String()
		}
		if f.Err != nil {
			d.Fail(f.Err.Error())
		}
	}
	if d.Err != nil {
		return s, fmt.Errorf("abide: record of limit %q: %w: %w", r.Key.ID, d.Err, store.ErrCorrupt)
	}
	return s, nil
}

// readLimit reads the record of a limit. There may be none.
func readLimit(ctx context.Context, s store.Store, tenant, name string) (limitState, error) {
	r, err := s.Get(ctx, limitRecord(tenant, name))
	if errors.Is(err, store.ErrNotFound) {
		return limitState{name: name}, nil
	}
	if err != nil {
		return limitState{}, err
	}
	return limitOf(r)
}

// ruleMemory is what an engine remembers of limits, to save reads: a rule counts for rulesFor after a change, or until
// a message has the gate look. That a limit has no record is not remembered: it is made with the first work that enters.
// Gates are not remembered: the versions of a record that is deleted and put again begin anew, so that an old state
// could pass for a new one.
type ruleMemory struct {
	mu    sync.Mutex
	rules map[store.RecordKey]readRule
}

type readRule struct {
	limitState
	at time.Time
}

// rulesFor is for how long an engine goes by a rule that it has read, and maxRules how many it remembers.
const (
	rulesFor = time.Second
	maxRules = 4_096
)

// forget drops what is remembered of a limit.
func (m *ruleMemory) forget(key store.RecordKey) {
	m.mu.Lock()
	defer m.mu.Unlock()
	delete(m.rules, key)
}

// limit returns the state of a limit.
func (m *ruleMemory) limit(ctx context.Context, s store.Store, tenant, name string, now time.Time) (limitState, error) {
	key := limitRecord(tenant, name)
	m.mu.Lock()
	known, ok := m.rules[key]
	m.mu.Unlock()
	if ok && now.Sub(known.at) < rulesFor {
		return known.limitState, nil
	}
	state, err := readLimit(ctx, s, tenant, name)
	if err != nil || state.version == 0 {
		return state, err
	}
	m.mu.Lock()
	defer m.mu.Unlock()
	if m.rules == nil || len(m.rules) >= maxRules {
		m.rules = map[store.RecordKey]readRule{}
	}
	m.rules[key] = readRule{state, now}
	return state, nil
}
