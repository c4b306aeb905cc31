package web

import (
	"errors"
	"testing"
	"time"

	"github.com/abidehq/abide"
	"github.com/abidehq/abide/internal/check"
	"github.com/abidehq/abide/store"
)

// TestALimitWithManyKeysIsReadNowAndThen, and at once when its rule was changed.
func TestALimitWithManyKeysIsReadNowAndThen(t *testing.T) {
	t.Parallel()
	var m limitMemory
	now := time.Unix(1e9, 0)
	key := store.RecordKey{Kind: kindLimit, Tenant: "acme", ID: "customer"}
	other := store.RecordKey{Kind: kindLimit, Tenant: "globex", ID: "customer"}
	failure := errors.New("no store")
	for i, step := range []struct {
		key      store.RecordKey
		after    time.Duration
		revision int64
		keys     int
		fails    bool
		reads    bool
	}{
		{key: key, revision: 1, keys: manyKeys, reads: true},
		{key: key, after: 2 * time.Second, revision: 1, keys: manyKeys},
		{key: other, revision: 1, keys: manyKeys, reads: true},
		{key: key, revision: 2, keys: manyKeys, reads: true},
		{key: key, revision: 2, keys: manyKeys},
		{key: key, after: limitAge, revision: 2, fails: true, reads: true},
		{key: key, revision: 2, keys: manyKeys - 1, reads: true},
		{key: key, revision: 2, keys: manyKeys, reads: true}, // it had few
		{key: key, after: limitAge - 1, revision: 2},
	} {
		now = now.Add(step.after)
		read := false
		info, err := m.get(step.key, step.revision, now, func() (abide.LimitInfo, error) {
			read = true
			if step.fails {
				return abide.LimitInfo{}, failure
			}
			return abide.LimitInfo{Tenant: step.key.Tenant, Revision: step.revision, Keys: make([]abide.LimitKey, step.keys)}, nil
		})
		if read != step.reads || errors.Is(err, failure) != step.fails || err == nil && (info.Tenant != step.key.Tenant || info.Revision != step.revision) {
			t.Errorf("step %d: read %t, %+v, %v", i, read, info, err)
		}
	}
	for i := range 2 * maxKnown {
		_, err := m.get(store.RecordKey{ID: string(rune('a' + i))}, 1, now, func() (abide.LimitInfo, error) {
			return abide.LimitInfo{Revision: 1, Keys: make([]abide.LimitKey, manyKeys)}, nil
		})
		check.OK(t, err)
	}
	if len(m.known) > maxKnown {
		t.Errorf("%d are remembered", len(m.known))
	}
}
