package rows

import "slices"

// few is the longest list that is searched without an index.
const few = 16

// messageSet is the messages of a key within a plan, found by ID and by number. Most keys have
// one or two; a key with thousands gets an index.
type messageSet struct {
	list  []*messageWork
	byID  map[string]*messageWork // nil for a short list
	bySeq map[int64]*messageWork
}

// add adds a message. Of several with the same ID at most the last one is pending.
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

// pending returns the pending message with an ID, or nil.
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

// numbered returns the message with a number, pending or gone, or nil.
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

// wipe marks all messages gone.
func (s *messageSet) wipe() {
	for _, m := range s.list {
		m.gone = true
	}
}

// seqSet is an index of a list of numbers that only grows.
type seqSet struct {
	set     map[int64]bool
	indexed int // how many of the list are in the set
}

// has reports whether a number is in the list, which must be the one of all earlier calls, grown.
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
