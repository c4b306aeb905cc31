package redisstore

import (
	"context"
	"fmt"
	"slices"
)

var (
	verifyScript = newScript("verify", false, true, "head", "verify")
	sizesScript  = newScript("verify", false, true, "head", "sizes")
)

// Verify checks everything that the store holds for consistency, and reports each problem. It
// reads in many scripts, so a store that changes meanwhile may show problems that it does
// not have: it is meant for a store that is held exclusively.
func (s *Store) Verify(ctx context.Context, report func(problem string)) error {
	done, err := s.begin(ctx, "verify")
	if err != nil {
		return err
	}
	defer done()
	for _, seg := range s.segments {
		if err := s.verifySegment(ctx, seg, report); err != nil {
			return err
		}
	}
	return nil
}

func (s *Store) verifySegment(ctx context.Context, seg *segment, report func(problem string)) error {
	v := verifier{store: s, segment: seg, report: report, names: map[byte][]string{}}
	err := s.scan(ctx, seg, "*", func(name string) {
		if name != "" {
			v.names[name[0]] = append(v.names[name[0]], name[1:])
		}
	})
	if err != nil {
		return err
	}
	for letter, list := range v.names {
		slices.Sort(list)
		v.names[letter] = slices.Compact(list) // a scan may name something twice
	}
	return v.run(ctx)
}

// verifier verifies a segment.
type verifier struct {
	store   *Store
	segment *segment
	report  func(problem string)
	names   map[byte][]string // of what is stored, by their first letter

	messages, bodies, leases, expiries, partitions int64
}

func (v *verifier) run(ctx context.Context) error {
	for what, letter := range map[string]byte{"key": 'k', "partition": 'z', "record": 'r'} {
		if err := v.check(ctx, what, v.names[letter]); err != nil {
			return err
		}
	}
	for what, letter := range map[string]byte{"log": 'e', "order of messages": 'o', "messages": 'n'} {
		for _, id := range v.names[letter] {
			if _, found := slices.BinarySearch(v.names['k'], id); !found {
				v.problem("key", id, "of its "+what+" there is something, and the key is not there")
			}
		}
	}
	v.places()
	return v.sums(ctx)
}

// places checks that keys and records are in the segment of their tenant.
func (v *verifier) places() {
	for _, id := range v.names['k'] {
		if k, err := parseKey(id); err == nil && v.store.segmentOf(k.Tenant) != v.segment {
			v.problem("key", id, fmt.Sprintf("it is in segment %d, which is not that of its tenant", v.segment.index))
		}
	}
	for _, id := range v.names['r'] {
		if k, err := parseRecordKey(id); err == nil && v.store.segmentOf(k.Tenant) != v.segment {
			v.problem("record", id, fmt.Sprintf("it is in segment %d, which is not that of its tenant", v.segment.index))
		}
	}
}

// check verifies items of one kind, a hundred in a script, and adds up what they say must
// exist elsewhere, for sums.
func (v *verifier) check(ctx context.Context, what string, ids []string) error {
	for some := range slices.Chunk(ids, 100) {
		a := args{what}
		a.names(some)
		m, err := v.store.eval(ctx, v.segment, verifyScript, a)
		if err != nil {
			return err
		}
		answer := read(m)
		for problems := answer.sub(); problems.more(); {
			id := problems.text()
			v.problem(what, id, problems.text())
		}
		v.messages += answer.num()
		v.bodies += answer.num()
		v.leases += answer.num()
		v.expiries += answer.num()
		v.partitions += answer.num()
		if answer.err != nil {
			return fmt.Errorf("redisstore: verify: %w", answer.err)
		}
	}
	return nil
}

func (v *verifier) problem(what, id, text string) {
	shown := fmt.Sprintf("%q", id)
	switch what {
	case "key":
		if k, err := parseKey(id); err == nil {
			shown = k.String()
		}
	case "record":
		if k, err := parseRecordKey(id); err == nil {
			shown = k.String()
		}
	case "partition":
		if queue, route, err := parsePartition(id); err == nil {
			shown = fmt.Sprintf("%q of queue %q", route, queue)
		}
	}
	v.report(fmt.Sprintf("%s %s: %s", what, shown, text))
}

// sums compares the sizes of indexes and sets with what the keys and records add up to. That
// finds members that no key accounts for, which check cannot see.
func (v *verifier) sums(ctx context.Context) error {
	members := func(letter string) (names []string) {
		for _, name := range v.names[letter[0]] {
			names = append(names, letter+name)
		}
		return names
	}
	for _, sum := range []struct {
		what    string
		command string
		names   []string
		want    int64
	}{
		{"bodies of messages", "HLEN", []string{"b"}, v.bodies},
		{"messages that are counted for a route", "ZCARD", members("v"), v.messages},
		{"leases that are to end", "ZCARD", []string{"l"}, v.leases},
		{"messages that are to expire", "ZCARD", []string{"x"}, v.expiries},
		{"keys to claim", "ZCARD", members("z"), v.partitions},
		{"records in the lists of all tenants", "ZCARD", members("j"), int64(len(v.names['r']))},
		{"records in the lists of a tenant", "ZCARD", members("i"), int64(len(v.names['r']))},
	} {
		n, err := v.size(ctx, sum.command, sum.names)
		if err != nil {
			return err
		}
		if n != sum.want {
			v.report(fmt.Sprintf("there are %d %s, and should be %d", n, sum.what, sum.want))
		}
	}
	return nil
}

func (v *verifier) size(ctx context.Context, command string, names []string) (n int64, err error) {
	for some := range slices.Chunk(names, 1000) {
		a := args{itoa(int64(len(some)))}
		for _, name := range some {
			a.add(command, name)
		}
		m, err := v.store.eval(ctx, v.segment, sizesScript, a)
		if err != nil {
			return 0, err
		}
		answer := read(m)
		for answer.more() {
			n += answer.num()
		}
		if answer.err != nil {
			return 0, fmt.Errorf("redisstore: verify: %w", answer.err)
		}
	}
	return n, nil
}
