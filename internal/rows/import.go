package rows

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"slices"

	"github.com/abidehq/abide/store"
)

// Import adds the contents of a parcel that the store does not have, in one update. It returns
// store.ErrInvalid, and adds nothing, if the parcel contradicts the store: a key with messages
// has another route, or log entries leave a gap. Importing a parcel twice is the same as once.
func (f *Core) Import(ctx context.Context, p store.Parcel) error {
	if err := f.Check(ctx, "import"); err != nil {
		return err
	}
	n := importNeed(&p)
	for try := 1; ; try++ {
		var im *importer
		err := f.db.Update(ctx, n, func(_ int64, state *State) *Changes {
			im = newImporter(state)
			return im.add(&p)
		})
		switch {
		case err == nil && im.err != nil:
			return im.err
		case err == nil:
			f.Hint(Hint{})
			if len(im.partitions) > 0 || len(im.numbers) > 0 {
				f.db.Announce(&Announcement{Due: im.partitions, Records: im.numbers})
			}
			return nil
		case !errors.Is(err, ErrRetry) || try == maxTries:
			return err
		}
		n.Fresh = true
	}
}

// importNeed returns the rows to load for a parcel: those of a Tx that names the same keys,
// messages and records.
func importNeed(p *store.Parcel) *ReadSet {
	tx := &store.Tx{Append: p.Entries, Put: p.Messages}
	for i := range p.Keys {
		tx.DeleteKeys = append(tx.DeleteKeys, p.Keys[i].Key)
	}
	for i := range p.Records {
		tx.PutRecords = append(tx.PutRecords, store.PutRecord{Record: store.Record{Key: p.Records[i].Key}})
	}
	return need([]*operation{{tx: tx}})
}

// importer works out what an import changes. Unlike a plan it keeps the times, attempts and
// versions of what it adds.
type importer struct {
	state      *State
	keys       map[ID]*KeyRow // new or changed
	known      map[Ref]bool
	changes    *Changes
	tally      tallies
	partitions map[int64]int64 // in which there is something to claim
	numbers    []int64         // of records
	err        error
}

func newImporter(state *State) *importer {
	return &importer{
		state: state, keys: map[ID]*KeyRow{}, known: map[Ref]bool{}, changes: &Changes{},
		tally: tallies{}, partitions: map[int64]int64{},
	}
}

// add returns the changes, which are empty if there is an error.
func (im *importer) add(p *store.Parcel) *Changes {
	for i := range p.Keys {
		im.head(&p.Keys[i])
	}
	for i := range p.Entries {
		im.entries(&p.Entries[i])
	}
	for i := range p.Messages {
		im.message(&p.Messages[i])
	}
	for i := range p.Records {
		im.record(&p.Records[i])
	}
	if im.err != nil {
		return &Changes{}
	}
	for _, id := range slices.SortedFunc(maps.Keys(im.keys), compareIDs) {
		row := im.keys[id]
		if im.state.Keys[id] == nil {
			im.changes.Insert = append(im.changes.Insert, row)
		} else {
			im.changes.Update = append(im.changes.Update, row)
		}
		if row.Count > 0 {
			partition := row.Partition()
			if at, ok := im.partitions[partition]; !ok || row.At() < at {
				im.partitions[partition] = row.At()
			}
		}
	}
	im.changes.Tally = im.tally.list()
	return im.changes
}

// key returns the row of a key, which may be changed.
func (im *importer) key(key store.Key) *KeyRow {
	id := IDOf(key)
	row := im.keys[id]
	if row == nil {
		row = &KeyRow{ID: id, Key: key, First: Never}
		if stored := im.state.Keys[id]; stored != nil {
			*row = *stored
		}
		im.keys[id] = row
	}
	return row
}

// head sets the route of a key, and where its log begins.
func (im *importer) head(h *store.KeyHead) {
	row := im.key(h.Key)
	if row.Route != h.Route && row.Count > 0 {
		im.err = fmt.Errorf("store: import: %v has messages and another route already: %w", h.Key, store.ErrInvalid)
		return
	}
	row.Route = h.Route
	if row.LogLength == 0 && row.LogFirst == 0 {
		// The entries follow and make it as long as it is. One that was trimmed as a whole
		// has none.
		row.LogTag, row.LogFirst, row.LogLength = h.LogTag, h.LogFirst, h.LogFirst
	}
}

// entries appends the log entries that the store does not have.
func (im *importer) entries(a *store.Append) {
	row := im.key(a.Key)
	if a.At > row.LogLength {
		im.err = fmt.Errorf("store: import: entries of %v begin at %d, and its log has length %d: %w", a.Key, a.At, row.LogLength, store.ErrInvalid)
		return
	}
	fresh := a.Entries[min(row.LogLength-a.At, len(a.Entries)):]
	if len(fresh) == 0 {
		return
	}
	im.changes.Append = append(im.changes.Append, Entries{Key: row.ID, At: row.LogLength, Entries: fresh})
	row.LogLength += len(fresh)
}

// message adds a message, unless one with its ID is pending.
func (im *importer) message(m *store.Message) {
	row := im.key(m.Key)
	ref := Ref{Key: row.ID, ID: m.ID}
	if im.state.Messages[ref] != nil || im.known[ref] || (row.Inline != nil && row.Inline.ID == m.ID) {
		return
	}
	im.known[ref] = true
	added := MessageRow{
		Key: row.ID, Seq: row.Seq, ID: m.ID, Visible: store.Millis(m.VisibleAt), Put: store.Millis(m.PutAt),
		TTL: m.TTL.Milliseconds(), Attempt: m.Attempt, Body: m.Body,
	}
	if !row.Take(&added) {
		im.changes.Put = append(im.changes.Put, added)
	}
	im.tally[[2]string{row.Key.Queue, row.Route}]++
}

// record replaces a record, with the version that it has in the parcel.
func (im *importer) record(r *store.Record) {
	im.numbers = append(im.numbers, RecordOf(r.Key))
	if im.state.Records[r.Key] == 0 {
		im.changes.InsertRecords = append(im.changes.InsertRecords, *r)
		return
	}
	im.changes.UpdateRecords = append(im.changes.UpdateRecords, *r)
}
