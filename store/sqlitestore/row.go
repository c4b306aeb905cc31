package sqlitestore

import (
	"strconv"
	"strings"

	"zombiezen.com/go/sqlite"

	"github.com/abidehq/abide/internal/rows"
	"github.com/abidehq/abide/store"
)

// keyColumns are those that scanKey reads, in its order.
const keyColumns = `num, queue, tenant, name, route, seq, count, first, log_first, log_length, log_tag, token, until, delivered,
m_seq, m_id, m_visible, m_put, m_ttl, m_attempt, m_body`

// scanKey reads a row of keys, and its number. The row does not have its ID: see identify.
func scanKey(s *sqlite.Stmt) (num int64, k *rows.KeyRow) {
	k = &rows.KeyRow{
		Key:       store.Key{Queue: s.ColumnText(1), Tenant: s.ColumnText(2), Name: s.ColumnText(3)},
		Route:     s.ColumnText(4),
		Seq:       s.ColumnInt64(5),
		Count:     s.ColumnInt(6),
		First:     s.ColumnInt64(7),
		LogFirst:  s.ColumnInt(8),
		LogLength: s.ColumnInt(9),
		LogTag:    uint64(s.ColumnInt64(10)), //nolint:gosec // its bits are kept as they are
	}
	if !s.ColumnIsNull(11) {
		k.Token, k.Until, k.Delivered = s.ColumnText(11), s.ColumnInt64(12), parseSeqs(s.ColumnText(13))
	}
	if !s.ColumnIsNull(14) {
		k.Inline = &rows.MessageRow{
			Seq: s.ColumnInt64(14), ID: s.ColumnText(15), Visible: s.ColumnInt64(16), Put: s.ColumnInt64(17),
			TTL: s.ColumnInt64(18), Attempt: s.ColumnInt(19), Body: blob(s, 20),
		}
	}
	return s.ColumnInt64(0), k
}

// identify gives a row, and the message that is kept in it, the ID of its key.
func identify(k *rows.KeyRow, id rows.ID) {
	k.ID = id
	if k.Inline != nil {
		k.Inline.Key = id
	}
}

// messageColumns are those that scanMessage reads, in its order, besides the body.
const messageColumns = `seq, id, visible, put, ttl, attempt`

// scanMessage reads a row of messages, without its body.
func scanMessage(s *sqlite.Stmt, key rows.ID) rows.MessageRow {
	return rows.MessageRow{
		Key: key, Seq: s.ColumnInt64(0), ID: s.ColumnText(1), Visible: s.ColumnInt64(2), Put: s.ColumnInt64(3),
		TTL: s.ColumnInt64(4), Attempt: s.ColumnInt(5),
	}
}

// formatSeqs returns numbers of messages for people, and for the functions of SQL that
// take JSON.
func formatSeqs(seqs []int64) string {
	b := make([]byte, 0, 2+4*len(seqs))
	b = append(b, '[')
	for i, seq := range seqs {
		if i > 0 {
			b = append(b, ',')
		}
		b = strconv.AppendInt(b, seq, 10)
	}
	return string(append(b, ']'))
}

// parseSeqs is the inverse of formatSeqs. What is not a number is passed over: Verify
// finds it.
func parseSeqs(text string) (seqs []int64) {
	for part := range strings.SplitSeq(strings.Trim(text, "[]"), ",") {
		if n, err := strconv.ParseInt(part, 10, 64); err == nil {
			seqs = append(seqs, n)
		}
	}
	return seqs
}

// recordColumns are those that scanRecord reads, in its order.
const recordColumns = `kind, tenant, id, version, status, name, time, tags, body`

func scanRecord(s *sqlite.Stmt, from int) (store.Record, error) {
	tags, err := parseTags(s.ColumnText(from + 7))
	return store.Record{
		Key:     store.RecordKey{Kind: s.ColumnText(from), Tenant: s.ColumnText(from + 1), ID: s.ColumnText(from + 2)},
		Version: s.ColumnInt64(from + 3),
		Status:  s.ColumnText(from + 4),
		Name:    s.ColumnText(from + 5),
		Time:    store.FromMillis(s.ColumnInt64(from + 6)),
		Tags:    tags,
		Body:    blob(s, from+8),
	}, err
}
