package web

import (
	"sync"
	"time"

	"github.com/abidehq/abide"
	"github.com/abidehq/abide/store"
)

// limitMemory remembers limits with many keys for the list of limits, which is read again every two seconds: of such a
// limit up to a thousand records of gates are read, and the first of what waits at up to a hundred of them. Of one that was
// changed meanwhile the revision is another. Limits with few keys are not remembered.
type limitMemory struct {
	mu    sync.Mutex
	known map[store.RecordKey]knownLimit
}

type knownLimit struct {
	abide.LimitInfo
	at time.Time
}

const (
	// manyKeys is how many keys a limit must have in use to be remembered, limitAge for how long it is, and maxKnown how
	// many are.
	manyKeys = 10
	limitAge = 15 * time.Second
	maxKnown = 200
)

// get returns the limit of a record, which has that revision.
func (m *limitMemory) get(key store.RecordKey, revision int64, now time.Time, read func() (abide.LimitInfo, error)) (abide.LimitInfo, error) {
	m.mu.Lock()
	known, ok := m.known[key]
	m.mu.Unlock()
	if ok && known.Revision == revision && now.Sub(known.at) < limitAge {
		return known.LimitInfo, nil
	}
	info, err := read()
	if err != nil {
		return info, err
	}
	m.mu.Lock()
	defer m.mu.Unlock()
	delete(m.known, key)
	if len(info.Keys) >= manyKeys {
		if m.known == nil || len(m.known) >= maxKnown {
			m.known = map[store.RecordKey]knownLimit{}
		}
		m.known[key] = knownLimit{info, now}
	}
	return info, nil
}
