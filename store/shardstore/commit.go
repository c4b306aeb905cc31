package shardstore

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"time"

	"github.com/abidehq/abide/store"
)

// Commit applies tx on the shard of its tenants. It returns [store.ErrTooLarge] if they are on
// several shards: a caller whose items need not be committed together uses [store.Split]. With a
// context of a transaction of the caller's own, such as pgstore.WithTx, the transaction must be
// one of that shard's database.
func (s *Store) Commit(ctx context.Context, tx *store.Tx) error {
	if err := s.check(ctx, "commit"); err != nil {
		return err
	}
	return s.change(ctx,
		func(r *routing) (*shard, error) { return r.locateTx(tx) },
		func(st store.Store) error { return st.Commit(ctx, tx) })
}

// locateTx returns the shard of all tenants in tx, and nil if there is nothing in tx.
func (r *routing) locateTx(tx *store.Tx) (*shard, error) {
	l := locator{r: r}
	for i := range tx.Finish {
		l.add(tx.Finish[i].Lease.Key.Tenant)
	}
	for i := range tx.DeleteKeys {
		l.add(tx.DeleteKeys[i].Tenant)
	}
	for i := range tx.Trim {
		l.add(tx.Trim[i].Key.Tenant)
	}
	for i := range tx.Append {
		l.add(tx.Append[i].Key.Tenant)
	}
	for i := range tx.Put {
		l.add(tx.Put[i].Key.Tenant)
	}
	for i := range tx.Retime {
		l.add(tx.Retime[i].Ref.Key.Tenant)
	}
	for i := range tx.Delete {
		l.add(tx.Delete[i].Key.Tenant)
	}
	for i := range tx.PutRecords {
		l.record(tx.PutRecords[i].Record.Key)
	}
	for i := range tx.DeleteRecords {
		l.record(tx.DeleteRecords[i].Key)
	}
	if errors.Is(l.err, store.ErrTooLarge) {
		if err := tx.Validate(); err != nil {
			return nil, err
		}
	}
	return l.shard, l.err
}

// locator finds the shard of several tenants.
type locator struct {
	r      *routing
	shard  *shard
	tenant string // of the last one
	err    error
}

func (l *locator) add(tenant string) {
	if l.err != nil || (l.shard != nil && tenant == l.tenant) {
		return
	}
	sh, err := l.r.locate(tenant)
	switch {
	case err != nil:
		l.err = err
	case l.r.closed(tenant):
		l.err = errClosed
	case l.shard != nil && sh != l.shard:
		apart := &store.ApartError{Tenants: [2]string{l.tenant, tenant}, Place: l.r.place}
		l.err = fmt.Errorf("shardstore: a commit over shards %s and %s: %w", l.shard.name, sh.name, apart)
	default:
		l.shard, l.tenant = sh, tenant
	}
}

// place returns the number of a tenant's shard.
func (r *routing) place(tenant string) int {
	if sh := r.of(tenant); sh != nil {
		return sh.number
	}
	return -1
}

func (l *locator) record(key store.RecordKey) {
	if key.Kind == store.KindShards && l.err == nil {
		l.err = fmt.Errorf("shardstore: commit: records of kind %q are those of the shards themselves: %w", store.KindShards, store.ErrInvalid)
	}
	l.add(key.Tenant)
}

// Release gives up a lease.
func (s *Store) Release(ctx context.Context, r store.Release) error {
	if err := s.check(ctx, "release"); err != nil {
		return err
	}
	return s.change(ctx,
		func(at *routing) (*shard, error) { return at.locateOpen(r.Lease.Key.Tenant) },
		func(st store.Store) error { return st.Release(ctx, r) })
}

// locateOpen returns the shard of a tenant that may be changed.
func (r *routing) locateOpen(tenant string) (*shard, error) {
	sh, err := r.locate(tenant)
	if err == nil && r.closed(tenant) {
		err = errClosed
	}
	return sh, err
}

// renewal is the leases of one shard.
type renewal struct {
	leases []store.Lease
	lost   []store.Lease
	err    error
}

// Renew renews the leases of each shard at the same time. If a shard fails while another does not, the
// error is a [*store.NotRenewedError] with the leases of that shard.
func (s *Store) Renew(ctx context.Context, d time.Duration, leases []store.Lease) (lost []store.Lease, err error) {
	if err := store.ValidateRenew(d, leases); err != nil {
		return nil, err
	}
	if err := s.check(ctx, "renew"); err != nil {
		return nil, err
	}
	parts, err := s.renewals(leases)
	if err != nil {
		return nil, err
	}
	var renewing sync.WaitGroup
	for _, p := range parts {
		if len(parts) == 1 {
			s.renew(ctx, d, p)
			return p.lost, p.err
		}
		renewing.Go(func() { s.renew(ctx, d, p) })
	}
	renewing.Wait()
	return joinRenewals(parts)
}

// renewals returns the leases by shard. Those of tenants that are being moved are by themselves, as they
// have to wait.
func (s *Store) renewals(leases []store.Lease) (parts []*renewal, err error) {
	type group struct {
		shard  *shard
		closed bool
	}
	of := map[group]*renewal{}
	r := s.routing.Load()
	for _, l := range leases {
		sh, err := r.locate(l.Key.Tenant)
		if err != nil {
			return nil, err
		}
		g := group{sh, r.closed(l.Key.Tenant)}
		if of[g] == nil {
			of[g] = &renewal{}
			parts = append(parts, of[g])
		}
		of[g].leases = append(of[g].leases, l)
	}
	return parts, nil
}

// renew renews leases that were on one shard. If they are not any more, because a tenant has moved just
// now, they are not renewed, and the next call does it.
func (s *Store) renew(ctx context.Context, d time.Duration, p *renewal) {
	p.err = s.change(ctx,
		func(r *routing) (sh *shard, err error) {
			for i, l := range p.leases {
				at, err := r.locateOpen(l.Key.Tenant)
				if err != nil {
					return nil, err
				}
				if i > 0 && at != sh {
					return nil, &store.NotRenewedError{Leases: p.leases, Cause: errClosed}
				}
				sh = at
			}
			return sh, nil
		},
		func(st store.Store) (err error) {
			p.lost, err = st.Renew(ctx, d, p.leases)
			return err
		})
}

// joinRenewals returns the outcome of the renewals of several shards.
func joinRenewals(parts []*renewal) (lost []store.Lease, err error) {
	others := &store.NotRenewedError{}
	var errs []error
	for _, p := range parts {
		lost = append(lost, p.lost...)
		if p.err == nil {
			continue
		}
		errs = append(errs, p.err)
		partly, ok := errors.AsType[*store.NotRenewedError](p.err)
		switch {
		case ok:
			others.Leases = append(others.Leases, partly.Leases...)
		default:
			others.Leases = append(others.Leases, p.leases...)
			others.Cause = errors.Join(others.Cause, p.err)
		}
	}
	switch {
	case len(errs) == 0:
		return lost, nil
	case len(errs) == len(parts) && len(lost) == 0 && others.Cause != nil:
		return nil, errors.Join(errs...)
	}
	return lost, others
}
