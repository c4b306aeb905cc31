package operation

import (
	"fmt"

	"github.com/abidehq/abide"
	"github.com/abidehq/abide/internal/wire"
	"github.com/abidehq/abide/store"
)

// Names in the store. The tenant of a record and of its message is that of [Operation.Tenant]:
// empty if the operation is about all tenants. Releases before that kept all operations under the
// empty tenant; those stay there until they are removed. The route of messages with a tenant is
// another one, so that processes of these releases do not claim messages whose records they
// would not find.
const (
	kind        = "operation"  // of records
	queue       = "operations" // of messages
	route       = "operation"  // of messages without a tenant
	routeTenant = "operation-of-tenant"

	idRun    = "run"    // of the message that there is more to do
	idRemove = "remove" // of the one that an operation was kept long enough

	tagTenant = "tenant" // whose instances are meant; not there if it is all of them
)

// First bytes of a record's body and of a message's.
const (
	recordFormat  = 1
	messageFormat = 1
)

func recordKey(tenant, id string) store.RecordKey {
	return store.RecordKey{Kind: kind, Tenant: tenant, ID: id}
}

// record returns the operation as a record.
func (o *Operation) record() store.Record {
	r := store.Record{
		Key: recordKey(o.under, o.ID), Status: string(o.Status), Name: string(o.Kind), Time: o.CreatedAt,
		Body: o.appendBody(make([]byte, 0, 256)),
	}
	if tenant := o.Tenant(); tenant != "" {
		r.Tags = map[string]string{tagTenant: tenant}
	}
	return r
}

// appendBody appends what the other fields of a record do not tell: the filter, who and why,
// times in milliseconds, counts, the first errors and where to go on. Lists have their length
// before them, tags are in the order of their names.
func (o *Operation) appendBody(out []byte) []byte {
	out = append(out, recordFormat)
	out = appendFilter(out, &o.Filter)
	out = wire.AppendFlag(out, o.All)
	out = wire.AppendString(out, o.Reason)
	out = wire.AppendString(out, o.By)
	out = wire.AppendString(out, o.Error)
	out = wire.AppendTimes(out, o.CreatedAt, o.BegunAt, o.EndedAt, o.UpdatedAt)
	for _, n := range []int{o.Total, o.Matched, o.Done, o.Skipped, o.Failed, o.pages} {
		out = wire.AppendNumber(out, uint64(n))
	}
	out = wire.AppendNumber(out, uint64(len(o.Errors)))
	for i := range o.Errors {
		out = wire.AppendString(out, o.Errors[i].Ref.Tenant)
		out = wire.AppendString(out, o.Errors[i].Ref.ID)
		out = wire.AppendString(out, o.Errors[i].Error)
	}
	out = wire.AppendString(out, o.cursor)
	if o.Filter.Prefix != "" || o.Filter.Parent != "" || o.Filter.Build != "" { // or the record is as earlier releases read it
		out = wire.AppendString(out, o.Filter.Prefix)
		out = wire.AppendString(out, o.Filter.Parent)
	}
	if o.Filter.Build != "" {
		out = wire.AppendString(out, o.Filter.Build)
	}
	return out
}

func appendFilter(out []byte, f *abide.Filter) []byte {
	out = wire.AppendFlag(out, f.Tenant != nil)
	if f.Tenant != nil {
		out = wire.AppendString(out, *f.Tenant)
	}
	out = wire.AppendStrings(out, f.Orchestrations)
	out = wire.AppendStrings(out, f.Statuses)
	out = wire.AppendTimes(out, f.From, f.To)
	return wire.AppendMap(out, f.Tags)
}

func parseRecord(rec store.Record) (Operation, error) {
	o := Operation{ID: rec.Key.ID, under: rec.Key.Tenant, Kind: Kind(rec.Name), Status: Status(rec.Status), Version: rec.Version}
	r := wire.Reader{Data: rec.Body}
	r.Format(recordFormat)
	o.Filter = readFilter(&r)
	o.All = r.Flag()
	o.Reason, o.By, o.Error = r.String(), r.String(), r.String()
	o.CreatedAt, o.BegunAt, o.EndedAt, o.UpdatedAt = r.Time(), r.Time(), r.Time(), r.Time()
	for _, n := range []*int{&o.Total, &o.Matched, &o.Done, &o.Skipped, &o.Failed, &o.pages} {
		*n = int(r.Number())
	}
	for range r.Items() {
		o.Errors = append(o.Errors, Failure{abide.Ref{Tenant: r.String(), ID: r.String()}, r.String()})
	}
	o.cursor = r.String()
	if len(r.Data) > 0 {
		o.Filter.Prefix, o.Filter.Parent = r.String(), r.String()
	}
	if len(r.Data) > 0 {
		o.Filter.Build = r.String()
	}
	if err := r.End(); err != nil {
		return Operation{}, fmt.Errorf("operation: record %v: %w: %w", rec.Key, err, store.ErrCorrupt)
	}
	return o, nil
}

func readFilter(r *wire.Reader) (f abide.Filter) {
	if r.Flag() {
		tenant := r.String()
		f.Tenant = &tenant
	}
	f.Orchestrations = wire.Strings[string](r)
	f.Statuses = wire.Strings[abide.Status](r)
	f.From, f.To = r.Time(), r.Time()
	f.Tags = r.Map()
	return f
}

// message returns what has the operation gone on with, or removed when it was kept long
// enough.
func (o *Operation) message() store.Message {
	m := store.Message{Key: store.Key{Queue: queue, Tenant: o.under, Name: o.ID}, ID: idRun, Route: route, Body: []byte{messageFormat}}
	if o.under != "" {
		m.Route = routeTenant
	}
	if o.Status.Ended() {
		m.ID, m.VisibleAt = idRemove, o.EndedAt.Add(Retention)
	}
	return m
}
