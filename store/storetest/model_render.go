package storetest

import (
	"fmt"
	"hash/crc32"

	"github.com/abidehq/abide/store"
)

// What follows makes lines of text of everything, so that it can be compared and read.

func (c *comparison) renderPending(s store.Store, k store.Key) (lines []string) {
	messages, err := s.Pending(c.ctx, k, c.glance.limit)
	if err != nil {
		return []string{"error: " + errorKind(err)}
	}
	for i := range messages {
		lines = append(lines, c.renderMessage(&messages[i]))
	}
	return lines
}

func (c *comparison) renderMessage(m *store.Message) string {
	return fmt.Sprintf("%v route %q visible %s put %s ttl %v attempt %d %s",
		m.Ref(), m.Route, c.when(m.VisibleAt), c.when(m.PutAt), m.TTL, m.Attempt, renderBody(m.Body))
}

// renderBody shortens a body, but not what is different about it.
func renderBody(body []byte) string {
	const enough = 40
	if len(body) <= enough {
		return fmt.Sprintf("%q", body)
	}
	return fmt.Sprintf("%q… (%d bytes, sum %08x)", body[:enough], len(body), crc32.ChecksumIEEE(body))
}

func (c *comparison) renderLog(s store.Store, k store.Key) []string {
	page, err := s.ReadLog(c.ctx, k, c.glance.from)
	if err != nil {
		return []string{"error: " + errorKind(err)}
	}
	lines := []string{fmt.Sprintf("from %d, length %d", page.First, page.Length)}
	for _, e := range page.Entries {
		lines = append(lines, renderBody(e))
	}
	return lines
}

func (c *comparison) renderGet(s store.Store, k store.RecordKey) []string {
	r, err := s.Get(c.ctx, k)
	if err != nil {
		return []string{"error: " + errorKind(err)}
	}
	return []string{c.renderRecord(&r)}
}

func (c *comparison) renderAwait(s store.Store, after int64) []string {
	r, err := s.Await(c.ctx, c.glance.awaited, after)
	if err != nil {
		return []string{"error: " + errorKind(err)}
	}
	return []string{c.renderRecord(&r)}
}

func (c *comparison) renderRecord(r *store.Record) string {
	return fmt.Sprintf("%v version %d status %q name %q %s tags %q %s",
		r.Key, r.Version, r.Status, r.Name, c.when(r.Time), r.Tags, renderBody(r.Body))
}

func (c *comparison) renderRecords(records []store.Record) (lines []string) {
	for i := range records {
		lines = append(lines, c.renderRecord(&records[i]))
	}
	return lines
}

func (c *comparison) renderClaims(claims []store.Claim) (lines []string) {
	for i := range claims {
		claim := &claims[i]
		lines = append(lines, fmt.Sprintf("%v route %q log %d tag %d now %s until %s",
			claim.Key, claim.Route, claim.LogLength, claim.LogTag, c.when(claim.Now), c.when(claim.Until)))
		for j := range claim.Messages {
			lines = append(lines, c.renderMessage(&claim.Messages[j]))
		}
	}
	return lines
}

func (c *comparison) renderStats(s store.Store) []string {
	stats, err := s.Stats(c.ctx)
	if err != nil {
		return []string{"error: " + errorKind(err)}
	}
	lines := []string{fmt.Sprintf("leases %d, waiting %d, now %s", stats.Leases, stats.Waiting, c.when(stats.Now))}
	for _, row := range stats.Routes {
		lines = append(lines, fmt.Sprintf("queue %s route %q pending %d ready %d leased %d oldest %s",
			row.Queue, row.Route, row.Pending, row.Ready, row.Leased, c.when(row.Oldest)))
	}
	return lines
}
