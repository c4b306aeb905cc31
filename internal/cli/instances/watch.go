package instances

import (
	"context"
	"errors"
	"iter"
	"slices"
	"strings"

	"github.com/abidehq/abide/internal/cli/console"

	"github.com/abidehq/abide"
	"github.com/abidehq/abide/server/api"
)

// instancesWatch watches instances by their feed of changes.
type instancesWatch struct {
	*console.Watch
	engine *abide.Client
	filter abide.Filter
	rows   console.Rows[abide.Info, api.Instance]
	paging console.Paging
	read   console.ReadPage[abide.Info]
}

// run prints instances, and each that changes, until ctx ends.
func (w *instancesWatch) run(ctx context.Context, feed abide.Watcher) error {
	for {
		changes := feed.Changes(ctx, "") // before the list, so that nothing is missed
		found, next, err := console.ReadPages(ctx, w.paging, w.read)
		if err != nil {
			return console.Ended(ctx, err)
		}
		if err := w.Show(w.rows.Items(found), next == ""); err != nil {
			return err
		}
		if err := w.follow(ctx, changes); !errors.Is(err, abide.ErrMissed) {
			return console.Ended(ctx, err)
		}
	}
}

func keyOf(ref abide.Ref) [2]string { return [2]string{ref.Tenant, ref.ID} }

// follow prints what changes.
func (w *instancesWatch) follow(ctx context.Context, changes iter.Seq2[abide.Change, error]) error {
	for change, err := range changes {
		if err == nil {
			err = w.changed(ctx, change)
		}
		if err == nil {
			err = w.Flush()
		}
		if err != nil {
			return err
		}
	}
	return nil
}

// changed prints an instance that has changed, if it matches, or did so far.
func (w *instancesWatch) changed(ctx context.Context, c abide.Change) error {
	key := keyOf(c.Ref)
	_, was := w.Known[key]
	if c.Deleted {
		return w.Remove(key)
	}
	if !was && !w.couldMatch(&c) {
		return nil
	}
	info, err := w.engine.Get(ctx, c.Ref)
	switch {
	case errors.Is(err, abide.ErrNotFound):
		return w.Remove(key)
	case err != nil:
		return err
	}
	is := w.matches(&info)
	if !is && !was {
		return nil
	}
	if err := w.One(w.rows.Item(&info)); err != nil || is {
		return err
	}
	delete(w.Known, key) // it was told that it does not match any more
	return nil
}

// couldMatch reports whether it is worth to look at an instance, by what is told of it.
func (w *instancesWatch) couldMatch(c *abide.Change) bool {
	f := &w.filter
	return (f.Tenant == nil || *f.Tenant == c.Ref.Tenant) && strings.HasPrefix(c.Ref.ID, f.Prefix) &&
		(len(f.Orchestrations) == 0 || slices.Contains(f.Orchestrations, c.Orchestration)) &&
		(len(f.Statuses) == 0 || slices.Contains(f.Statuses, c.Status))
}

// matches reports whether an instance is one of those that a list would have.
func (w *instancesWatch) matches(info *abide.Info) bool {
	f := &w.filter
	c := abide.Change{Ref: info.Ref, Orchestration: info.Orchestration, Status: info.Status}
	if !w.couldMatch(&c) || info.StartedAt.Before(f.From) || (!f.To.IsZero() && !info.StartedAt.Before(f.To)) {
		return false
	}
	if f.Parent != "" && info.Parent != f.Parent || f.Build != "" && info.Build != f.Build {
		return false
	}
	for name, value := range f.Tags {
		if got, ok := info.Tags[name]; !ok || got != value {
			return false
		}
	}
	return true
}
