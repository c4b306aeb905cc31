package engine

import (
	"cmp"
	"encoding/binary"
	"fmt"
	"maps"
	"slices"
	"time"

	"github.com/abidehq/abide/history"
	"github.com/abidehq/abide/internal/base"
	"github.com/abidehq/abide/internal/wire"
	"github.com/abidehq/abide/store"
)

// Info is the current state of an instance: its record.
//
// The exported fields are for readers. The others belong to the engine, and a turn needs them before it
// has read the log: which run the instance is at, where in the log its execution begins, and how many
// deliveries are forgiven. They are in the record rather than derived from the log, so that a turn of an
// instance that is not cached costs one read before it knows whether it has anything to do.
type Info struct {
	Ref

	// Name and Version are those of the orchestration.
	Name    string
	Version string

	Status Status

	// Before is the status to go back to when the instance is resumed.
	Before Status

	// Build is the build that all turns of the instance are run by; empty if any may run them.
	Build string

	// Runtime is the language and the version of the SDK that ran its first turn, if that is not Go's.
	Runtime string

	// Reason is the reason for which it is suspended, stalled or terminated.
	Reason string

	// Execution is the number of the current execution, from 1: each continue-as-new adds one.
	Execution int32

	// CreatedAt is when it was started, BegunAt when its code began, and EndedAt when
	// it ended; zero if that has not happened.
	CreatedAt time.Time
	BegunAt   time.Time
	EndedAt   time.Time

	// Parent is the ID of the instance that waits for this one, empty if there is none, with the
	// execution and the event that started it.
	Parent          string
	ParentExecution int32
	ParentEvent     int32

	Tags map[string]string

	// Text is the status text that the code has set, and Values are the values that it has
	// published. The map is replaced, never changed: see setValue.
	Text   string
	Values map[string][]byte

	// Result is the encoded result of a completed instance, or the one that a termination gave it, and
	// Failure the error of one that did not complete.
	Result  []byte
	Failure *history.Failure

	// Revision is the version of the record, which grows with each change. A turn that only
	// appends to the log does not change it.
	Revision int64

	// Awaited are the events that the code waits for, at most maxAwaited of them, as of the last
	// turn. The slice is replaced, never changed.
	Awaited []Awaited

	// BadPayload is the payload because of which the instance has stalled, and nil if there is
	// another reason.
	BadPayload *BadPayload

	// Limits are those under which the instance runs, from its start to its end, and Priority is its place among
	// what waits for them, and that of the activities and children that have none of their own.
	Limits   []history.Limit
	Priority int32

	// Admitted is true once all of the limits have admitted it. workRun is the run that it was started with.
	Admitted bool
	workRun  uint64

	// covered are the gates of the limits of its parent, and of the parents of that: what it begins under the same
	// limit is part of what they are.
	covered []string

	// run is the seed of the execution. Messages carry it, so that one for an earlier execution,
	// or for a deleted instance with the same ID, is dropped as stale. parentRun is the run of the
	// parent that waits.
	run       uint64
	parentRun uint64

	// offset is the index in the log of the execution's first event, and kept that of the first
	// event of the previous execution, whose history is kept until the next continue-as-new.
	// kept <= offset; entries before kept are trimmed.
	offset int
	kept   int

	// forgiven is the number of deliveries of the current messages that do not count as attempts:
	// they were left for a later turn, or the instance was resumed since.
	forgiven int

	// partial is true for a fork that has not run: its history ends within a turn, which the first
	// turn continues.
	partial bool

	// trial records which builds have stalled the instance since its last turn, see deploy.go.
	trial trial

	// origin is the root of the spans of the instance: the span of the caller that started it, or
	// that of its first turn. It is zero without a trace. last is the span of the last turn of the
	// previous execution, or of the turn that a fork continues.
	origin span
	last   uint64
}

// Route returns the name and version of the instance's orchestration.
func (i *Info) Route() string { return Route(i.Name, i.Version) }

// keyRoute returns the route of the instance's key: that of its orchestration, and of its build if it is
// pinned to one. One that waits for a limit has a route that no engine serves.
func (i *Info) keyRoute() string {
	if i.limited() {
		return routeLimited
	}
	return pinnedRoute(i.Route(), i.Build)
}

// Partial reports whether the history ends within a turn: the instance is a fork that has not run.
func (i *Info) Partial() bool { return i.partial }

// StalledBuild returns the build under which the instance has stalled, if it has stalled
// because of its code and the build is known.
func (i *Info) StalledBuild() string { return i.trial.build }

// TraceParent returns the span below which all spans of the instance are, in the form of
// the header of that name, or nothing if the instance is not part of a trace.
func (i *Info) TraceParent() string { return i.origin.parent() }

// infoFormat is the first byte of an instance's record.
const infoFormat = 1

// putRecord returns the write of the record. A turn that appends passes AnyVersion: it does so at a
// known length in the same commit, which conflicts with every other writer of the record.
func (i *Info) putRecord(expect int64) store.PutRecord {
	return store.PutRecord{
		Expect: expect,
		Record: store.Record{
			Key:    i.Ref.record(),
			Status: string(i.Status),
			Name:   i.Name,
			Time:   i.CreatedAt,
			Tags:   i.recordTags(),
			Body:   i.encode(),
		},
	}
}

// recordTags returns the tags of the record. One that has no room for that of the build is not found by its
// build; the body has it.
func (i *Info) recordTags() map[string]string {
	tags := base.WithParent(base.WithoutReserved(i.Tags), i.Parent)
	if len(tags) == store.MaxTags {
		return tags
	}
	return base.WithBuild(tags, i.Build)
}

func (i *Info) encode() []byte {
	out := make([]byte, 0, 96+len(i.Result)+len(i.Text))
	out = append(out, infoFormat)
	out = wire.AppendString(out, i.Version)
	out = wire.AppendString(out, i.Before)
	out = wire.AppendString(out, i.Reason)
	out = binary.AppendUvarint(out, uint64(i.Execution))
	out = binary.LittleEndian.AppendUint64(out, i.run)
	out = wire.AppendTime(out, i.BegunAt)
	out = wire.AppendTime(out, i.EndedAt)
	out = wire.AppendString(out, i.Parent)
	out = binary.AppendUvarint(out, uint64(i.ParentExecution))
	out = binary.AppendUvarint(out, uint64(i.ParentEvent))
	out = binary.LittleEndian.AppendUint64(out, i.parentRun)
	out = wire.AppendString(out, i.Text)
	out = binary.AppendUvarint(out, uint64(i.offset))
	out = binary.AppendUvarint(out, uint64(i.kept))
	out = binary.AppendUvarint(out, uint64(i.forgiven))
	out = binary.AppendUvarint(out, uint64(asInt(i.partial)))
	out = wire.AppendString(out, i.Result)
	if i.Failure != nil {
		out = appendEvent(out, &history.Event{Kind: history.ExecutionFailed, Failure: i.Failure})
	} else {
		out = wire.AppendString(out, "")
	}
	out = binary.AppendUvarint(out, uint64(len(i.Values)))
	for _, name := range sortedKeys(i.Values) {
		out = wire.AppendString(out, name)
		out = wire.AppendString(out, i.Values[name])
	}
	more := i.appendMore(nil)
	if i.origin.valid() || len(more) > 0 {
		out = appendSpan(out, &i.origin)
		out = binary.LittleEndian.AppendUint64(out, i.last)
	}
	return append(out, more...)
}

// Numbers of the fields of a record that not all records have. Each is a number and a
// string; readers skip those that they do not know.
const (
	moreTrial      = 1
	moreAwaited    = 2
	moreBadPayload = 3
	moreBuild      = 4
	moreRuntime    = 5
	moreLimits     = 6
)

// Run returns the number that distinguishes the execution from all others, of any instance.
func (i *Info) Run() uint64 { return i.run }

func (i *Info) appendMore(out []byte) []byte {
	if !i.trial.empty() {
		out = wire.AppendNumber(out, moreTrial)
		out = wire.AppendString(out, i.trial.encode())
	}
	if len(i.Awaited) > 0 {
		out = wire.AppendNumber(out, moreAwaited)
		out = wire.AppendString(out, encodeAwaited(i.Awaited))
	}
	if i.BadPayload != nil {
		out = wire.AppendNumber(out, moreBadPayload)
		out = wire.AppendString(out, i.BadPayload.encode())
	}
	if i.Build != "" {
		out = wire.AppendNumber(out, moreBuild)
		out = wire.AppendString(out, i.Build)
	}
	if i.Runtime != "" {
		out = wire.AppendNumber(out, moreRuntime)
		out = wire.AppendString(out, i.Runtime)
	}
	if len(i.Limits) > 0 || i.Priority != 0 || len(i.covered) > 0 {
		out = wire.AppendNumber(out, moreLimits)
		out = wire.AppendString(out, i.appendLimits(nil))
	}
	return out
}

func (i *Info) decodeMore(d *reader) {
	number, data := d.Number(), d.Bytes()
	if d.Err != nil {
		return
	}
	var err error
	switch number {
	case moreTrial:
		err = i.trial.decode(data)
	case moreAwaited:
		i.Awaited, err = decodeAwaited(data)
	case moreBadPayload:
		i.BadPayload, err = decodeBadPayload(data)
	case moreBuild:
		i.Build = string(data)
	case moreRuntime:
		i.Runtime = string(data)
	case moreLimits:
		err = i.decodeLimits(data)
	}
	if err != nil {
		d.Fail(err.Error())
	}
}

// encodeStart returns all of an instance that is about to begin: what its record has
// besides the body first.
func (i *Info) encodeStart() []byte {
	out := wire.AppendTime(nil, i.CreatedAt)
	out = wire.AppendString(out, i.Name)
	out = wire.AppendString(out, i.Status)
	out = binary.AppendUvarint(out, uint64(len(i.Tags)))
	for _, name := range sortedKeys(i.Tags) {
		out = wire.AppendString(out, name)
		out = wire.AppendString(out, i.Tags[name])
	}
	return append(out, i.encode()...)
}

// Encode returns all of an instance, for another process.
func (i *Info) Encode() []byte {
	out := wire.AppendString(nil, i.Tenant)
	out = wire.AppendString(out, i.ID)
	out = binary.AppendUvarint(out, uint64(i.Revision))
	return wire.AppendString(out, i.encodeStart())
}

// DecodeInfo reads what [Info.Encode] wrote.
func DecodeInfo(data []byte) (Info, error) {
	d := read(data)
	ref := Ref{Tenant: d.String(), ID: d.String()}
	revision := int64(d.Number())
	i := d.startInfo()
	if d.Err != nil {
		return Info{}, fmt.Errorf("abide: state of instance %v: %w", ref, d.Err)
	}
	i.Ref, i.Revision = ref, revision
	return *i, nil
}

// startInfo reads what encodeStart wrote. The reference is the key's.
func (r *reader) startInfo() *Info {
	d := read(r.Bytes())
	i := &Info{CreatedAt: d.Time(), Name: d.String(), Status: Status(d.Bytes())}
	if n := d.Number(); n > 0 && d.Err == nil {
		i.Tags = map[string]string{}
		for range n {
			if d.Err != nil {
				break
			}
			name := d.String()
			i.Tags[name] = d.String()
		}
	}
	i.decode(&d)
	if d.Err != nil {
		r.Fail(d.Err.Error())
	}
	return i
}

// infoOf decodes the record of an instance. The error matches store.ErrCorrupt if it cannot be read.
func infoOf(r store.Record) (Info, error) {
	i := Info{
		Ref:  Ref{Tenant: r.Key.Tenant, ID: r.Key.ID},
		Name: r.Name, Status: Status(r.Status), CreatedAt: r.Time, Tags: base.WithoutReserved(r.Tags), Revision: r.Version,
	}
	d := read(r.Body)
	i.decode(&d)
	if d.Err != nil {
		return Info{}, fmt.Errorf("abide: record of instance %v: %w: %w", i.Ref, d.Err, store.ErrCorrupt)
	}
	return i, nil
}

// decode reads what encode wrote.
func (i *Info) decode(d *reader) {
	d.Format(infoFormat)
	i.Version = d.String()
	i.Before = Status(d.Bytes())
	i.Reason = d.String()
	i.Execution = d.Int32()
	i.run = d.Uint64()
	i.BegunAt = d.Time()
	i.EndedAt = d.Time()
	i.Parent = d.String()
	i.ParentExecution = d.Int32()
	i.ParentEvent = d.Int32()
	i.parentRun = d.Uint64()
	i.Text = d.String()
	i.offset = int(d.Number())
	i.kept = int(d.Number())
	i.forgiven = int(d.Number())
	i.partial = d.Number() != 0
	if result := d.Bytes(); len(result) > 0 {
		i.Result = result
	}
	if end := d.Bytes(); len(end) > 0 {
		e, err := history.Parse(end)
		if err != nil {
			d.Fail(err.Error())
		}
		i.Failure = e.Failure
	}
	if n := d.Number(); n > 0 && d.Err == nil {
		i.Values = map[string][]byte{}
		for range n {
			if d.Err != nil {
				break
			}
			name := d.String()
			i.Values[name] = d.Bytes()
		}
	}
	if d.Err == nil && len(d.Data) > 0 {
		i.origin, i.last = d.span(), d.Uint64()
	}
	for d.Err == nil && len(d.Data) > 0 {
		i.decodeMore(d)
	}
}

// sortedKeys returns the keys of a map, which most often is empty, in order.
func sortedKeys[K cmp.Ordered, V any](m map[K]V) []K {
	if len(m) == 0 {
		return nil
	}
	return slices.Sorted(maps.Keys(m))
}

func asInt(b bool) int {
	if b {
		return 1
	}
	return 0
}
