package shardstore

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"time"

	"github.com/abidehq/abide/internal/base"
	"github.com/abidehq/abide/store"
)

// tenants returns the tenants of the unit that have anything on a shard.
func (m *mover) tenants(ctx context.Context, sh *shard, st store.Movable) (list []string, err error) {
	if m.move.Slot < 0 {
		return []string{m.move.Tenant}, nil
	}
	apart := m.s.Directory().Tenants
	err = st.Tenants(ctx, func(tenant string) error {
		if _, ok := apart[tenant]; !ok && SlotOf(tenant) == m.move.Slot {
			list = append(list, tenant)
		}
		return nil
	})
	return list, sh.failed(err)
}

// outline calls yield with the marks of the unit on a shard, but for the records of this package.
func (m *mover) outline(ctx context.Context, sh *shard, st store.Movable, yield func(store.Mark) error) error {
	tenants, err := m.tenants(ctx, sh, st)
	if err != nil || len(tenants) == 0 {
		return err
	}
	return sh.failed(st.Outline(ctx, tenants, func(mark store.Mark) error {
		if mark.Record.Kind == store.KindShards {
			return nil
		}
		return yield(mark)
	}))
}

// wipe removes what an earlier attempt has left on the target.
func (m *mover) wipe(ctx context.Context) error {
	m.copied = map[store.Thing]*copied{}
	return m.remove(ctx, m.to, m.target, m.onTarget)
}

// remove removes the unit from a shard.
func (m *mover) remove(ctx context.Context, sh *shard, st store.Movable, guard store.Guard) error {
	var things []store.Thing
	err := m.outline(ctx, sh, st, func(mark store.Mark) error {
		things = append(things, mark.Thing)
		return nil
	})
	if err != nil {
		return err
	}
	return m.batches(ctx, things, true, func(batch []store.Thing) error {
		_, err := st.Replace(ctx, guard, batch, store.Cargo{})
		return sh.failed(err)
	})
}

// batches does something with things, batch by batch: as many at once as take a bounded time, since some
// are large. If it is paced, it rests after each batch for as long as the pace says (Options.Pace).
func (m *mover) batches(ctx context.Context, things []store.Thing, paced bool, do func(batch []store.Thing) error) error {
	m.progress.Of, m.progress.Done = len(things), 0
	m.tell()
	for len(things) > 0 {
		batch := things[:min(m.batch, len(things))]
		things = things[len(batch):]
		begun := m.s.clock.Now()
		if err := do(batch); err != nil {
			return err
		}
		took := m.s.clock.Now().Sub(begun)
		switch {
		case took > batchTime:
			m.batch = max(1, m.batch/2)
		case took < batchTime/4:
			m.batch = min(mostBatch, 2*m.batch)
		}
		m.progress.Done += len(batch)
		m.tell()
		if paced {
			if err := base.Sleep(ctx, m.s.clock, m.s.rest(took)); err != nil {
				return err
			}
		}
	}
	return nil
}

// rest returns how long a move rests after it has worked for a while.
func (s *Store) rest(worked time.Duration) time.Duration {
	return time.Duration(float64(worked) * (1 - s.pace) / s.pace)
}

// rounds copies what there is, and then what has changed, until little has.
func (m *mover) rounds(ctx context.Context) error {
	for n := range mostRounds {
		m.progress.Stage, m.progress.Round = Copying, n+1
		if err := m.round(ctx, false); err != nil {
			return err
		}
		if m.progress.Of <= fewChanges {
			return nil
		}
	}
	return nil
}

// round copies what has changed on the source since the last round. The last one also copies what was
// held back.
func (m *mover) round(ctx context.Context, last bool) error {
	changed, gone, revisions, err := m.differences(ctx, last)
	if err != nil {
		return err
	}
	return m.batches(ctx, append(changed, gone...), !last, func(batch []store.Thing) error {
		return m.copyThings(ctx, batch, revisions, last)
	})
}

// differences returns what has changed on the source since it was copied, with its revisions, and what
// is not there any more.
func (m *mover) differences(ctx context.Context, last bool) (changed, gone []store.Thing, revisions map[store.Thing]string, err error) {
	seen := make(map[store.Thing]bool, len(m.copied))
	revisions = map[store.Thing]string{}
	err = m.outline(ctx, m.from, m.source, func(mark store.Mark) error {
		seen[mark.Thing] = true
		c := m.copied[mark.Thing]
		if c == nil || c.source != mark.Revision || last && c.partial {
			changed = append(changed, mark.Thing)
			revisions[mark.Thing] = mark.Revision
		}
		return nil
	})
	for thing := range m.copied {
		if !seen[thing] {
			gone = append(gone, thing)
		}
	}
	return changed, gone, revisions, err
}

// copyThings copies things from the source to the target. What is not on the source any more is removed
// from the target.
func (m *mover) copyThings(ctx context.Context, things []store.Thing, revisions map[store.Thing]string, last bool) error {
	cargo, err := m.source.Take(ctx, things)
	if err != nil {
		return m.from.failed(err)
	}
	partial := map[store.Thing]bool{}
	if !last {
		partial = m.holdBack(&cargo)
	}
	marks, err := m.target.Replace(ctx, m.onTarget, things, cargo)
	if err != nil {
		return m.to.failed(err)
	}
	for _, thing := range things {
		delete(m.copied, thing)
	}
	for _, mark := range marks {
		// What was taken may be later than the outline. Then it has another revision there by the
		// next round, and is copied once more.
		m.copied[mark.Thing] = &copied{source: revisions[mark.Thing], target: mark.Revision, partial: partial[mark.Thing]}
	}
	for thing := range partial {
		if m.copied[thing] == nil { // all of it was held back
			m.copied[thing] = &copied{source: revisions[thing], partial: true}
		}
	}
	return nil
}

// holdBack takes from a cargo what must not be on the target before the unit is closed: leases, and
// messages that could be claimed or expire there. It returns the keys that are not complete.
func (m *mover) holdBack(c *store.Cargo) map[store.Thing]bool {
	partial := map[store.Thing]bool{}
	soon := m.s.clock.Now().Add(horizon)
	c.Messages = slices.DeleteFunc(c.Messages, func(msg store.Message) bool {
		if msg.Route != "" && msg.VisibleAt.After(soon) {
			return false
		}
		partial[store.Thing{Key: msg.Key}] = true
		return true
	})
	for _, l := range c.Leases {
		partial[store.Thing{Key: l.Key}] = true
	}
	c.Leases = nil
	// A key that has neither a log nor a message any more is none.
	with := map[store.Key]bool{}
	for i := range c.Messages {
		with[c.Messages[i].Key] = true
	}
	c.Keys = slices.DeleteFunc(c.Keys, func(h store.KeyHead) bool { return h.LogLength == 0 && !with[h.Key] })
	return partial
}

// compareTries is how often what differs on the target is copied again.
const compareTries = 3

// compare checks that the target has what was copied, all of it and nothing else. What differs, since a
// message of the copy was claimed there, say, is copied again.
func (m *mover) compare(ctx context.Context) error {
	for range compareTries {
		differing, err := m.differing(ctx)
		if err != nil || len(differing) == 0 {
			return err
		}
		revisions := map[store.Thing]string{}
		for _, thing := range differing {
			if c := m.copied[thing]; c != nil {
				revisions[thing] = c.source
			}
		}
		if err := m.batches(ctx, differing, false, func(batch []store.Thing) error {
			return m.copyThings(ctx, batch, revisions, true)
		}); err != nil {
			return err
		}
	}
	return fmt.Errorf("shardstore: move: what is on shard %s is not what was copied there: %w", m.to.name, store.ErrCorrupt)
}

// differing returns the things that the target does not have as they were copied, and that it has and
// should not have.
func (m *mover) differing(ctx context.Context) (things []store.Thing, err error) {
	found := 0
	err = m.outline(ctx, m.to, m.target, func(mark store.Mark) error {
		c := m.copied[mark.Thing]
		if c == nil || c.target != mark.Revision {
			things = append(things, mark.Thing)
		}
		if c != nil {
			found++
		}
		return nil
	})
	if err != nil || found == len(m.copied) {
		return things, err
	}
	there := map[store.Thing]bool{}
	err = m.outline(ctx, m.to, m.target, func(mark store.Mark) error {
		there[mark.Thing] = true
		return nil
	})
	for thing := range m.copied {
		if !there[thing] {
			things = append(things, thing)
		}
	}
	return things, err
}

// Drain moves everything that a shard has to the others, slot by slot, each to the shard that has the
// fewest slots, and then single tenants. It returns when nothing is left, and can be gone on with.
func (s *Store) Drain(ctx context.Context, name string, report func(Progress)) error {
	if err := s.Resume(ctx, report); err != nil {
		return err
	}
	for {
		d := s.Directory()
		u, to, ok := d.nextToDrain(name)
		if !ok {
			return nil
		}
		if to == "" {
			return fmt.Errorf("shardstore: drain: there is no other shard than %s: %w", name, store.ErrInvalid)
		}
		if err := s.Move(ctx, u, to, report); err != nil && !errors.Is(err, ErrMove) {
			return err
		}
	}
}

// nextToDrain returns a unit that a shard has, and the shard to move it to; none if there is no other.
func (d *Directory) nextToDrain(name string) (u Unit, to string, ok bool) {
	slots := map[string]int{}
	for _, on := range d.Slots {
		slots[on]++
	}
	least := -1
	for _, shard := range d.Shards {
		if shard != name && (least < 0 || slots[shard] < least) {
			to, least = shard, slots[shard]
		}
	}
	for i, on := range d.Slots {
		if on == name {
			return OneSlot(i), to, true
		}
	}
	for tenant, on := range d.Tenants {
		if on == name {
			return OneTenant(tenant), to, true
		}
	}
	return Unit{}, to, false
}
