package rows

import "slices"

// few is how long a list is searched as it is.
const few = 16

// known is messages of a key, found by their IDs and by their numbers.
type messageSet struct {
	list  []*messageWork
	byID  map[string]*messageWork // of a list that is long
	bySeq map[int64]*messageWork
}

// add adds a message. Of those of one ID at most the last is pending.
func (s *messageSet) add(m *messageWork) {
	s.list = append(s.list, m)
	switch {
	case s.bySeq != nil:
		s.byID[m.ID], s.bySeq[m.Seq] = m, m
	case len(s.list) > few:
		s.byID, s.bySeq = make(map[string]*messageWork, 2*few), make(map[int64]*messageWork, 2*few)
		for _, m := range s.list {
			s.byID[m.ID], s.bySeq[m.Seq] = m, m
		}
	}
}

// pending returns the pending message of an ID, or nil.
func (s *messageSet) pending(id string) *messageWork {
	if s.byID != nil {
		if m := s.byID[id]; m != nil && !m.gone {
			return m
		}
		return nil
	}
	for _, m := range s.list {
		if m.ID == id && !m.gone {
			return m
		}
	}
	return nil
}

// numbered returns the message of a number, pending or gone, or nil.
func (s *messageSet) numbered(seq int64) *messageWork {
	if s.bySeq != nil {
		return s.bySeq[seq]
	}
	for _, m := range s.list {
		if m.Seq == seq {
			return m
		}
	}
	return nil
}

// wipe makes all of them gone.
func (s *messageSet) wipe() {
	for _, m := range s.list {
		m.gone = true
	}
}

// seqSet finds numbers in a list that only grows, without going through it each time.
type seqSet struct {
	set     map[int64]bool
	indexed int // how many of the list are in the set
}

func (s *seqSet) has(list []int64, seq int64) bool {
	if len(list) <= few {
		return slices.Contains(list, seq)
	}
	if s.set == nil {
		s.set = make(map[int64]bool, len(list))
	}
	for ; s.indexed < len(list); s.indexed++ {
		s.set[list[s.indexed]] = true
	}
	return s.set[seq]
}
