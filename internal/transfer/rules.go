package transfer

import (
	"fmt"
	"slices"
	"strconv"
	"strings"

	"github.com/abidehq/abide/internal/wire"
	"github.com/abidehq/abide/store"
)

// rule is something that holds in each store that Abide works on, between what belongs
// together: a sentence that says it, which queue or kind it is on, and what looks whether
// it holds. That returns what was found instead, or nothing.
type rule[T any] struct {
	sentence string
	on       string
	check    func(c *checker, thing *T) (found string, err error)
}

var headRules = []rule[store.KeyHead]{
	{"every history has the record of its instance", queueTurns, historyHasRecord},
	{"every audit log has its record", queueAudit, auditLogHasRecord},
	{ruleStartAtGate, queueTurns, startIsAtGate},
}

var messageRules = []rule[store.Message]{
	{"every task has the instance that asked for it", queueActivities, taskHasInstance},
	{"every message that fires a timer has the timer, armed", queueTimers, messageHasTimer},
	{"every message that runs an action has the action, which has not ended", queueActions, messageHasAction},
	{"every message to an operation has the operation", queueOperations, messageHasOperation},
	{ruleEntersWanted, queueLimits, enteringIsWanted},
}

var recordRules = []rule[store.Record]{
	{"every instance that has not ended has a history, or a message that starts it", kindInstance, instanceGoesOn},
	{"every armed timer has the message that fires it", kindTimer, timerFires},
	{"every action that has not ended has the message that runs it", kindAction, actionRuns},
	{"every body of a webhook that is kept has its action", kindActionBody, bodyHasAction},
	{"every active schedule has the message for its next run", kindSchedule, scheduleGoesOn},
	{"every operation has the message that goes on with it, or removes it", kindOperation, operationGoesOn},
	{"every record of an audit log has the log", kindAudit, auditRecordHasLog},
	{ruleUnitHeld, kindGate, unitsAreHeld},
	{"every gate of a limit counts what waits at it", kindGate, gateCounts},
	{"every gate of a limit at which work waits has a message to look", kindGate, gateLooks},
	{ruleWaitsWanted, kindLimitWait, waitingIsWanted},
	{"everything that waits for a limit has the record of its gate", kindLimitWait, waitingHasGate},
	{"every message in quarantine can be read", store.KindQuarantine, quarantinedIsReadable},
	{"the store is not the target of an unfinished copy", store.KindCopy, copyIsFinished},
}

// historyHasRecord: a history without its record belongs to nobody, and is never deleted.
func historyHasRecord(c *checker, h *store.KeyHead) (string, error) {
	if h.LogLength == 0 {
		return "", nil
	}
	r, err := c.record(kindInstance, h.Key.Tenant, h.Key.Name)
	if r != nil || err != nil {
		return "", err
	}
	return fmt.Sprintf("%v has a history of %d events, and no record", h.Key, h.LogLength), nil
}

// ended reports whether the instance of a record has ended.
func ended(r *store.Record) bool {
	return slices.Contains([]string{"completed", "failed", "cancelled", "terminated", "continued"}, r.Status)
}

// instanceGoesOn: an instance with neither a history nor a message waits for ever.
func instanceGoesOn(c *checker, r *store.Record) (string, error) {
	if ended(r) {
		return "", nil
	}
	key := store.Key{Queue: queueTurns, Tenant: r.Key.Tenant, Name: r.Key.ID}
	n, err := c.logLength(key)
	if n > 0 || err != nil {
		return "", err
	}
	ok, err := c.has(key, func(string) bool { return true })
	if ok || err != nil {
		return "", err
	}
	return fmt.Sprintf("instance %v is %s, and has neither a history nor a message", r.Key, r.Status), nil
}

// taskHasInstance: nobody waits for the result of a task without its instance.
func taskHasInstance(c *checker, m *store.Message) (string, error) {
	if one(m.Body) != "" {
		return "", nil // another rule says so
	}
	body := wire.Reader{Data: m.Body[1:]}
	instance := body.String()
	if body.Err != nil {
		return fmt.Sprintf("message %v cannot be read: %v", m.Ref(), body.Err), nil //nolint:nilerr // that is what was found
	}
	r, err := c.record(kindInstance, m.Key.Tenant, instance)
	if r != nil || err != nil {
		return "", err
	}
	return fmt.Sprintf("message %v is for instance %q, which is not there", m.Ref(), instance), nil
}

// timerFires: an armed timer without its message never fires. Its message is named by the
// version of the record.
func timerFires(c *checker, r *store.Record) (string, error) {
	if r.Status != "armed" {
		return "", nil
	}
	version := strconv.FormatInt(r.Version, 36)
	key := store.Key{Queue: queueTimers, Tenant: r.Key.Tenant, Name: r.Key.ID}
	ok, err := c.has(key, func(id string) bool { return versionOf(id) == version })
	if ok || err != nil {
		return "", err
	}
	return fmt.Sprintf("timer %v is armed with version %d, and no message is there to fire it", r.Key, r.Version), nil
}

// messageHasTimer: a message without its timer fires nothing.
func messageHasTimer(c *checker, m *store.Message) (string, error) {
	r, err := c.record(kindTimer, m.Key.Tenant, m.Key.Name)
	switch {
	case err != nil:
		return "", err
	case r == nil:
		return fmt.Sprintf("message %v is of a timer that is not there", m.Ref()), nil
	case r.Status != "armed" || versionOf(m.ID) != strconv.FormatInt(r.Version, 36):
		return fmt.Sprintf("message %v is of a timer that is %s, with version %d", m.Ref(), r.Status, r.Version), nil
	}
	return "", nil
}

// versionOf returns the version that the message of a timer is named by.
func versionOf(id string) string {
	version, _, _ := strings.Cut(id, ".")
	return version
}

// actionRuns: an action that is pending or runs, and has no message, is never run, nor
// found out when its process has died.
func actionRuns(c *checker, r *store.Record) (string, error) {
	if r.Status != "pending" && r.Status != "running" {
		return "", nil
	}
	if one(r.Body) != "" {
		return "", nil // another rule says so
	}
	body := wire.Reader{Data: r.Body[1:]}
	message := strconv.FormatUint(body.Number(), 36)
	if body.Err != nil {
		return fmt.Sprintf("action %v cannot be read: %v", r.Key, body.Err), nil //nolint:nilerr // that is what was found
	}
	ok, err := c.has(store.Key{Queue: queueActions, Tenant: r.Key.Tenant, Name: r.Key.ID}, func(id string) bool { return id == message })
	if ok || err != nil {
		return "", err
	}
	return fmt.Sprintf("action %v is %s, and its message %q is not there", r.Key, r.Status, message), nil
}

// messageHasAction: a message without its action runs nothing.
func messageHasAction(c *checker, m *store.Message) (string, error) {
	r, err := c.record(kindAction, m.Key.Tenant, m.Key.Name)
	switch {
	case err != nil:
		return "", err
	case r == nil:
		return fmt.Sprintf("message %v is of an action that is not there", m.Ref()), nil
	case r.Status != "pending" && r.Status != "running":
		return fmt.Sprintf("message %v is of an action that is %s", m.Ref(), r.Status), nil
	}
	return "", nil
}

// bodyHasAction: a body is only kept for its action.
func bodyHasAction(c *checker, r *store.Record) (string, error) {
	action, err := c.record(kindAction, r.Key.Tenant, r.Key.ID)
	if action != nil || err != nil {
		return "", err
	}
	return fmt.Sprintf("record %v is the body of an action that is not there", r.Key), nil
}

// scheduleGoesOn: an active schedule without its message has had its last run.
func scheduleGoesOn(c *checker, r *store.Record) (string, error) {
	if r.Status != "active" {
		return "", nil
	}
	next := "next-" + strconv.FormatInt(r.Version, 36)
	ok, err := c.has(store.Key{Queue: queueSchedules, Tenant: r.Key.Tenant, Name: r.Key.ID}, func(id string) bool { return id == next })
	if ok || err != nil {
		return "", err
	}
	return fmt.Sprintf("schedule %v is active, and its message %q is not there", r.Key, next), nil
}

// operationGoesOn: an operation without its message is neither gone on with nor removed.
func operationGoesOn(c *checker, r *store.Record) (string, error) {
	ok, err := c.has(store.Key{Queue: queueOperations, Tenant: r.Key.Tenant, Name: r.Key.ID}, func(id string) bool { return id == "run" || id == "remove" })
	if ok || err != nil {
		return "", err
	}
	return fmt.Sprintf("operation %v is %s, and no message is there to go on with it", r.Key, r.Status), nil
}

// messageHasOperation: a message without its operation is about nothing.
func messageHasOperation(c *checker, m *store.Message) (string, error) {
	r, err := c.record(kindOperation, m.Key.Tenant, m.Key.Name)
	if r != nil || err != nil {
		return "", err
	}
	return fmt.Sprintf("message %v is of an operation that is not there", m.Ref()), nil
}

// auditLogHasRecord: a log that no record names is never found by who reads the audit.
func auditLogHasRecord(c *checker, h *store.KeyHead) (string, error) {
	r, err := c.record(kindAudit, h.Key.Tenant, h.Key.Name)
	if r != nil || err != nil || h.LogLength == 0 {
		return "", err
	}
	return fmt.Sprintf("%v has %d entries, and no record", h.Key, h.LogLength), nil
}

// auditRecordHasLog: a record says how many entries its log has.
func auditRecordHasLog(c *checker, r *store.Record) (string, error) {
	if one(r.Body) != "" {
		return "", nil // another rule says so
	}
	body := wire.Reader{Data: r.Body[1:]}
	body.Time()
	count := int(body.Number())
	if body.Err != nil {
		return fmt.Sprintf("record %v cannot be read: %v", r.Key, body.Err), nil //nolint:nilerr // that is what was found
	}
	n, err := c.logLength(store.Key{Queue: queueAudit, Tenant: r.Key.Tenant, Name: r.Key.ID})
	if n == count || err != nil {
		return "", err
	}
	return fmt.Sprintf("record %v says that its log has %d entries, and it has %d", r.Key, count, n), nil
}

// quarantinedIsReadable: what cannot be read cannot be redriven.
func quarantinedIsReadable(_ *checker, r *store.Record) (string, error) {
	if _, err := store.Quarantined(*r); err != nil {
		return err.Error(), nil //nolint:nilerr // that is what was found
	}
	return "", nil
}

// copyIsFinished: a part of the truth is none.
func copyIsFinished(*checker, *store.Record) (string, error) {
	return "a copy into it was begun and is not finished", nil
}
