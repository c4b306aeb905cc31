package transfer

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"slices"

	"github.com/abidehq/abide/store"
)

// Sentinel errors of a copy. All of them are found before anything is changed.
var (
	// ErrTarget: the target holds something that is not of this copy.
	ErrTarget = errors.New("not the target of this copy")

	// ErrChanged: the source is not what it was when the copy was begun, so that what was
	// copied then is out of date.
	ErrChanged = errors.New("the source has changed")
)

// Copy is a copy of a store into another one.
type Copy struct {
	// From and To are the stores. No other process may use them: the caller excludes
	// others first, see [store.Portable.Exclude].
	From, To store.Portable

	// Source names the source for people, and in the mark that the target has until the
	// copy is whole: one that was interrupted is only gone on with from the same source.
	Source string

	// Progress is called now and then, if it is not nil.
	Progress func(Progress)
}

// Stage is what a copy is doing.
type Stage string

// The stages of a copy, in their order.
const (
	Rereading Stage = "rereading" // what was copied before is looked at again, in the source
	Copying   Stage = "copying"
	Comparing Stage = "comparing" // what was copied is read back
)

// Progress is how far a copy has come.
type Progress struct {
	Stage Stage

	// Done is how many messages and records the stage has dealt with, and Of how many there
	// probably are.
	Done, Of int
}

// Comparison is what the two stores have of a tenant.
type Comparison struct {
	Tenant   string
	From, To Sum
}

// Same reports whether they have the same.
func (c *Comparison) Same() bool { return c.From == c.To }

// Report is how a copy ended.
type Report struct {
	// Resumed: it went on with one that was interrupted.
	Resumed bool

	// Tenants has a row for each tenant, in the order of their names, and Total is the sum
	// of all of them.
	Tenants []Comparison
	Total   Comparison
}

// Differing returns the tenants that are not the same on both sides.
func (r *Report) Differing() (tenants []string) {
	for i := range r.Tenants {
		if !r.Tenants[i].Same() {
			tenants = append(tenants, r.Tenants[i].Tenant)
		}
	}
	return tenants
}

// Run copies, or goes on with a copy that was interrupted, and compares the two stores. If
// they are the same the target is whole; otherwise it keeps its mark, so that nothing runs
// on it, and the report says which tenants differ.
func (c *Copy) Run(ctx context.Context) (Report, error) {
	if err := store.Whole(ctx, c.From); err != nil {
		return Report{}, fmt.Errorf("transfer: the source cannot be copied: %w", err)
	}
	m, err := readMark(ctx, c.To)
	if err != nil {
		return Report{}, err
	}
	run := copyRun{Copy: c, mark: m, source: newTally(), of: expected(ctx, c.From)}
	resumed := m.version > 0
	if resumed {
		err = run.resume(ctx)
	} else {
		err = run.start(ctx)
	}
	if err == nil {
		err = run.copy(ctx)
	}
	if err != nil {
		return Report{}, err
	}
	return run.compare(ctx, resumed)
}

// copyRun is a copy under way.
type copyRun struct {
	*Copy
	mark   mark
	source *tally
	of     int
}

func (c *copyRun) progress(stage Stage, done, of int) {
	if c.Progress != nil {
		c.Progress(Progress{Stage: stage, Done: done, Of: max(done, of)})
	}
}

// start checks that the target is empty, and marks it.
func (c *copyRun) start(ctx context.Context) error {
	p, err := c.To.Export(ctx, "")
	if err != nil {
		return fmt.Errorf("transfer: look into the target: %w", err)
	}
	if len(p.Keys)+len(p.Entries)+len(p.Messages)+len(p.Records) > 0 {
		return fmt.Errorf("transfer: the target is not empty, and what it holds would be mixed up with the copy: %w", ErrTarget)
	}
	c.mark.Source = c.Source
	return c.mark.write(ctx, c.To)
}

// resume checks that the target holds a part of this source as it is now: it reads again
// what was copied, which costs less than to copy it again.
func (c *copyRun) resume(ctx context.Context) error {
	if c.mark.Source != c.Source {
		return fmt.Errorf("transfer: the target holds an unfinished copy of %s: %w", c.mark.Source, ErrTarget)
	}
	upTo := string(c.mark.Cursor)
	if upTo == "" && !c.mark.Done {
		return nil
	}
	for cursor := ""; ; {
		p, err := c.From.Export(ctx, cursor)
		if err != nil {
			return fmt.Errorf("transfer: export: %w", err)
		}
		c.source.add(&p)
		c.progress(Rereading, c.source.total.Things(), c.mark.Sum.Things())
		if cursor = p.Next; cursor == upTo || cursor == "" {
			break
		}
	}
	if c.source.total != c.mark.Sum {
		return fmt.Errorf("transfer: it is not what it was when the copy was begun; begin again with an empty target: %w", ErrChanged)
	}
	return nil
}

// copy moves parcel after parcel. What was imported and not noted is imported again, which
// changes nothing.
func (c *copyRun) copy(ctx context.Context) error {
	for !c.mark.Done {
		p, err := c.From.Export(ctx, string(c.mark.Cursor))
		if err != nil {
			return fmt.Errorf("transfer: export: %w", err)
		}
		c.source.add(&p)
		if err := c.To.Import(ctx, p); err != nil {
			return fmt.Errorf("transfer: import: %w", err)
		}
		c.mark.Cursor, c.mark.Done, c.mark.Sum = []byte(p.Next), p.Next == "", c.source.total
		if err := c.mark.write(ctx, c.To); err != nil {
			return err
		}
		c.progress(Copying, c.source.total.Things(), c.of)
	}
	return nil
}

// compare reads back what the target holds.
func (c *copyRun) compare(ctx context.Context, resumed bool) (Report, error) {
	target := newTally()
	err := each(ctx, c.To, func(p *store.Parcel) error {
		target.add(p)
		c.progress(Comparing, target.total.Things(), c.source.total.Things())
		return nil
	})
	if err != nil {
		return Report{}, err
	}
	report := Report{Resumed: resumed, Total: Comparison{From: c.source.total, To: target.total}}
	all := maps.Clone(c.source.tenants)
	maps.Copy(all, target.tenants)
	for _, tenant := range slices.Sorted(maps.Keys(all)) {
		report.Tenants = append(report.Tenants, Comparison{Tenant: tenant, From: c.source.of(tenant), To: target.of(tenant)})
	}
	if !report.Total.Same() || len(report.Differing()) > 0 {
		return report, nil
	}
	return report, c.mark.remove(ctx, c.To)
}

func (t *tally) of(tenant string) Sum {
	if s := t.tenants[tenant]; s != nil {
		return *s
	}
	return Sum{}
}

// each calls look with each parcel of a store.
func each(ctx context.Context, s store.Portable, look func(p *store.Parcel) error) error {
	for cursor := ""; ; {
		p, err := s.Export(ctx, cursor)
		if err != nil {
			return fmt.Errorf("transfer: export: %w", err)
		}
		if err := look(&p); err != nil {
			return err
		}
		if cursor = p.Next; cursor == "" {
			return nil
		}
	}
}
