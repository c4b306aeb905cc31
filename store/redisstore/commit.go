package redisstore

import (
	"context"
	"encoding/binary"
	"errors"
	"fmt"
	"time"

	"github.com/redis/rueidis"

	"github.com/abidehq/abide/store"
)

// Commit applies tx: one script, which checks everything before it changes anything. What
// it makes ready for a Claim that waits in this process is claimed by the same script.
func (s *Store) Commit(ctx context.Context, tx *store.Tx) error {
	if err := tx.Validate(); err != nil {
		return err
	}
	done, err := s.begin(ctx, "commit")
	if err != nil {
		return err
	}
	if tx.Empty() {
		done()
		return nil
	}
	wants := s.reserve(tx)
	a := s.commitArgs(tx, wants)
	err = whole(ctx, done, func(ctx context.Context) error { return s.commit(ctx, a, wants) })
	if r, refused := errors.AsType[*refusal](err); refused {
		return r.of(tx)
	}
	return err
}

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

// commit has the script run, and tells everybody what came of it. It does not have the Tx,
// which is the caller's again when the caller does not wait.
func (s *Store) commit(ctx context.Context, a args, wants []*want) error {
	sc := commitScript
	if len(wants) > 0 {
		sc = handOverScript
	}
	m, err := s.evalDurably(ctx, sc, a)
	if err != nil {
		s.unreserve(wants)
		return err
	}
	answer := read(m)
	verdict := answer.text()
	if verdict != "ok" {
		s.unreserve(wants)
		return &refusal{verdict: verdict, index: int(answer.num()) - 1, answer: answer}
	}
	now := answer.num()
	ready := s.parseReady(answer.sub())
	handed := answer.sub()
	s.noteExpiry(now, answer.num())
	s.handOver(wants, handed)
	s.wake(now, ready)
	s.tellRecords(a[changedRecords])
	if answer.err != nil {
		return fmt.Errorf("redisstore: commit: %w", answer.err)
	}
	return nil
}

// refusal is why a commit changed nothing: what is wrong with which part of the Tx.
type refusal struct {
	verdict string
	index   int
	answer  *answer
}

// Error is not seen: whoever has the Tx says more.
func (r *refusal) Error() string { return "redisstore: commit: refused: " + r.verdict }

// of returns the error for whoever has the Tx.
func (r *refusal) of(tx *store.Tx) error {
	i := r.index
	if r.verdict == "lost" && i >= 0 && i < len(tx.Finish) {
		return store.ClaimLost("commit", tx.Finish[i].Lease)
	}
	actual := r.answer.num()
	switch {
	case r.answer.err != nil || i < 0:
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

// changedRecords is which argument of a commit says what records it changes.
const changedRecords = 1

// commitArgs writes a Tx for the script.
func (s *Store) commitArgs(tx *store.Tx, wants []*want) args {
	grows := len(tx.Append)+len(tx.Put)+len(tx.Retime)+len(tx.PutRecords) > 0
	a := make(args, 0, 16+8*(len(tx.Finish)+len(tx.Put)+len(tx.PutRecords))+4*(len(tx.Append)+len(tx.Delete)))
	a.add(s.listens(), recordHint(tx), yesNo(grows))
	a.len(len(tx.Put))
	a.len(len(tx.Finish))
	for i := range tx.Finish {
		f := &tx.Finish[i]
		a.add(keyID(f.Lease.Key), string(f.Lease.Token))
		a.len(len(f.Keep))
		a.add(f.Keep...)
	}
	a.len(len(tx.DeleteKeys))
	for _, key := range tx.DeleteKeys {
		a.add(keyID(key))
	}
	a.len(len(tx.Trim))
	for _, t := range tx.Trim {
		a.add(keyID(t.Key))
		a.len(t.Before)
	}
	a.len(len(tx.Append))
	for i := range tx.Append {
		p := &tx.Append[i]
		a.add(keyID(p.Key))
		a.len(p.At)
		a.add(fmt.Sprint(p.Tag))
		a.len(len(p.Entries))
		for _, e := range p.Entries {
			a.add(string(e))
		}
	}
	a.records(tx)
	a.messages(tx)
	a.len(len(wants))
	for _, w := range wants {
		a.want(&w.waiter.req, w.token)
	}
	return a
}

func (a *args) records(tx *store.Tx) {
	a.len(len(tx.PutRecords))
	for i := range tx.PutRecords {
		p := &tx.PutRecords[i]
		a.add(recordID(p.Record.Key))
		a.num(p.Expect)
		a.record(&p.Record)
	}
	a.len(len(tx.DeleteRecords))
	for _, d := range tx.DeleteRecords {
		a.add(recordID(d.Key))
		a.num(d.Expect)
	}
}

func (a *args) record(r *store.Record) {
	a.num(store.RecordMillis(r.Time))
	a.add(r.Status, restOf(r))
}

func (a *args) messages(tx *store.Tx) {
	for i := range tx.Put {
		m := &tx.Put[i]
		a.add(keyID(m.Key), m.ID, m.Route)
		a.num(store.Millis(m.VisibleAt))
		a.num(millis(m.TTL))
		a.add(string(m.Body))
	}
	a.len(len(tx.Retime))
	for _, r := range tx.Retime {
		a.add(keyID(r.Ref.Key), r.Ref.ID)
		a.num(store.Millis(r.VisibleAt))
	}
	a.len(len(tx.Delete))
	for _, ref := range tx.Delete {
		a.add(keyID(ref.Key), ref.ID)
	}
}

// maxHinted is how many records a hint names. Of more it says only that there are many.
const maxHinted = 200

// recordHint returns which records a Tx changes, for a hint.
func recordHint(tx *store.Tx) string {
	n := len(tx.PutRecords) + len(tx.DeleteRecords)
	if n > maxHinted {
		return manyRecords
	}
	b := make([]byte, 0, 8*n)
	for i := range tx.PutRecords {
		b = binary.BigEndian.AppendUint64(b, digest(recordID(tx.PutRecords[i].Record.Key)))
	}
	for _, d := range tx.DeleteRecords {
		b = binary.BigEndian.AppendUint64(b, digest(recordID(d.Key)))
	}
	return string(b)
}

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
