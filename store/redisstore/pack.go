package redisstore

import (
	"encoding/binary"
	"strconv"

	"github.com/abidehq/abide/store"
)

// packer writes MessagePack, which a script reads faster than as many arguments.
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

// size begins a text of so many bytes.
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

// keyList is the keys of a Tx, each once: what the Tx does names them by their places.
//
// A Tx names the same key in several of its parts. The script reads the heads of
// all keys with one command, so each key goes along once, and is named by its
// number.
type keyList struct {
	keys   []store.Key
	ids    []string
	places map[store.Key]int // of many
}

// fewKeys is how many keys are found by looking at each.
const fewKeys = 8

// place returns the place of a key, which begins with 1.
func (l *keyList) place(k store.Key) int64 {
	if l.places != nil {
		if i, known := l.places[k]; known {
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
	case l.places != nil:
		l.places[k] = n
	case n > fewKeys:
		l.places = make(map[store.Key]int, 2*n)
		for i := range l.keys {
			l.places[l.keys[i]] = i + 1
		}
	}
	return int64(n)
}

// grows reports whether a Tx needs memory on the server.
func grows(tx *store.Tx) bool {
	return len(tx.Append)+len(tx.Put)+len(tx.Retime)+len(tx.PutRecords) > 0
}

// packTx writes a Tx, of about so many bytes, for the script: commit.lua says what is where.
func packTx(tx *store.Tx, about int) (text string, records []written) {
	var l keyList
	body := make(packer, 0, 256+about)
	body.yesNo(grows(tx))
	body.len(len(tx.Finish))
	for i := range tx.Finish {
		f := &tx.Finish[i]
		body.num(l.place(f.Lease.Key))
		body.text(string(f.Lease.Token))
		body.len(len(f.Keep))
		for _, id := range f.Keep {
			body.text(id)
		}
	}
	body.len(len(tx.DeleteKeys))
	for _, key := range tx.DeleteKeys {
		body.num(l.place(key))
	}
	body.len(len(tx.Trim))
	for _, t := range tx.Trim {
		body.num(l.place(t.Key))
		body.num(int64(t.Before))
	}
	body.len(len(tx.Append))
	for i := range tx.Append {
		a := &tx.Append[i]
		body.num(l.place(a.Key))
		body.num(int64(a.At))
		body.text(strconv.FormatUint(a.Tag, 10))
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

func (p *packer) messages(tx *store.Tx, l *keyList) {
	p.len(len(tx.Put))
	for i := range tx.Put {
		m := &tx.Put[i]
		p.num(l.place(m.Key))
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
		p.num(l.place(r.Ref.Key))
		p.text(r.Ref.ID)
		p.num(store.Millis(r.VisibleAt))
	}
	p.len(len(tx.Delete))
	for _, ref := range tx.Delete {
		p.num(l.place(ref.Key))
		p.text(ref.ID)
	}
}
