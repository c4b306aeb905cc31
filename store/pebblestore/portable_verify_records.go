package pebblestore

import (
	"bytes"
	"encoding/binary"
	"fmt"
	"slices"

	"github.com/cockroachdb/pebble/v2"

	"github.com/abidehq/abide/store"
)

// unownedLogs reports logs that no key refers to, or that several do. A log does not name its
// key: so a checksum of all logs is compared with one of those that keys refer to, and only
// if they differ is a map of all logs built to find which.
func (v *verifier) unownedLogs() error {
	var found logSum
	if err := v.eachLog(func(log uint64) { found.add(log) }); err != nil {
		return err
	}
	if found == v.logs {
		return nil
	}
	owners := map[uint64]int{}
	err := v.each(tagKey, func(key, value []byte) error {
		if n := split(key); n == len(key) || key[n] != keyHeader {
			return nil
		}
		h, err := parseHeader(key, value)
		if err == nil {
			owners[h.log]++
		}
		return err
	})
	if err != nil {
		return err
	}
	for log, n := range owners {
		if n > 1 {
			v.problem("%d keys have the same log, number %d", n, log)
		}
	}
	return v.eachLog(func(log uint64) {
		if owners[log] == 0 {
			v.problem("log number %d is of no key", log)
		}
	})
}

// eachLog calls yield with the number of each log that has a value.
func (v *verifier) eachLog(yield func(log uint64)) error {
	it, err := v.view.NewIter(&pebble.IterOptions{LowerBound: []byte{tagLog}, UpperBound: []byte{tagLog + 1}})
	if err != nil {
		return err
	}
	for found := it.First(); found && err == nil; {
		log := binary.BigEndian.Uint64(it.Key()[1:])
		yield(log)
		err = v.checkEnded()
		found = it.SeekGE(logKey(nil, log+1, 0))
	}
	return closeIter(it, err)
}

// recordName checks that the record of a name exists, and has that name.
func (v *verifier) recordName(key, value []byte) error {
	if len(value) != 8 {
		v.problem("the name %x of a record has %d bytes, and should have 8", key, len(value))
		return nil
	}
	num := binary.BigEndian.Uint64(value)
	b, err := v.get(recordKey(nil, num))
	if err != nil {
		return err
	}
	if b == nil {
		v.problem("record number %d has the name %x and is not there", num, key)
		return nil
	}
	rec, err := parseRecord(key, b)
	if err == nil && !bytes.Equal(nameKey(nil, rec.Key), key) {
		v.problem("record %v can be found by the name of another one, %x", rec.Key, key)
	}
	return err
}

// record checks that a record can be found by its name, and by the index.
func (v *verifier) record(key, value []byte) error {
	num := binary.BigEndian.Uint64(key[1:])
	rec, err := parseRecord(key, value)
	if err != nil {
		return err
	}
	v.checkNumber(fmt.Sprintf("record %v", rec.Key), num)
	if rec.Version < 1 {
		v.problem("record %v has version %d", rec.Key, rec.Version)
	}
	name, err := v.get(nameKey(nil, rec.Key))
	if err != nil {
		return err
	}
	if len(name) != 8 || binary.BigEndian.Uint64(name) != num {
		v.problem("record %v, number %d, cannot be found by its name", rec.Key, num)
	}
	for _, key := range v.indexKeys(&rec, num) {
		entry, err := v.get(key)
		if err != nil {
			return err
		}
		if len(entry) != 4 || binary.BigEndian.Uint32(entry) != nameSum(rec.Name) {
			v.problem("record %v is not in the index as it is", rec.Key)
		}
	}
	for _, term := range termsOf(rec.Tags) {
		entry, err := v.get(termKey(nil, rec.Key.Kind, term, rec.Time.UnixMilli(), num))
		if err != nil {
			return err
		}
		if entry == nil {
			v.problem("record %v has a tag that is not in the index of terms", rec.Key)
		}
	}
	return nil
}

// term checks that the record of an entry of the index of terms exists, and has such a tag.
func (v *verifier) term(key, _ []byte) error {
	num := binary.BigEndian.Uint64(key[len(key)-8:])
	b, err := v.get(recordKey(nil, num))
	if err != nil {
		return err
	}
	if b == nil {
		v.problem("the index of terms has record number %d, which is not there", num)
		return nil
	}
	rec, err := parseRecord(key, b)
	if err == nil && !slices.ContainsFunc(termsOf(rec.Tags), func(term uint64) bool {
		return bytes.Equal(termKey(nil, rec.Key.Kind, term, rec.Time.UnixMilli(), num), key)
	}) {
		v.problem("the index of terms has record %v with a tag or a time that it does not have", rec.Key)
	}
	return err
}

// indexKeys returns the database keys of a record in the indexes.
func (v *verifier) indexKeys(rec *store.Record, num uint64) [][]byte {
	keys := [][]byte{indexKey(nil, rec.Key, rec.Status, rec.Time.UnixMilli(), num)}
	if isShared(rec.Key.Tenant) {
		keys = append(keys, sharedIndexKey(nil, rec.Key, rec.Status, rec.Time.UnixMilli(), num))
	}
	return keys
}

// index checks that the record of an index entry exists, with that status and time.
func (v *verifier) index(key, _ []byte) error {
	num := binary.BigEndian.Uint64(key[len(key)-8:])
	b, err := v.get(recordKey(nil, num))
	if err != nil {
		return err
	}
	if b == nil {
		v.problem("the index has record number %d, which is not there", num)
		return nil
	}
	rec, err := parseRecord(key, b)
	if err == nil && !slices.ContainsFunc(v.indexKeys(&rec, num), func(k []byte) bool { return bytes.Equal(k, key) }) {
		v.problem("the index has record %v with another status or time than it has", rec.Key)
	}
	return err
}
