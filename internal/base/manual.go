package base

import (
	"slices"
	"sync"
	"time"
)

// Manual is a clock that stands still until it is told to go on.
type Manual struct {
	mu     sync.Mutex
	now    time.Time
	alarms []*alarm // ordered by time, then by when they were set
}

type alarm struct {
	at time.Time
	f  func()
}

var _ Clock = (*Manual)(nil)

// NewManual returns a clock that shows now.
func NewManual(now time.Time) *Manual { return &Manual{now: now} }

// Now returns the time that the clock shows.
func (m *Manual) Now() time.Time {
	m.mu.Lock()
	defer m.mu.Unlock()
	return m.now
}

// AfterFunc calls f during the Advance that makes d pass. A d of zero or less has
// passed already: then f is called in a goroutine of its own.
func (m *Manual) AfterFunc(d time.Duration, f func()) func() bool {
	m.mu.Lock()
	defer m.mu.Unlock()
	a := &alarm{at: m.now.Add(d), f: f}
	if d <= 0 {
		go f()
		return func() bool { return false }
	}
	i, _ := slices.BinarySearchFunc(m.alarms, a, func(x, y *alarm) int {
		if x.at.After(y.at) {
			return 1
		}
		return -1 // equal times keep the order in which they were set
	})
	m.alarms = slices.Insert(m.alarms, i, a)
	return func() bool { return m.cancel(a) }
}

func (m *Manual) cancel(a *alarm) bool {
	m.mu.Lock()
	defer m.mu.Unlock()
	i := slices.Index(m.alarms, a)
	if i < 0 {
		return false
	}
	m.alarms = slices.Delete(m.alarms, i, i+1)
	return true
}

// Jump sets the clock ahead or back, as an operator does: no time passes, and no function is
// called.
func (m *Manual) Jump(by time.Duration) {
	m.mu.Lock()
	defer m.mu.Unlock()
	m.now = m.now.Add(by)
	for _, a := range m.alarms {
		a.at = a.at.Add(by)
	}
}

// Advance makes d pass. Functions that are due on the way are called one after
// another, each while the clock shows its time, before Advance returns.
func (m *Manual) Advance(d time.Duration) {
	m.mu.Lock()
	end := m.now.Add(d)
	for len(m.alarms) > 0 && !m.alarms[0].at.After(end) {
		a := m.alarms[0]
		m.alarms = slices.Delete(m.alarms, 0, 1)
		if a.at.After(m.now) {
			m.now = a.at
		}
		m.mu.Unlock()
		a.f()
		m.mu.Lock()
	}
	if end.After(m.now) {
		m.now = end
	}
	m.mu.Unlock()
}
