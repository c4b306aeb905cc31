package transfer

import (
	"fmt"
	"hash/maphash"
	"strconv"
	"strings"

	"github.com/abidehq/abide/internal/wire"
	"github.com/abidehq/abide/store"
)

// Work under a limit is at one place at a time, and moves between them by messages: a message that enters a gate, a
// record of what waits there, a task or an instance that was admitted. What is not at the place where a rule looks may
// be in a message that a later parcel holds. So the rules of limits note a suspect, and endOfLimits reports it if no
// such message has come. A gate that holds nothing and at which nothing waits keeps all rules.

// Rules of limits that are looked at again when everything was read.
const (
	ruleUnitHeld     = "every unit of a limit is held by work that has not ended"
	ruleWaitsWanted  = "everything that waits for a limit has its instance"
	ruleEntersWanted = "every message by which work enters a limit has its instance"
	ruleStartAtGate  = "every start that waits for a limit is at a gate"
)

// How the IDs of messages to gates and the names of work begin, and the route of starts that wait.
const (
	prefixEnter    = "e/"
	prefixLeave    = "l/"
	prefixWithdraw = "w/"
	prefixTask     = "a/"
	prefixInstance = "i/"
	routeLimited   = ".limited"
)

// suspect is a problem, unless one of what excuses it was entered.
type suspect struct {
	Problem
	excuses []uint64
}

// entry is something that excuses a suspect: a message to any gate, a message that leaves a gate, or the start of an
// instance that waits.
type entry struct{ tenant, gate, what string }

func (c *checker) enter(e entry) { c.entered[c.hash(e)] = struct{}{} }

func (c *checker) hash(e entry) uint64 { return maphash.Comparable(c.seed, e) }

func (c *checker) suspect(rule, found string, excuses ...entry) {
	s := suspect{Problem: Problem{rule, found}}
	for _, e := range excuses {
		s.excuses = append(s.excuses, c.hash(e))
	}
	c.suspects = append(c.suspects, s)
}

// endOfLimits reports the suspects that nothing excuses.
func (c *checker) endOfLimits() {
suspects:
	for i := range c.suspects {
		for _, e := range c.suspects[i].excuses {
			if _, ok := c.entered[e]; ok {
				continue suspects
			}
		}
		c.Report(c.suspects[i].Problem)
	}
}

// gateUnit is a unit that work holds.
type gateUnit struct {
	work      string
	entry     int
	withdrawn bool
}

// gateBody is what the rules need of the record of a gate.
type gateBody struct {
	units   []gateUnit
	waiting int
}

// readGate decodes the record of a gate, or says what is wrong with it.
func readGate(r *store.Record) (g gateBody, wrong string) {
	if one(r.Body) != "" {
		return g, "" // another rule says so
	}
	body := wire.Reader{Data: r.Body[1:]}
	for body.Err == nil && len(body.Data) > 0 {
		number, field := body.Number(), wire.Reader{Data: body.Bytes()}
		switch number {
		case 2:
			u := gateUnit{work: field.String(), entry: int(field.Int32())}
			field.Time() // when it was admitted
			u.withdrawn = !field.Time().IsZero()
			g.units = append(g.units, u)
		case 3:
			g.waiting = int(field.Number())
		}
		if field.Err != nil {
			body.Fail(field.Err.Error())
		}
	}
	if body.Err != nil {
		wrong = fmt.Sprintf("gate %v cannot be read: %v", r.Key, body.Err)
	}
	return g, wrong
}

// unitsAreHeld: a unit whose work is gone is free only after two audits of the gate, and if something waits there. A
// unit of work that was withdrawn while it ran is free when its lease ends.
func unitsAreHeld(c *checker, r *store.Record) (string, error) {
	g, wrong := readGate(r)
	if wrong != "" {
		return wrong, nil
	}
	for _, u := range g.units {
		if u.withdrawn {
			continue
		}
		there, err := c.works(r.Key.Tenant, u.work)
		if err != nil {
			return "", err
		}
		if !there {
			tenant := r.Key.Tenant
			c.suspect(ruleUnitHeld, fmt.Sprintf("gate %v has a unit that %s holds, which is not there", r.Key, u.work),
				entry{tenant, r.Key.ID, prefixLeave + u.work + "/" + strconv.Itoa(u.entry)},
				entry{tenant, "", prefixEnter + u.work}, entry{tenant, "", prefixWithdraw + u.work})
		}
	}
	return "", nil
}

// works reports whether work that was admitted by a gate is there: its task is, or its instance has not ended, or it
// waits at another gate.
func (c *checker) works(tenant, work string) (bool, error) {
	if task, ok := strings.CutPrefix(work, prefixTask); ok {
		there, err := c.has(store.Key{Queue: queueActivities, Tenant: tenant, Name: task}, func(string) bool { return true })
		if there || err != nil {
			return there, err
		}
	} else if r, err := c.record(kindInstance, tenant, instanceOf(work)); err != nil || r == nil || ended(r) {
		return false, err
	} else {
		return true, nil
	}
	r, err := c.record(kindLimitWait, tenant, work)
	return r != nil, err
}

// instanceOf returns the ID of the instance that the name of its work has behind a run.
func instanceOf(work string) string {
	_, id, _ := strings.Cut(strings.TrimPrefix(work, prefixInstance), "/")
	return id
}

// gateCounts: a gate at which more waits than it counts does not admit the rest.
func gateCounts(c *checker, r *store.Record) (string, error) {
	g, wrong := readGate(r)
	if wrong != "" {
		return "", nil // another rule says so
	}
	n, err := c.Store.Count(c.ctx, store.Query{Kind: kindLimitWait, Tenant: &r.Key.Tenant, Statuses: []string{r.Key.ID}}, store.MaxCount)
	switch {
	case err != nil:
		return "", err
	case n != g.waiting && (n < store.MaxCount || g.waiting < n):
		return fmt.Sprintf("gate %v counts %d that wait, and there are %d", r.Key, g.waiting, n), nil
	case (g.waiting > 0) != (r.Status == "waiting"):
		return fmt.Sprintf("gate %v counts %d that wait, and its status is %q", r.Key, g.waiting, r.Status), nil
	}
	return "", nil
}

// gateLooks: without a message a gate does not admit when its rate allows it, nor finds units whose work is gone.
func gateLooks(c *checker, r *store.Record) (string, error) {
	if g, _ := readGate(r); g.waiting == 0 {
		return "", nil
	}
	ok, err := c.has(store.Key{Queue: queueLimits, Tenant: r.Key.Tenant, Name: r.Key.ID}, func(string) bool { return true })
	if ok || err != nil {
		return "", err
	}
	return fmt.Sprintf("work waits at gate %v, and it has no message", r.Key), nil
}

// gateMessage is what the rules need of a message to a gate.
type gateMessage struct {
	enters   bool
	work     string
	instance string // that is under the limit, or that the activity is of
}

// readGateMessage decodes a message to a gate, or says what is wrong with it.
func readGateMessage(data []byte) (m gateMessage, wrong string) {
	if one(data) != "" {
		return m, "" // another rule says so
	}
	body := wire.Reader{Data: data[1:]}
	m.enters = body.Number() == 1
	m.work = body.String()
	body.Bytes() // limits
	for range 2 {
		body.Number() // which of them, and the entry
	}
	body.Flag()
	body.Time()   // since when it waits
	body.Time()   // when its rules were declared
	body.Number() // priority
	for range 4 {
		body.Bytes() // queue, key, ID and route of the message that is put
	}
	task := wire.Reader{Data: body.Bytes()}
	if body.Err != nil {
		return m, body.Err.Error()
	}
	if !m.enters {
		return m, ""
	}
	if strings.HasPrefix(m.work, prefixInstance) {
		m.instance = instanceOf(m.work)
		return m, ""
	}
	task.Format(1)
	if m.instance = task.String(); task.Err != nil {
		return m, task.Err.Error()
	}
	return m, ""
}

// enteringIsWanted: work whose instance is gone takes a unit that nobody gives back.
func enteringIsWanted(c *checker, m *store.Message) (string, error) {
	tenant := m.Key.Tenant
	if strings.HasPrefix(m.ID, prefixLeave) {
		c.enter(entry{tenant, m.Key.Name, m.ID})
	} else {
		c.enter(entry{tenant, "", m.ID})
	}
	g, wrong := readGateMessage(m.Body)
	if wrong != "" {
		return fmt.Sprintf("message %v cannot be read: %s", m.Ref(), wrong), nil
	}
	if !g.enters {
		return "", nil
	}
	return "", c.wanted(ruleEntersWanted, "message "+m.Ref().String(), tenant, &g)
}

// waitingIsWanted: work whose instance is gone waits before others for nothing.
func waitingIsWanted(c *checker, r *store.Record) (string, error) {
	g, wrong := readGateMessage(r.Body)
	if wrong == "" && one(r.Body) == "" && (!g.enters || g.work != r.Key.ID) {
		wrong = fmt.Sprintf("it is of %q", g.work)
	}
	if wrong != "" {
		return fmt.Sprintf("record %v cannot be read: %s", r.Key, wrong), nil
	}
	if one(r.Body) != "" {
		return "", nil // another rule says so
	}
	return "", c.wanted(ruleWaitsWanted, "record "+r.Key.String(), r.Key.Tenant, &g)
}

// wanted suspects work whose instance is gone, or has ended, unless it is withdrawn. A start that waits is noted.
func (c *checker) wanted(rule, what, tenant string, g *gateMessage) error {
	r, err := c.record(kindInstance, tenant, g.instance)
	if err != nil {
		return err
	}
	start := strings.HasPrefix(g.work, prefixInstance)
	if start {
		c.enter(entry{tenant, "", prefixInstance + g.instance})
	}
	withdrawn := entry{tenant, "", prefixWithdraw + g.work}
	switch {
	case r == nil:
		c.suspect(rule, fmt.Sprintf("%s is of instance %q, which is not there", what, g.instance), withdrawn)
	case start && ended(r):
		c.suspect(rule, fmt.Sprintf("%s is of instance %q, which is %s", what, g.instance, r.Status), withdrawn)
	}
	return nil
}

// waitingHasGate: nothing is admitted by a gate that knows of nothing.
func waitingHasGate(c *checker, r *store.Record) (string, error) {
	gate, err := c.record(kindGate, r.Key.Tenant, r.Status)
	if gate != nil || err != nil {
		return "", err
	}
	return fmt.Sprintf("record %v waits at gate %q, which has no record", r.Key, r.Status), nil
}

// startIsAtGate: a start that waits for a limit and is at no gate is never admitted.
func startIsAtGate(c *checker, h *store.KeyHead) (string, error) {
	if h.Route != routeLimited {
		return "", nil
	}
	admitted, err := c.has(store.Key{Queue: queueControl, Tenant: h.Key.Tenant, Name: h.Key.Name}, func(string) bool { return true })
	if admitted || err != nil {
		return "", err
	}
	c.suspect(ruleStartAtGate, fmt.Sprintf("%v waits for a limit, and is at no gate", h.Key), entry{h.Key.Tenant, "", prefixInstance + h.Key.Name})
	return "", nil
}
