package rows

import (
	"context"
	"errors"
	"maps"

	"github.com/abidehq/abide/store"
)

// CommitAlone applies tx in an update that does not belong to a core: inside a transaction that
// a user began. It returns the partitions and records to announce with that transaction: calls
// that wait, of this process too, are woken by the database when it commits. Nothing is handed
// off, because it may yet be rolled back.
func CommitAlone(
	ctx context.Context, tx *store.Tx, update func(context.Context, *ReadSet, func(int64, *State) *Changes) error,
) (partitions map[int64]int64, records []int64, err error) {
	if err := tx.Validate(); err != nil {
		return nil, nil, err
	}
	op := &operation{tx: tx}
	var p *plan
	err = update(ctx, need([]*operation{op}), func(now int64, s *State) *Changes {
		p = newPlan(now, s)
		op.err = nil
		p.do(op)
		return p.changes()
	})
	if err != nil || op.err != nil {
		return nil, nil, errors.Join(err, op.err)
	}
	for _, c := range p.changed() {
		records = append(records, c.number)
	}
	partitions = p.due()
	maps.DeleteFunc(partitions, func(_, at int64) bool { return at == Never })
	return partitions, records, nil
}
