package rows

import (
	"bytes"
	"maps"
	"slices"

	"github.com/abidehq/abide/store"
)

// copyTx returns a deep copy of a Tx. A caller whose context ends may reuse its slices at once,
// while the group still reads them. The bodies of the copy belong to the core, so that a
// hand-off passes them on to a claim without another copy.
func copyTx(tx *store.Tx) *store.Tx {
	c := &store.Tx{
		Finish:        slices.Clone(tx.Finish),
		DeleteKeys:    slices.Clone(tx.DeleteKeys),
		Trim:          slices.Clone(tx.Trim),
		Append:        slices.Clone(tx.Append),
		Put:           slices.Clone(tx.Put),
		Retime:        slices.Clone(tx.Retime),
		Delete:        slices.Clone(tx.Delete),
		PutRecords:    slices.Clone(tx.PutRecords),
		DeleteRecords: slices.Clone(tx.DeleteRecords),
	}
	for i := range c.Finish {
		c.Finish[i].Keep = slices.Clone(c.Finish[i].Keep)
	}
	for i := range c.Append {
		entries := slices.Clone(c.Append[i].Entries)
		for j := range entries {
			entries[j] = bytes.Clone(entries[j])
		}
		c.Append[i].Entries = entries
	}
	for i := range c.Put {
		c.Put[i].Body = bytes.Clone(c.Put[i].Body)
	}
	for i := range c.PutRecords {
		c.PutRecords[i].Record = copyRecord(&c.PutRecords[i].Record)
	}
	return c
}

// copyRecord returns a deep copy of a record.
func copyRecord(r *store.Record) store.Record {
	c := *r
	c.Tags, c.Body = maps.Clone(r.Tags), bytes.Clone(r.Body)
	return c
}
