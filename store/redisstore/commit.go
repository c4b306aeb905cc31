package redisstore

import (
	"context"
	"fmt"
	"time"

	"github.com/redis/rueidis"

	"github.com/abidehq/abide/store"
)

// runDetached makes a call to its end even if the context of its caller ends before: other
// calls of this process depend on its answer, as waiting calls do on what a release makes
// ready. The caller gets the error of its context then, and done is called when the call
// has ended. A context that cannot end needs no goroutine.
func runDetached(ctx context.Context, done func(), call func(ctx context.Context) error) error {
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

// refusal is why the script refused a commit, which has changed nothing then. The group knows
// no more, since it has only the encoded Tx: errorFor makes the error of the contract.
type refusal struct {
	verdict string // lost, trim, append, busy, put, drop or full
	index   int    // of the element in the part of the Tx that the verdict names
	actual  int64  // the length of the log, or the version of the record
}

// Error is for completeness: callers get what errorFor returns.
func (r *refusal) Error() string { return "redisstore: commit: refused: " + r.verdict }

// errorFor returns the error of a refused Tx: [store.ErrClaimLost], [store.ErrConflict] or
// [store.ErrFull]. A verdict that does not fit the Tx is reported as an invalid answer.
func (r *refusal) errorFor(tx *store.Tx) error {
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
	case r.verdict == "busy" && i < len(tx.Append):
		return store.BusyConflict(tx.Append[i].Key)
	case r.verdict == "put" && i < len(tx.PutRecords):
		return store.VersionConflict(tx.PutRecords[i].Record.Key, tx.PutRecords[i].Expect, actual)
	case r.verdict == "drop" && i < len(tx.DeleteRecords):
		return store.VersionConflict(tx.DeleteRecords[i].Key, tx.DeleteRecords[i].Expect, actual)
	}
	return fmt.Errorf("redisstore: commit: the script answers %q: %w", r.verdict, errShort)
}

// record adds a record, as setRecord in record.lua takes it.
func (a *args) record(r *store.Record) {
	a.num(store.RecordMillis(r.Time))
	a.add(r.Status, restOf(r))
}

// maxHinted is how many records a hint names, at eight bytes each. With more it has
// manyRecords instead, and every Await call of other processes reads.
const maxHinted = 200

// manyRecords stands for all records in a hint. It is no list of digests, whose length is a
// multiple of eight.
const manyRecords = "*"

// waitReplicas is how long a commit waits for replicas before its outcome is unknown.
const waitReplicas = 5 * time.Second

// evalDurably runs a script that writes, and waits until [Options.Replicas] replicas have
// confirmed what it wrote. Claims and renewals do not use it: a lease that a failover loses
// is lost in time, and a commit under it is refused.
func (s *Store) evalDurably(ctx context.Context, seg *segment, sc *script, a args) (rueidis.RedisMessage, error) {
	if s.replicas.Load() == 0 {
		return s.eval(ctx, seg, sc, a)
	}
	return s.evalWait(ctx, seg, sc, a)
}
