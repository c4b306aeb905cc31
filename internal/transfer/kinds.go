package transfer

import (
	"encoding/json"
	"fmt"

	"github.com/abidehq/abide/store"
)

// The queues and the kinds of records that Abide has, as docs/format.md names them.
const (
	queueTurns      = "turns"
	queueControl    = "control"
	queueActivities = "activities"
	queueEntities   = "entities"
	queueLimits     = "limits"
	queueTimers     = "timers"
	queueCommands   = "commands"
	queueOutbox     = "outbox"
	queueActions    = "actions"
	queueSchedules  = "schedules"
	queueOperations = "operations"
	queueAudit      = "audit"

	kindInstance    = "instance"
	kindHeartbeat   = "heartbeat"
	kindEntity      = "entity"
	kindWorker      = "worker"
	kindTimer       = "timer"
	kindAction      = "action"
	kindActionBody  = "action.body"
	kindSchedule    = "schedule"
	kindOperation   = "operation"
	kindToken       = "token"
	kindSession     = "session"
	kindLogin       = "login"
	kindAudit       = "audit"
	kindIdempotency = "idempotency"
	kindSignature   = "signature"
	kindBuilds      = "builds"
	kindLimit       = "limit"
	kindGate        = "gate"
	kindLimitWait   = "waiting"
)

// format says whether a body is one that this release reads: it returns what is wrong
// with it, or nothing.
type format func(body []byte) string

// kinds has the format of each kind of record.
var kinds = map[string]format{
	kindInstance:         one,
	kindBuilds:           one,
	kindEntity:           one,
	kindLimit:            one,
	kindGate:             one,
	kindLimitWait:        one,
	kindHeartbeat:        anything, // the caller's
	kindWorker:           one,
	kindTimer:            one,
	kindAction:           one,
	kindActionBody:       anything, // as it arrived
	kindSchedule:         oneInJSON,
	kindOperation:        one,
	kindToken:            one,
	kindSession:          one,
	kindLogin:            one,
	kindAudit:            one,
	kindIdempotency:      anything, // it begins with the status of an answer
	kindSignature:        anything, // JSON of package catalog, without a format
	store.KindQuarantine: anything, // it has a rule of its own
	store.KindCopy:       oneInJSON,
	store.KindShards:     oneInJSON,
}

// queues has the format of the messages of each queue.
var queues = map[string]format{
	queueTurns:      one,
	queueControl:    one,
	queueActivities: one,
	queueEntities:   one,
	queueLimits:     one,
	queueTimers:     one,
	queueCommands:   anything, // as it arrived
	queueOutbox:     one,
	queueActions:    one,
	queueSchedules:  anything, // it has no body
	queueOperations: one,
	queueAudit:      anything, // it has no messages
}

func anything([]byte) string { return "" }

// one is the format of what begins with the number of its format.
func one(body []byte) string {
	switch {
	case len(body) == 0:
		return "it is empty, and should begin with its format"
	case body[0] != 1:
		return fmt.Sprintf("it has format %d, and this release reads format 1", body[0])
	}
	return ""
}

// oneInJSON is the format of what is JSON, with the number of its format in it.
func oneInJSON(body []byte) string {
	var b struct {
		Format int `json:"format"`
	}
	if err := json.Unmarshal(body, &b); err != nil {
		return fmt.Sprintf("it is not JSON: %v", err)
	}
	if b.Format != 1 {
		return fmt.Sprintf("it has format %d, and this release reads format 1", b.Format)
	}
	return ""
}
