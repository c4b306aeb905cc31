package vet

// summary says which units do something of one category, themselves or through
// what they call.
type summary struct {
	category Category
	own      map[*unit]*offence
	next     map[*unit]*unit // the call to follow to get there
}

// order is that in which categories are looked at, so that the same package gives
// the same facts each time.
var order = []Category{Clock, Random, MapOrder, Concurrency, Lock, IO, Environment, Global, Pointer}

// summarize goes from what the units do themselves against the calls, breadth
// first, so that each unit gets the shortest way to it.
func (p *program) summarize() []*summary {
	callers := map[*unit][]*unit{}
	for _, u := range p.units {
		for _, callee := range u.calls {
			callers[callee] = append(callers[callee], u)
		}
	}
	var all []*summary
	for _, c := range order {
		s := &summary{category: c, own: map[*unit]*offence{}, next: map[*unit]*unit{}}
		var queue []*unit
		for _, u := range p.units {
			if o := u.first(c); o != nil {
				s.own[u] = o
				queue = append(queue, u)
			}
		}
		for len(queue) > 0 {
			u := queue[0]
			queue = queue[1:]
			for _, caller := range callers[u] {
				if s.own[caller] == nil && s.next[caller] == nil {
					s.next[caller] = u
					queue = append(queue, caller)
				}
			}
		}
		all = append(all, s)
	}
	return all
}

// first returns the first offence of a category in the unit itself.
func (u *unit) first(c Category) *offence {
	for _, o := range u.offences {
		if o.category == c {
			return o
		}
	}
	return nil
}

// cause returns what a unit does of the category, with the chain that leads there
// from the unit, which is not a part of it.
func (s *summary) cause(u *unit) (cause, bool) {
	var chain []string
	for s.own[u] == nil {
		u = s.next[u]
		if u == nil {
			return cause{}, false
		}
		if u.fn != nil {
			chain = append(chain, objectName(u.fn))
		}
	}
	o := s.own[u]
	return cause{Category: s.category, Text: o.text, Chain: append(chain, o.chain...)}, true
}
