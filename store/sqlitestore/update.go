package sqlitestore

import (
	"context"

	"zombiezen.com/go/sqlite"

	"github.com/abidehq/abide/internal/rows"
	"github.com/abidehq/abide/store"
)

// Update runs one synced transaction. It holds the write lock of the file from before it loads the
// rows until it has written them, so that nothing is locked row by row, and it never returns
// rows.ErrRetry or rows.ErrLocked.
func (s *Store) Update(ctx context.Context, need *rows.ReadSet, decide func(now int64, st *rows.State) *rows.Changes) error {
	return s.transact(ctx, "commit", true, func(w *writer) (bool, error) {
		u := &update{conn: w.conn, nums: make(map[rows.ID]int64, len(need.Keys))}
		st, err := u.load(need)
		if err != nil {
			return false, err
		}
		now := s.now()
		changes := decide(now, st)
		if changes.Empty() {
			return false, nil
		}
		if err := u.write(changes); err != nil {
			return false, err
		}
		return true, s.writeMark(w, now)
	})
}

// update is an Update in its transaction.
type update struct {
	*conn
	nums map[rows.ID]int64 // of the keys that are there, or will be
	next int64             // of the next key that is made; 0 if that is not known
}

// load returns the rows of a need that exist.
func (u *update) load(need *rows.ReadSet) (*rows.State, error) {
	st := &rows.State{
		Keys:     make(map[rows.ID]*rows.KeyRow, len(need.Keys)),
		Messages: make(map[rows.Ref]*rows.MessageRow, len(need.Messages)),
		Records:  make(map[store.RecordKey]int64, len(need.Records)),
	}
	for i, id := range need.Keys {
		key := need.Names[i]
		_, err := u.one(`SELECT `+keyColumns+` FROM keys WHERE queue = ? AND tenant = ? AND name = ?`, func(s *sqlite.Stmt) {
			num, row := scanKey(s)
			identify(row, id)
			u.nums[id], st.Keys[id] = num, row
		}, key.Queue, key.Tenant, key.Name)
		if err != nil {
			return nil, err
		}
	}
	for _, ref := range need.Messages {
		row := st.Keys[ref.Key]
		if row == nil || row.Rows() == 0 {
			continue
		}
		m, err := u.message(u.nums[ref.Key], row, ref.ID, need.Bodies)
		if err != nil {
			return nil, err
		}
		if m != nil {
			st.Messages[ref] = m
		}
	}
	for _, key := range need.Records {
		version, err := u.number(versionOf, key.Kind, key.Tenant, key.ID)
		if err != nil {
			return nil, err
		}
		if version != 0 {
			st.Records[key] = version
		}
	}
	return st, nil
}

// message returns a message of a key by its ID, or nil.
func (c *conn) message(num int64, row *rows.KeyRow, id string, body bool) (m *rows.MessageRow, err error) {
	scan := func(s *sqlite.Stmt) {
		found := scanMessage(s, row.ID)
		if body {
			found.Body = blob(s, 6)
		}
		m = &found
	}
	_, err = c.one(`SELECT `+messageColumns+`, body FROM messages WHERE key = ? AND seq < 32 AND id = ?`, scan, num, id)
	if err == nil && m == nil && row.Seq > early {
		_, err = c.one(`SELECT `+messageColumns+`, body FROM messages INDEXED BY messages_id WHERE key = ? AND seq >= 32 AND id = ?`, scan, num, id)
	}
	return m, err
}

// num returns the number of a key, a new one if the key does not exist.
func (u *update) num(id rows.ID) (int64, error) {
	if num, ok := u.nums[id]; ok {
		return num, nil
	}
	if u.next == 0 {
		last, err := u.number(`SELECT max(num) FROM keys`)
		if err != nil {
			return 0, err
		}
		u.next = last + 1
	}
	u.nums[id] = u.next
	u.next++
	return u.nums[id], nil
}
