package admission

import "time"

// refuse counts a call that is refused, and reports whether refusals begin with it. The lock is held.
func (l *Limiter) refuse(now time.Time) (begins bool) {
	l.refused++
	if !l.refusals.began.IsZero() || l.closed {
		return false
	}
	l.refusals = refusals{began: now, first: l.refused - 1, seen: l.refused}
	l.overdue = l.cfg.Clock.AfterFunc(logEvery, l.look)
	return true
}

// tell reports refused calls to those who count and log them.
func (l *Limiter) tell(n int, begins bool) {
	if l.cfg.Refused != nil {
		for range n {
			l.cfg.Refused()
		}
	}
	if begins && l.cfg.Logger != nil {
		state := l.State()
		l.cfg.Logger.Warn("client calls refused, process is overloaded", "limit", state.Limit, "in_flight", state.InFlight, "waiting", state.Waiting)
	}
}

// look ends the period of refusals if none was refused since the last look.
func (l *Limiter) look() {
	now := l.cfg.Clock.Now()
	l.mu.Lock()
	period := l.refusals
	if l.closed || period.began.IsZero() {
		l.mu.Unlock()
		return
	}
	if l.refused > period.seen {
		l.refusals.seen = l.refused
		l.overdue = l.cfg.Clock.AfterFunc(logEvery, l.look)
		l.mu.Unlock()
		return
	}
	l.refusals, l.overdue = refusals{}, nil
	limit := l.limit
	l.mu.Unlock()
	if l.cfg.Logger != nil {
		l.cfg.Logger.Info("client calls accepted again", "refused", period.seen-period.first, "for", now.Sub(period.began).Round(time.Second), "limit", limit)
	}
}
