package redisstore

import (
	"context"
	"encoding/binary"
	"fmt"
	"strconv"

	"github.com/abidehq/abide/store"
)

// Claim leases keys that are ready. When none is, it waits: see waiter. The routes and tenants are
// sorted copies, so that calls with the same ones in another order share a subscription, and the
// caller may change its slices.
func (s *Store) Claim(ctx context.Context, req store.ClaimRequest) ([]store.Claim, error) {
	if err := req.Validate(); err != nil {
		return nil, err
	}
	done, err := s.begin(ctx, "claim")
	if err != nil {
		return nil, err
	}
	defer done()
	req.Routes = unique(req.Routes)
	if req.Tenants != nil {
		req.Tenants = unique(req.Tenants)
	}
	if req.MaxMessages == 0 {
		req.MaxMessages = store.DefaultMessages
	}
	w := s.join(req)
	if w == nil {
		return nil, store.Closed("claim")
	}
	return s.waits.Wait(ctx, w)
}

// claimRequest adds the arguments of a claim; readRequest in partitions.lua reads them. token
// is what the tokens of the leased keys begin with.
func (a *args) claimRequest(req *store.ClaimRequest, token string) {
	a.add(req.Queue)
	a.len(req.Max)
	a.len(req.MaxMessages)
	a.len(req.MaxAttempts)
	a.num(millis(req.Lease))
	a.add(token)
	a.len(len(req.Routes))
	a.add(req.Routes...)
	a.names(req.Tenants)
}

// claimResult is what one claim by a script has found. Times are milliseconds of the server's
// clock.
type claimResult struct {
	claims     []store.Claim
	quarantine []quarantineItem // messages that must be quarantined before others are claimed
	now        int64            // when the script ran
	next       int64            // when the routes have something to claim next, or -1
	more       bool             // more is ready than was claimed
	expiry     int64            // when a message without a route expires, or -1
}

// quarantineItem is a message that is to be quarantined: it has reached the limit of
// attempts, or its time to live ended before its key had a route.
type quarantineItem struct {
	message store.Message
	number  string // given by the store, unique even if the ID is put again
	reason  string // "attempts" or "expired"
}

// claimOnce makes one full claim from a segment, without waiting.
//
// A script cannot encode the records of messages that are to be quarantined. So it returns
// such messages and leaves them where they are; quarantine moves them, by their number, so
// that a message that another process has moved meanwhile is not moved twice; then it claims
// again, until it has Max keys or a script finds nothing to quarantine. It also claims again
// if a script has leased nothing and says that there is more: one script ends a limited
// number of leases, and promotes a limited number of tenants.
//
// On an error, all holds the keys that were leased before it: the caller must hand
// them over or release them.
func (s *Store) claimOnce(ctx context.Context, seg *segment, req *store.ClaimRequest) (all claimResult, err error) {
	left := *req
	for {
		var a args
		a.claimRequest(&left, s.newToken(req.Owner))
		m, err := s.eval(ctx, seg, claimScript, a)
		if err != nil {
			return all, err
		}
		answer := read(m)
		f := parseClaimResult(answer)
		if answer.err != nil {
			return all, fmt.Errorf("redisstore: claim: %w", answer.err)
		}
		s.noteExpiry(seg, f.now, f.expiry)
		f.claims = append(all.claims, f.claims...)
		all = f
		left.Max = req.Max - len(all.claims)
		if len(f.quarantine) > 0 {
			if err := s.quarantine(ctx, seg, f.quarantine, f.now); err != nil {
				return all, err
			}
		}
		if left.Max == 0 || len(f.quarantine) == 0 && (len(all.claims) > 0 || !f.more) {
			return all, nil
		}
	}
}

// parseClaimResult reads the answer of a claim. An error is noted in a.
func parseClaimResult(a *answer) (f claimResult) {
	f.now, f.next, f.more = a.num(), a.num(), a.num() == 1
	for claims := a.sub(); claims.more(); {
		c, err := parseClaim(claims.sub(), f.now)
		a.note(err)
		f.claims = append(f.claims, c)
	}
	for list := a.sub(); list.more(); {
		sp, err := parseQuarantineItem(list.sub())
		a.note(err)
		f.quarantine = append(f.quarantine, sp)
	}
	f.expiry = a.num()
	return f
}

// parseClaim reads one leased key. The messages come as a flat list, four elements each.
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

// parseQuarantineItem reads one message that is to be quarantined.
func parseQuarantineItem(a *answer) (sp quarantineItem, err error) {
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

// quarantine moves messages to quarantine records, atomically each. The script skips a message
// whose number or attempts have changed, that was leased, or that expired and has got a route
// since it was found. A crash before the script leaves the messages where they are, for the
// next claim to find.
func (s *Store) quarantine(ctx context.Context, seg *segment, list []quarantineItem, now int64) error {
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
	m, err := s.evalDurably(ctx, seg, quarantineScript, append(args{s.listenArg(seg), string(hint)}, a...))
	if err != nil {
		return err
	}
	answer := read(m)
	answer.text()
	at := answer.num()
	s.wake(seg, at, s.parseReady(answer.sub()))
	s.notifyDigests(hint)
	if answer.err != nil {
		return fmt.Errorf("redisstore: claim: %w", answer.err)
	}
	return nil
}
