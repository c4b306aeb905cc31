package store

import "fmt"

// Limits are what one commit, and one value in it, may hold on a store. It refuses what exceeds
// them with an error that matches [ErrTooLarge] and names the limit, as [Tx.ValidateWithin] does,
// and the suite tests it at these.
type Limits struct {
	// TxOps and TxBytes are those of a [Tx], as [MaxTxOps] and [MaxTxBytes] count.
	TxOps   int
	TxBytes int

	// Body is the largest length of a message's body and of a log's entry, and Record that of a
	// record's body, in bytes. Record is large enough for a quarantined message of any size.
	Body   int
	Record int
}

// ContractLimits returns the most that any store takes.
func ContractLimits() Limits {
	return Limits{TxOps: MaxTxOps, TxBytes: MaxTxBytes, Body: MaxBody, Record: MaxRecord}
}

// LeastLimits returns the limits that a store must not be below. A turn takes up to
// [DefaultMessages] messages of [PageBytes] and appends them in one commit, and a bulk start makes
// a thousand instances in one; a payload has up to 2 MiB.
func LeastLimits() Limits {
	return Limits{TxOps: 8_000, TxBytes: 40 << 20, Body: 2<<20 + 128<<10, Record: 4<<20 + 256<<10}
}

// OrContract returns the limits with those of the contract where there is none, or a greater one.
func (l Limits) OrContract() Limits {
	most := ContractLimits()
	return Limits{
		TxOps: lower(l.TxOps, most.TxOps), TxBytes: lower(l.TxBytes, most.TxBytes),
		Body: lower(l.Body, most.Body), Record: lower(l.Record, most.Record),
	}
}

// lower returns a declared limit, or that of the contract if it is lower, or none is declared.
func lower(declared, contract int) int {
	if declared <= 0 {
		return contract
	}
	return min(declared, contract)
}

// Check returns an error that matches [ErrInvalid] and names the limit if one of them is below
// [LeastLimits].
func (l Limits) Check() error {
	least := LeastLimits()
	for _, c := range []struct {
		what        string
		have, needs int
	}{
		{"things in a commit", l.TxOps, least.TxOps},
		{"bytes in a commit", l.TxBytes, least.TxBytes},
		{"bytes in the body of a message", l.Body, least.Body},
		{"bytes in the body of a record", l.Record, least.Record},
	} {
		if c.have < c.needs {
			return fmt.Errorf("store: it takes %d %s, and %d are needed at least: %w", c.have, c.what, c.needs, ErrInvalid)
		}
	}
	return nil
}

// ValidateWithin is [Tx.Validate] for a store with these limits.
func (tx *Tx) ValidateWithin(l Limits) error {
	ops, bytes, err := tx.Size()
	switch {
	case err != nil:
		return err
	case ops > l.TxOps:
		return tooLarge("commit", "number of operations", ops, l.TxOps)
	case bytes > l.TxBytes:
		return tooLarge("commit", "size in bytes", bytes, l.TxBytes)
	case l.Body >= MaxBody && l.Record >= MaxRecord:
		return nil
	}
	for i := range tx.Append {
		for _, e := range tx.Append[i].Entries {
			if len(e) > l.Body {
				return tooLarge("commit", fmt.Sprintf("size of an entry for %v", tx.Append[i].Key), len(e), l.Body)
			}
		}
	}
	for i := range tx.Put {
		if m := &tx.Put[i]; len(m.Body) > l.Body {
			return tooLarge("commit", fmt.Sprintf("body of message %v", m.Ref()), len(m.Body), l.Body)
		}
	}
	for i := range tx.PutRecords {
		if r := &tx.PutRecords[i].Record; len(r.Body) > l.Record {
			return tooLarge("commit", fmt.Sprintf("body of record %v", r.Key), len(r.Body), l.Record)
		}
	}
	return nil
}
