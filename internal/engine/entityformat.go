package engine

import (
	"crypto/sha256"
	"fmt"
	"slices"
	"time"

	"github.com/abidehq/abide/history"
	"github.com/abidehq/abide/internal/wire"
	"github.com/abidehq/abide/store"
)

// entityFormat is the first byte of the messages and of the record of an entity.
const entityFormat = 1

// entityKind says what a message to an entity is about. The numbers are on disk.
type entityKind uint64

const (
	entitySignal entityKind = 1
	entityCall   entityKind = 2
	entityLock   entityKind = 3 // a request for its lock
	entityUnlock entityKind = 4
	entityWake   entityKind = 5 // operations wait in its record that could run
)

// entityMessage is the body of a message to an entity.
type entityMessage struct {
	kind entityKind

	name    string // of the operation
	input   []byte
	request string

	// once is true for a signal whose request was chosen by its sender, which may send it twice.
	once bool

	// from, run and event name the instance that sent it, its execution, and the event by which it did:
	// that of the request for an unlock. from is empty if no instance did.
	from  string
	run   uint64
	event int32

	// set has the IDs of all entities of a request for locks, and at is which of them this one is. For an
	// unlock they are set if it goes on to the next one.
	set []string
	at  int
}

// Flags of an entityMessage, on disk.
const entityOnce = 1

func (m *entityMessage) encode() []byte { return m.append(make([]byte, 0, 96+len(m.input))) }

func (m *entityMessage) append(out []byte) []byte {
	out = append(out, entityFormat)
	out = wire.AppendNumber(out, uint64(m.kind))
	flags := uint64(0)
	if m.once {
		flags |= entityOnce
	}
	out = wire.AppendNumber(out, flags)
	out = wire.AppendString(out, m.from)
	out = wire.AppendNumber(out, m.run)
	out = wire.AppendNumber(out, uint64(m.event))
	out = wire.AppendString(out, m.name)
	out = wire.AppendString(out, m.request)
	out = wire.AppendStrings(out, m.set)
	out = wire.AppendNumber(out, uint64(m.at))
	return wire.AppendString(out, m.input)
}

func decodeEntityMessage(data []byte) (m entityMessage, err error) {
	if len(data) > 0 && data[0] > entityFormat && data[0] <= maxFormat {
		return m, fmt.Errorf("abide: message of format %d to an entity, this release knows %d: %w", data[0], entityFormat, errLater)
	}
	r := read(data)
	r.Format(entityFormat)
	m.kind = entityKind(r.Number())
	flags := r.Number()
	m.once = flags&entityOnce != 0
	m.from, m.run, m.event = r.String(), r.Number(), r.Int32()
	m.name, m.request = r.String(), r.String()
	m.set = wire.Strings[string](&r.Reader)
	m.at = int(r.Number())
	if input := r.Bytes(); len(input) > 0 {
		m.input = input
	}
	switch {
	case r.Err != nil:
		return m, fmt.Errorf("abide: message to an entity: %w", r.Err)
	case m.kind > entityWake || flags&^entityOnce != 0:
		return m, fmt.Errorf("abide: message of kind %d to an entity, with flags %#x: %w", m.kind, flags, errLater)
	case m.kind < entitySignal || len(m.set) > 0 && m.at >= len(m.set):
		return m, fmt.Errorf("abide: message of kind %d to an entity: %w", m.kind, errBody)
	}
	return m, nil
}

// asEvent returns what a message brings as the event by which an instance sends it; nil if none does.
func (m *entityMessage) asEvent(to string) *history.Event {
	kind := map[entityKind]history.Kind{
		entitySignal: history.EntitySignaled, entityCall: history.EntityCalled, entityLock: history.EntityLockRequested, entityUnlock: history.EntityUnlocked,
	}[m.kind]
	if kind == 0 {
		return nil
	}
	return &history.Event{Kind: kind, Name: m.name, Target: to, Data: m.input}
}

// entityItem is an operation, a request or a release that has reached an entity: with a message of the claim,
// or it has waited in the record, and then message is nil.
type entityItem struct {
	id      string
	message *store.Message
	entityMessage
}

// lockHolder is the instance that has locked an entity, its execution, and the event of its request.
type lockHolder struct {
	instance string
	run      uint64
	event    int32
}

// entityState is the record of an entity.
type entityState struct {
	exists   bool
	state    []byte
	modified time.Time

	holder  *lockHolder
	backlog []entityItem

	// done are hashes of the last requests of signals whose request was chosen by the sender.
	done [][sha256.Size / 2]byte

	// forgiven is that of [Info].
	forgiven int

	version int64 // of the record, 0 if there is none
}

// maxDone is how many requests are remembered.
const maxDone = 64

// Statuses of an entity's record.
const (
	entityUnlocked    = "unlocked"
	entityLocked      = "locked"
	entityEmpty       = "empty"        // it has no state, but operations that wait
	entityEmptyLocked = "empty-locked" // it has no state and is locked
)

func (s *entityState) status() string {
	switch {
	case s.exists && s.holder == nil:
		return entityUnlocked
	case s.exists:
		return entityLocked
	case s.holder == nil:
		return entityEmpty
	default:
		return entityEmptyLocked
	}
}

// clone returns a copy that can be changed.
func (s *entityState) clone() entityState {
	c := *s
	c.backlog, c.done = slices.Clip(c.backlog), slices.Clip(c.done)
	return c
}

// nothing reports whether the entity needs no record.
func (s *entityState) nothing() bool {
	return !s.exists && s.holder == nil && len(s.backlog) == 0 && s.forgiven == 0
}

func requestHash(request string) (h [sha256.Size / 2]byte) {
	sum := sha256.Sum256([]byte(request))
	copy(h[:], sum[:])
	return h
}

// Numbers of the fields of an entity's record. Each is a number and a string; readers skip those that they do
// not know.
const (
	entityFieldState    = 1
	entityFieldHolder   = 2
	entityFieldWaiting  = 3 // once for each that waits
	entityFieldDone     = 4
	entityFieldForgiven = 5
)

func (s *entityState) put(ref Ref, name string) store.PutRecord {
	out := append(make([]byte, 0, 64+len(s.state)), entityFormat)
	field := func(number uint64, data []byte) {
		out = wire.AppendNumber(out, number)
		out = wire.AppendString(out, data)
	}
	if s.exists {
		field(entityFieldState, s.state)
	}
	if h := s.holder; h != nil {
		field(entityFieldHolder, wire.AppendNumber(wire.AppendNumber(wire.AppendString(nil, h.instance), h.run), uint64(h.event)))
	}
	for i := range s.backlog {
		field(entityFieldWaiting, wire.AppendString(wire.AppendString(nil, s.backlog[i].id), s.backlog[i].encode()))
	}
	if len(s.done) > 0 {
		all := make([]byte, 0, len(s.done)*sha256.Size/2)
		for i := range s.done {
			all = append(all, s.done[i][:]...)
		}
		field(entityFieldDone, all)
	}
	if s.forgiven > 0 {
		field(entityFieldForgiven, wire.AppendNumber(nil, uint64(s.forgiven)))
	}
	return store.PutRecord{Expect: s.version, Record: store.Record{
		Key: ref.entityRecord(), Status: s.status(), Name: name, Time: s.modified, Body: out,
	}}
}

// entityOf decodes the record of an entity. The error matches store.ErrCorrupt if it cannot be read.
func entityOf(r store.Record) (s entityState, err error) {
	s.version, s.modified = r.Version, r.Time
	d := read(r.Body)
	d.Format(entityFormat)
	for d.Err == nil && len(d.Data) > 0 {
		number, f := d.Number(), read(d.Bytes())
		switch {
		case d.Err != nil:
		case number == entityFieldState:
			s.exists, s.state = true, f.Data
			if s.state == nil {
				s.state = []byte{}
			}
		case number == entityFieldHolder:
			s.holder = &lockHolder{instance: f.String(), run: f.Number(), event: f.Int32()}
		case number == entityFieldWaiting:
			item := entityItem{id: f.String()}
			if item.entityMessage, err = decodeEntityMessage(f.Bytes()); err != nil {
				d.Fail(err.Error())
			}
			s.backlog = append(s.backlog, item)
		case number == entityFieldDone:
			for h := range slices.Chunk(f.Data, sha256.Size/2) {
				s.done = append(s.done, [sha256.Size / 2]byte(h))
			}
		case number == entityFieldForgiven:
			s.forgiven = int(f.Number())
		}
		if f.Err != nil {
			d.Fail(f.Err.Error())
		}
	}
	if d.Err != nil {
		return s, fmt.Errorf("abide: record of entity %v: %w: %w", Ref{Tenant: r.Key.Tenant, ID: r.Key.ID}, d.Err, store.ErrCorrupt)
	}
	return s, nil
}
