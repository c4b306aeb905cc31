package shardstore

import (
	"encoding/json"
	"fmt"
	"maps"
	"slices"

	"github.com/abidehq/abide/store"
)

// directoryFormat is the version of the directory's body, which is JSON: see docs/format.md.
const directoryFormat = 1

// Directory says which shard has which tenants. A directory is not changed: its next version is
// another one.
type Directory struct {
	// ID tells the shards of one store from those of others. It never changes.
	ID string

	// Version grows by one with each change.
	Version int64

	// Home is the shard on which changes are decided.
	Home string

	// Shards are the names of all shards, in order.
	Shards []string

	// Slots has the shard of each slot, and Tenants that of each tenant which is not on the
	// shard of its slot.
	Slots   [Slots]string
	Tenants map[string]string

	// Move is the move that is under way, or nil.
	Move *Move
}

// Unit is what is moved: a tenant, or a slot with all tenants that are on its shard because of it.
type Unit struct {
	Tenant string
	Slot   int // -1 if it is a tenant
}

// OneTenant returns the unit of a tenant.
func OneTenant(tenant string) Unit { return Unit{Tenant: tenant, Slot: -1} }

// OneSlot returns the unit of a slot.
func OneSlot(slot int) Unit { return Unit{Slot: slot} }

// String returns the unit for people.
func (u Unit) String() string {
	if u.Slot >= 0 {
		return fmt.Sprintf("slot %d", u.Slot)
	}
	return fmt.Sprintf("tenant %q", u.Tenant)
}

// Stage is how far a move has come.
type Stage string

// The stages of a move, in their order. See move.go.
const (
	Copying  Stage = "copy"   // the unit is on the source; a copy is made on the target
	Closed   Stage = "closed" // nobody commits to the unit; what has changed is copied
	Cleaning Stage = "clean"  // the unit is on the target; what is on the source is removed
)

// Move is a move that is under way.
type Move struct {
	Unit
	ID    string // of the mover
	From  string
	To    string
	Stage Stage
}

// covers reports whether a tenant is moved.
func (d *Directory) covers(tenant string) bool {
	switch m := d.Move; {
	case m == nil:
		return false
	case m.Slot < 0:
		return tenant == m.Tenant
	default:
		_, apart := d.Tenants[tenant]
		return !apart && SlotOf(tenant) == m.Slot
	}
}

// on returns the name of the shard that has a unit.
func (d *Directory) on(u Unit) string {
	if u.Slot >= 0 {
		return d.Slots[u.Slot]
	}
	return d.Of(u.Tenant)
}

// assign puts a unit on a shard. A tenant that is on the shard of its slot needs no entry.
func (d *Directory) assign(u Unit, shard string) {
	switch {
	case u.Slot >= 0:
		d.Slots[u.Slot] = shard
		maps.DeleteFunc(d.Tenants, func(tenant, on string) bool { return on == shard && SlotOf(tenant) == u.Slot })
	case d.Slots[SlotOf(u.Tenant)] == shard:
		delete(d.Tenants, u.Tenant)
	default:
		d.Tenants[u.Tenant] = shard
	}
}

// Of returns the name of the shard that has a tenant.
func (d *Directory) Of(tenant string) string {
	if name, ok := d.Tenants[tenant]; ok {
		return name
	}
	return d.Slots[SlotOf(tenant)]
}

// next returns a copy with the next version, to be changed.
func (d *Directory) next() *Directory {
	n := *d
	n.Version++
	n.Shards, n.Tenants = slices.Clone(d.Shards), maps.Clone(d.Tenants)
	if d.Move != nil {
		n.Move = new(*d.Move)
	}
	if n.Tenants == nil {
		n.Tenants = map[string]string{}
	}
	return &n
}

// spread returns the first version of a directory, with the slots spread evenly over shards. Their
// names are in order.
func spread(id string, names, over []string) *Directory {
	d := &Directory{ID: id, Version: 1, Home: names[0], Shards: names, Tenants: map[string]string{}}
	for i := range d.Slots {
		d.Slots[i] = over[i*len(over)/Slots]
	}
	return d
}

// stored is the body of the record. Names of tenants may hold any bytes, so they are base64.
type stored struct {
	Format  int            `json:"format"`
	ID      string         `json:"id"`
	Version int64          `json:"version"`
	Home    string         `json:"home"`
	Shards  []string       `json:"shards"`
	Slots   []storedRange  `json:"slots"`
	Tenants []storedTenant `json:"tenants,omitempty"`
	Move    *storedMove    `json:"move,omitempty"`
}

type storedMove struct {
	ID     string `json:"id"`
	Tenant []byte `json:"tenant,omitempty"`
	Slot   int    `json:"slot"` // -1 if it is a tenant
	From   string `json:"from"`
	To     string `json:"to"`
	Stage  Stage  `json:"stage"`
}

// storedRange is the slots from one on, up to the next range.
type storedRange struct {
	From  int    `json:"from"`
	Shard string `json:"shard"`
}

type storedTenant struct {
	Tenant []byte `json:"tenant"`
	Shard  string `json:"shard"`
}

// encode returns the body of the record.
func (d *Directory) encode() []byte {
	st := stored{Format: directoryFormat, ID: d.ID, Version: d.Version, Home: d.Home, Shards: d.Shards}
	for i, name := range d.Slots {
		if i == 0 || name != d.Slots[i-1] {
			st.Slots = append(st.Slots, storedRange{i, name})
		}
	}
	for _, tenant := range slices.Sorted(maps.Keys(d.Tenants)) {
		st.Tenants = append(st.Tenants, storedTenant{[]byte(tenant), d.Tenants[tenant]})
	}
	if m := d.Move; m != nil {
		st.Move = &storedMove{m.ID, []byte(m.Tenant), m.Slot, m.From, m.To, m.Stage}
	}
	b, err := json.Marshal(st)
	if err != nil {
		panic(err) // strings and numbers always marshal
	}
	return b
}

// decode reads the body of the record.
func decode(body []byte) (*Directory, error) {
	var st stored
	if err := json.Unmarshal(body, &st); err != nil {
		return nil, fmt.Errorf("shardstore: read the directory: %w: %w", err, store.ErrCorrupt)
	}
	if st.Format != directoryFormat {
		return nil, fmt.Errorf("shardstore: the directory has format %d, and this program reads format %d: %w", st.Format, directoryFormat, store.ErrFormat)
	}
	d := &Directory{ID: st.ID, Version: st.Version, Home: st.Home, Shards: st.Shards, Tenants: map[string]string{}}
	for n, r := range st.Slots {
		end := Slots
		if n+1 < len(st.Slots) {
			end = st.Slots[n+1].From
		}
		if r.From < 0 || end > Slots || r.From >= end {
			return nil, fmt.Errorf("shardstore: read the directory: slots %d to %d: %w", r.From, end, store.ErrCorrupt)
		}
		for i := r.From; i < end; i++ {
			d.Slots[i] = r.Shard
		}
	}
	for _, t := range st.Tenants {
		d.Tenants[string(t.Tenant)] = t.Shard
	}
	if m := st.Move; m != nil {
		d.Move = &Move{Unit: Unit{string(m.Tenant), m.Slot}, ID: m.ID, From: m.From, To: m.To, Stage: m.Stage}
	}
	err := d.check()
	return d, err
}

// check reports whether every slot and tenant is on a shard that the directory names.
func (d *Directory) check() error {
	known := func(name string) bool { return slices.Contains(d.Shards, name) }
	if d.Version < 1 || !known(d.Home) {
		return fmt.Errorf("shardstore: the directory has version %d and home %q: %w", d.Version, d.Home, store.ErrCorrupt)
	}
	for i, name := range d.Slots {
		if (i == 0 || name != d.Slots[i-1]) && !known(name) {
			return fmt.Errorf("shardstore: slot %d is on shard %q, which the directory does not name: %w", i, name, store.ErrCorrupt)
		}
	}
	for tenant, name := range d.Tenants {
		if !known(name) {
			return fmt.Errorf("shardstore: tenant %q is on shard %q, which the directory does not name: %w", tenant, name, store.ErrCorrupt)
		}
	}
	if m := d.Move; m != nil && (!known(m.From) || !known(m.To) || m.Slot >= Slots) {
		return fmt.Errorf("shardstore: the directory has a move of %v from %q to %q: %w", m.Unit, m.From, m.To, store.ErrCorrupt)
	}
	return nil
}
