package auth

import (
	"context"
	"fmt"
	"slices"
	"time"

	"github.com/abidehq/abide/store"
)

// Session is a login that has not ended. Its secret is in a cookie, and nowhere else.
type Session struct {
	ID string // of its record, of no use to log in

	// Kind is [ByToken] if it was opened with a token, of which Token is the ID, empty for the
	// one in the configuration; or [BySession] if it was opened at a provider.
	Kind  Kind
	Token string

	Subject string
	Name    string
	Role    Role
	Tenants []string // nil means all

	CreatedAt time.Time
	Expires   time.Time
}

// SessionPage is a part of the list of sessions.
type SessionPage struct {
	Sessions []Session

	// Next is the cursor of the next page, and empty if there is none. A page can have fewer
	// sessions than were asked for, or none, and still have a next one.
	Next string
}

// SessionQuery says which sessions to return.
type SessionQuery struct {
	// Subject, if not empty, is whose sessions.
	Subject string

	// Limit is how many at most, [DefaultPage] if it is 0. Cursor is the Next of the page
	// before, or empty.
	Limit  int
	Cursor string
}

// Sessions returns sessions that may do no more than who asks, those that end last first. Who
// asks, as the context says, must have the role admin.
func (g *Guard) Sessions(ctx context.Context, q SessionQuery) (SessionPage, error) {
	const verb = "list sessions"
	who, err := admin(ctx, verb)
	if err != nil {
		return SessionPage{}, err
	}
	if q.Limit == 0 {
		q.Limit = DefaultPage
	}
	if q.Limit < 0 || q.Limit > MaxPage {
		return SessionPage{}, invalid(verb, "a page of %d sessions; 1 to %d is allowed", q.Limit, MaxPage)
	}
	page, err := g.store.List(ctx, store.Query{Kind: kindSession, From: g.now(ctx), Descending: true, Limit: q.Limit, Cursor: q.Cursor})
	if err != nil {
		return SessionPage{}, wrap(verb, err)
	}
	out := SessionPage{Next: page.Next}
	for _, rec := range page.Records {
		s, err := parseSession(rec)
		if err != nil {
			return SessionPage{}, err
		}
		if who.covers(s.role, s.tenants) && (q.Subject == "" || q.Subject == s.subject) {
			out.Sessions = append(out.Sessions, Session{
				ID: s.id, Kind: s.kind, Token: s.token, Subject: s.subject, Name: s.name, Role: s.role, Tenants: slices.Clone(s.tenants),
				CreatedAt: s.created, Expires: s.expires,
			})
		}
	}
	return out, nil
}

// RevokeSession ends a session: in this process at once, in others within [CacheLife]. It
// returns [ErrNotFound] if there is no such session, or none that may do no more than who
// asks.
func (g *Guard) RevokeSession(ctx context.Context, id string) error {
	const verb = "revoke session"
	who, err := admin(ctx, verb)
	if err != nil {
		return err
	}
	if len(id) != secretLength || !isLetters(id) {
		return fmt.Errorf("auth: %s: %w", verb, ErrNotFound)
	}
	rec, err := g.store.Get(ctx, sessionKey(id))
	if err != nil {
		return wrap(verb, err)
	}
	s, err := parseSession(rec)
	if err != nil {
		return err
	}
	if !who.covers(s.role, s.tenants) {
		return fmt.Errorf("auth: %s: %w", verb, ErrNotFound)
	}
	err = g.store.Commit(ctx, &store.Tx{DeleteRecords: []store.DeleteRecord{{Key: rec.Key, Expect: store.AnyVersion}}})
	g.sessions.drop(id) // also after an error, which need not mean that it failed
	return wrap(verb, err)
}

// RevokeSessions ends all sessions of a subject that may do no more than who asks, and
// returns how many.
func (g *Guard) RevokeSessions(ctx context.Context, subject string) (int, error) {
	if subject == "" {
		return 0, invalid("revoke sessions", "the subject is missing: whose sessions end")
	}
	n := 0
	for q := (SessionQuery{Subject: subject, Limit: MaxPage}); ; {
		page, err := g.Sessions(ctx, q)
		if err != nil {
			return n, err
		}
		for i := range page.Sessions {
			if err := g.RevokeSession(ctx, page.Sessions[i].ID); err != nil {
				return n, err
			}
			n++
		}
		if q.Cursor = page.Next; q.Cursor == "" {
			return n, nil
		}
	}
}
