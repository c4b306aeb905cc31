package redisstore

import (
	"context"
	"fmt"
	"time"

	"github.com/redis/rueidis"

	"github.com/abidehq/abide/store"
)

// whole makes a call that others of this process wait for: they are told what came of it
// even if the caller does not wait.
func whole(ctx context.Context, done func(), call func(ctx context.Context) error) error {
	if ctx.Done() == nil {
		defer done()
		return call(ctx)
	}
	result := make(chan error, 1)
	go func() {
		defer done()
		result <- call(context.WithoutCancel(ctx))
	}()
	select {
	case err := <-result:
		return err
	case <-ctx.Done():
		return ctx.Err()
	}
}

// refusal is why a commit changed nothing: what is wrong with which part of the Tx.
type refusal struct {
	verdict string
	index   int
	actual  int64
}

// Error is not seen: whoever has the Tx says more.
func (r *refusal) Error() string { return "redisstore: commit: refused: " + r.verdict }

// of returns the error for whoever has the Tx.
func (r *refusal) of(tx *store.Tx) error {
	i := r.index
	if r.verdict == "lost" && i >= 0 && i < len(tx.Finish) {
		return store.ClaimLost("commit", tx.Finish[i].Lease)
	}
	actual := r.actual
	switch {
	case r.verdict == "full":
		return fmt.Errorf("redisstore: commit: the server is at its memory limit (maxmemory): %w", store.ErrFull)
	case i < 0:
	case r.verdict == "trim" && i < len(tx.Trim):
		return store.LengthConflict(tx.Trim[i].Key, tx.Trim[i].Before, int(actual))
	case r.verdict == "append" && i < len(tx.Append):
		return store.LengthConflict(tx.Append[i].Key, tx.Append[i].At, int(actual))
	case r.verdict == "put" && i < len(tx.PutRecords):
		return store.VersionConflict(tx.PutRecords[i].Record.Key, tx.PutRecords[i].Expect, actual)
	case r.verdict == "drop" && i < len(tx.DeleteRecords):
		return store.VersionConflict(tx.DeleteRecords[i].Key, tx.DeleteRecords[i].Expect, actual)
	}
	return fmt.Errorf("redisstore: commit: the script answers %q: %w", r.verdict, errShort)
}

func (a *args) record(r *store.Record) {
	a.num(store.RecordMillis(r.Time))
	a.add(r.Status, restOf(r))
}

// maxHinted is how many records a hint names. Of more it says only that there are many.
const maxHinted = 200

// manyRecords is in a hint what stands for all records.
const manyRecords = "*"

// waitReplicas is how long a commit waits for replicas.
const waitReplicas = 5 * time.Second

// evalDurably runs a script, and waits until as many replicas as were asked for have what
// it wrote.
func (s *Store) evalDurably(ctx context.Context, sc *script, a args) (rueidis.RedisMessage, error) {
	if s.replicas.Load() == 0 {
		return s.eval(ctx, sc, a)
	}
	return s.evalWait(ctx, sc, a)
}
