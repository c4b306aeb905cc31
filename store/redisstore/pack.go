package redisstore

import (
	"encoding/binary"
	"strconv"

	"github.com/abidehq/abide/store"
)

// packer writes MessagePack, which a script reads faster than as many arguments. It writes
// the forms that cmsgpack reads: small integers in a byte, others in eight.
type packer []byte

func (p *packer) num(n int64) {
	switch {
	case n >= 0 && n < 128:
		*p = append(*p, byte(n))
	case n >= -32 && n < 0:
		*p = append(*p, byte(n)) //nolint:gosec // that is how small negative ones are written
	default:
		*p = binary.BigEndian.AppendUint64(append(*p, 0xd3), uint64(n)) //nolint:gosec // as two's complement
	}
}

func (p *packer) len(n int) { p.num(int64(n)) }

func (p *packer) yesNo(set bool) {
	if set {
		*p = append(*p, 0xc3)
	} else {
		*p = append(*p, 0xc2)
	}
}

// size writes the header of a text of n bytes.
func (p *packer) size(n int) {
	switch {
	case n < 32:
		*p = append(*p, 0xa0|byte(n))
	case n < 256:
		*p = append(*p, 0xd9, byte(n))
	case n < 1<<16:
		*p = binary.BigEndian.AppendUint16(append(*p, 0xda), uint16(n)) //nolint:gosec // it is less
	default:
		*p = binary.BigEndian.AppendUint32(append(*p, 0xdb), uint32(n)) //nolint:gosec // bodies are much smaller
	}
}

func (p *packer) text(s string) {
	p.size(len(s))
	*p = append(*p, s...)
}

func (p *packer) bytes(b []byte) {
	p.size(len(b))
	*p = append(*p, b...)
}

// keyList is the keys of a Tx, each once. The parts of the Tx refer to them by index, from 1
// as in Lua.
//
// A Tx names the same key in several of its parts. The script reads the heads of
// all keys with one command, so each key is sent once.
type keyList struct {
	keys    []store.Key
	ids     []string          // keyID of each
	indexes map[store.Key]int // nil up to fewKeys, which are compared one by one
}

// fewKeys is up to how many keys a linear search is faster than a map. Most Txs have fewer.
const fewKeys = 8

// index returns the index of a key, and adds the key if it is new.
func (l *keyList) index(k store.Key) int64 {
	if l.indexes != nil {
		if i, known := l.indexes[k]; known {
			return int64(i)
		}
	} else {
		for i := range l.keys {
			if l.keys[i] == k {
				return int64(i + 1)
			}
		}
	}
	l.keys = append(l.keys, k)
	l.ids = append(l.ids, keyID(k))
	n := len(l.keys)
	switch {
	case l.indexes != nil:
		l.indexes[k] = n
	case n > fewKeys:
		l.indexes = make(map[store.Key]int, 2*n)
		for i := range l.keys {
			l.indexes[l.keys[i]] = i + 1
		}
	}
	return int64(n)
}

// grows reports whether a Tx needs memory on the server. At the memory limit the script refuses
// such a Tx, and applies the others: they make room.
func grows(tx *store.Tx) bool {
	return len(tx.Append)+len(tx.Put)+len(tx.Retime)+len(tx.PutRecords) > 0
}

// packTx encodes a Tx, of about so many bytes, for the script: commit.lua describes the
// layout. It also returns the records that the Tx changes. Both are copies.
func packTx(tx *store.Tx, about int) (text string, records []written) {
	var l keyList
	body := make(packer, 0, 256+about)
	body.yesNo(grows(tx))
	body.len(len(tx.Finish))
	for i := range tx.Finish {
		f := &tx.Finish[i]
		body.num(l.index(f.Lease.Key))
		body.text(string(f.Lease.Token))
		body.len(len(f.Keep))
		for _, id := range f.Keep {
			body.text(id)
		}
	}
	body.len(len(tx.DeleteKeys))
	for _, key := range tx.DeleteKeys {
		body.num(l.index(key))
	}
	body.len(len(tx.Trim))
	for _, t := range tx.Trim {
		body.num(l.index(t.Key))
		body.num(int64(t.Before))
	}
	body.len(len(tx.Append))
	for i := range tx.Append {
		a := &tx.Append[i]
		body.num(l.index(a.Key))
		body.num(int64(a.At))
		body.text(strconv.FormatUint(a.Tag, 10))
		body.text(a.Route)
		body.yesNo(a.Idle)
		body.len(len(a.Entries))
		for _, e := range a.Entries {
			body.bytes(e)
		}
	}
	records = body.records(tx)
	body.messages(tx, &l)
	size := 0
	for _, id := range l.ids {
		size += 5 + len(id)
	}
	all := make(packer, 0, 8+size+len(body))
	all.len(len(l.ids))
	for _, id := range l.ids {
		all.text(id)
	}
	return string(append(all, body...)), records
}

// records encodes the records of a Tx, and returns what Await calls are told of them. The
// version is the expected one plus one; it is 0, unknown, for deletions, and for puts at any
// version, whose Expect is [store.AnyVersion]: see readVersions.
func (p *packer) records(tx *store.Tx) (list []written) {
	if n := len(tx.PutRecords) + len(tx.DeleteRecords); n > 0 {
		list = make([]written, 0, n)
	}
	p.len(len(tx.PutRecords))
	for i := range tx.PutRecords {
		r := &tx.PutRecords[i].Record
		w := written{rid: recordID(r.Key)}
		w.digest = digest(w.rid)
		w.put, w.at, w.status, w.rest = true, store.RecordMillis(r.Time), r.Status, restOf(r)
		w.version = tx.PutRecords[i].Expect + 1
		p.text(w.rid)
		p.num(tx.PutRecords[i].Expect)
		p.num(w.at)
		p.text(w.status)
		p.text(w.rest)
		list = append(list, w)
	}
	p.len(len(tx.DeleteRecords))
	for _, d := range tx.DeleteRecords {
		w := written{rid: recordID(d.Key)}
		w.digest = digest(w.rid)
		p.text(w.rid)
		p.num(d.Expect)
		list = append(list, w)
	}
	return list
}

// ifRouted is written as the TTL of a message with IfRouted, which has none.
const ifRouted = -1

// messages encodes the messages that a Tx puts, re-times and deletes.
func (p *packer) messages(tx *store.Tx, l *keyList) {
	p.len(len(tx.Put))
	for i := range tx.Put {
		m := &tx.Put[i]
		p.num(l.index(m.Key))
		p.text(m.ID)
		p.text(m.Route)
		p.num(store.Millis(m.VisibleAt))
		if m.IfRouted {
			p.num(ifRouted)
		} else {
			p.num(millis(m.TTL))
		}
		p.bytes(m.Body)
	}
	p.len(len(tx.Retime))
	for _, r := range tx.Retime {
		p.num(l.index(r.Ref.Key))
		p.text(r.Ref.ID)
		p.num(store.Millis(r.VisibleAt))
	}
	p.len(len(tx.Delete))
	for _, ref := range tx.Delete {
		p.num(l.index(ref.Key))
		p.text(ref.ID)
	}
}
