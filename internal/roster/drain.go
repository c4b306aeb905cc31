package roster

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/abidehq/abide/store"
)

// KindDrain is the kind of the records of requests to drain the process of a worker. One is read when the
// process shows itself under another ID, and is removed after [Gone].
const KindDrain = "drain"

// ErrUndrainable is the error of a worker that does not know how to drain.
var ErrUndrainable = errors.New("the worker cannot be drained: it serves targets of actions, or is of an earlier release")

func drainKey(process string) store.RecordKey { return store.RecordKey{Kind: KindDrain, ID: process} }

// Drain asks a worker to claim nothing more, at now, which is the store's time. The worker heeds it with its
// next report, and at once if it is one of this process. Asking again is no error. Drain returns
// [store.ErrNotFound] if there is no such worker, and [ErrUndrainable].
func Drain(ctx context.Context, s store.Store, id string, now time.Time) error {
	var err error
	for range conflicts {
		if err = ask(ctx, s, id, now); !errors.Is(err, store.ErrConflict) {
			break
		}
	}
	if p, ours := here.Load(id); ours && err == nil {
		p.(*Publisher).Report()
	}
	return err
}

// ask marks the record of a worker.
func ask(ctx context.Context, s store.Store, id string, now time.Time) error {
	r, err := s.Get(ctx, key(id))
	if err != nil {
		return err
	}
	w := Parse(r)
	switch {
	case now.Sub(w.SeenAt) > Alive:
		return fmt.Errorf("worker %s was not seen for %v: %w", id, now.Sub(w.SeenAt), store.ErrNotFound)
	case w.State != Serving:
		return nil
	case w.TurnSlots+w.RunSlots == 0 || len(w.Targets) > 0:
		return ErrUndrainable
	}
	w.State = Asked
	put := w.Put()
	put.Expect = r.Version
	tx := store.Tx{PutRecords: []store.PutRecord{put}}
	if w.Run != "" {
		tx.PutRecords = append(tx.PutRecords, store.PutRecord{
			Expect: store.AnyVersion, Record: store.Record{Key: drainKey(w.Run), Name: w.Name, Time: now},
		})
	}
	return s.Commit(ctx, &tx)
}
