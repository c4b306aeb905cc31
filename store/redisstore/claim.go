package redisstore

import (
	"context"
	"encoding/binary"
	"fmt"
	"slices"
	"strconv"

	"github.com/abidehq/abide/store"
)

// Claim leases keys that are ready. When none is, it waits: see waiter.
func (s *Store) Claim(ctx context.Context, req store.ClaimRequest) ([]store.Claim, error) {
	if err := req.Validate(); err != nil {
		return nil, err
	}
	done, err := s.begin(ctx, "claim")
	if err != nil {
		return nil, err
	}
	defer done()
	req.Routes = slices.Compact(slices.Sorted(slices.Values(req.Routes)))
	if req.MaxMessages == 0 {
		req.MaxMessages = store.DefaultMessages
	}
	w := s.join(req)
	if w == nil {
		return nil, store.Closed("claim")
	}
	return s.waits.Wait(ctx, w)
}

// want writes what a claimer wants for a script.
func (a *args) want(req *store.ClaimRequest, token string) {
	a.add(req.Queue)
	a.len(req.Max)
	a.len(req.MaxMessages)
	a.len(req.MaxAttempts)
	a.num(millis(req.Lease))
	a.add(token)
	a.len(len(req.Routes))
	a.add(req.Routes...)
}

// found is what a look at the queue has found.
type found struct {
	claims []store.Claim
	spent  []spent
	now    int64
	next   int64 // when there is something again, or -1
	more   bool  // there is more than was claimed
	expiry int64 // when a message without a route expires, or -1
}

// spent is a message that is to go to quarantine.
type spent struct {
	message store.Message
	number  string // that the store gave it
	reason  string
}

// look claims what is ready, once. Messages whose time to live has ended, and those that
// were delivered too often, go to quarantine first: their records are made here, so that
// takes another call.
//
// A script cannot make the records of messages that go to quarantine: their
// bodies are encoded here. So it returns such messages (spent) and leaves them
// where they are; quarantine moves them, by their number, so that a message that
// another process has moved meanwhile is not moved twice; then it claims again,
// until it has Max keys or a script finds nothing to quarantine.
func (s *Store) look(ctx context.Context, req *store.ClaimRequest) (all found, err error) {
	left := *req
	for {
		var a args
		a.want(&left, s.newToken())
		m, err := s.eval(ctx, claimScript, a)
		if err != nil {
			return all, err
		}
		answer := read(m)
		f := parseFound(answer)
		if answer.err != nil {
			return all, fmt.Errorf("redisstore: claim: %w", answer.err)
		}
		s.noteExpiry(f.now, f.expiry)
		f.claims = append(all.claims, f.claims...)
		all = f
		left.Max = req.Max - len(all.claims)
		if len(f.spent) > 0 {
			if err := s.quarantine(ctx, f.spent, f.now); err != nil {
				return all, err
			}
		}
		if left.Max == 0 || len(f.spent) == 0 && (len(all.claims) > 0 || !f.more) {
			return all, nil
		}
	}
}

// parseFound reads what the claim of a script has found.
func parseFound(a *answer) (f found) {
	f.now, f.next, f.more = a.num(), a.num(), a.num() == 1
	for claims := a.sub(); claims.more(); {
		c, err := parseClaim(claims.sub(), f.now)
		a.note(err)
		f.claims = append(f.claims, c)
	}
	for list := a.sub(); list.more(); {
		sp, err := parseSpent(list.sub())
		a.note(err)
		f.spent = append(f.spent, sp)
	}
	f.expiry = a.num()
	return f
}

func parseClaim(a *answer, now int64) (c store.Claim, err error) {
	if c.Key, err = parseKey(a.text()); err != nil {
		return c, err
	}
	c.Token, c.Route = store.Token(a.text()), a.text()
	c.LogLength = int(a.num())
	if c.LogTag, err = strconv.ParseUint(a.text(), 10, 64); err != nil {
		return c, fmt.Errorf("redisstore: tag of the log of %v: %w: %w", c.Key, err, store.ErrCorrupt)
	}
	c.Now, c.Until = store.FromMillis(now), store.FromMillis(a.num())
	messages := a.sub()
	for messages.more() {
		id, visible, attempt := messages.text(), messages.num(), messages.num()
		m, err := parseMessage(c.Key, c.Route, id, messages.text(), visible, attempt)
		if err != nil {
			return c, err
		}
		c.Messages = append(c.Messages, m)
	}
	a.note(messages.err)
	return c, a.err
}

func parseSpent(a *answer) (sp spent, err error) {
	key, err := parseKey(a.text())
	if err != nil {
		return sp, err
	}
	id := a.text()
	sp.number = a.text()
	attempt, visible, route := a.num(), a.num(), a.text()
	sp.reason = a.text()
	if sp.message, err = parseMessage(key, route, id, a.text(), visible, attempt); err != nil {
		return sp, err
	}
	return sp, a.err
}

// quarantine moves messages to records.
func (s *Store) quarantine(ctx context.Context, list []spent, now int64) error {
	var hint []byte
	var a args
	a.len(len(list))
	for _, sp := range list {
		m := sp.message
		record := store.Quarantine(m, m.Route, sp.reason, store.FromMillis(now)).Record
		rid := recordID(record.Key)
		hint = binary.BigEndian.AppendUint64(hint, digest(rid))
		a.add(keyID(m.Key), m.ID, sp.number)
		a.len(m.Attempt)
		a.add(sp.reason, rid)
		a.record(&record)
	}
	m, err := s.evalDurably(ctx, quarantineScript, append(args{s.listens(), string(hint)}, a...))
	if err != nil {
		return err
	}
	answer := read(m)
	answer.text()
	at := answer.num()
	s.wake(at, s.parseReady(answer.sub()))
	s.tellDigests(hint)
	if answer.err != nil {
		return fmt.Errorf("redisstore: claim: %w", answer.err)
	}
	return nil
}
