package action

import (
	"encoding/json"
	"fmt"
	"strconv"
	"strings"

	"github.com/abidehq/abide/internal/roster"
	"github.com/abidehq/abide/store"
)

// Names in the store.
const (
	kindSchedule  = roster.KindSchedule // of the records of schedules
	queueSchedule = "schedules"         // of messages
	routeSchedule = "schedule"          // that all of them have
)

// IDs of messages to a schedule begin with what they say.
const (
	sayNext  = "next-"  // the next run is due; then the version with which the message was put
	sayEnded = "ended-" // an action has ended; then its ID
)

func scheduleKey(tenant, id string) store.RecordKey {
	return store.RecordKey{Kind: kindSchedule, Tenant: tenant, ID: id}
}

// scheduleBody is the body of a schedule's record: JSON, so that a person can read it.
type scheduleBody struct {
	Format int `json:"format"`
	*Schedule
}

// scheduleFormat is the format that this version reads and writes.
const scheduleFormat = 1

// record returns the schedule as a record.
func (s *Schedule) record() (store.Record, error) {
	body, err := json.Marshal(scheduleBody{scheduleFormat, s})
	if err != nil {
		return store.Record{}, fmt.Errorf("action: schedule %s/%s: %w", s.Tenant, s.ID, err)
	}
	at := s.Next
	if at.IsZero() {
		at = s.UpdatedAt
	}
	return store.Record{
		Key: scheduleKey(s.Tenant, s.ID), Status: string(s.Status), Name: s.Slug, Time: at, Body: body,
	}, nil
}

func parseSchedule(rec store.Record) (Schedule, error) {
	var s Schedule
	b := scheduleBody{Schedule: &s}
	err := json.Unmarshal(rec.Body, &b)
	if err == nil && b.Format != scheduleFormat {
		err = fmt.Errorf("format %d, this version knows %d", b.Format, scheduleFormat)
	}
	if err != nil {
		return Schedule{}, fmt.Errorf("action: record %v: %w: %w", rec.Key, err, store.ErrCorrupt)
	}
	s.Tenant, s.ID, s.Version = rec.Key.Tenant, rec.Key.ID, rec.Version
	return s, nil
}

// toMessage returns what wakes the schedule when its next run is due.
func (s *Schedule) toMessage() store.Message {
	ref := s.messageRef()
	return store.Message{Key: ref.Key, ID: ref.ID, Route: routeSchedule, VisibleAt: s.Next.Add(s.NextJitter)}
}

// messageRef names the message that wakes the schedule: each change replaces it.
func (s *Schedule) messageRef() store.MessageRef {
	return store.MessageRef{
		Key: store.Key{Queue: queueSchedule, Tenant: s.Tenant, Name: s.ID},
		ID:  sayNext + strconv.FormatInt(s.Version, 36),
	}
}

// tellSchedule returns the message that tells the schedule of an action that it has ended,
// if the schedule wants to know.
func (a *Action) tellSchedule() []store.Message {
	if !a.tells {
		return nil
	}
	return []store.Message{{
		Key:   store.Key{Queue: queueSchedule, Tenant: a.Tenant, Name: a.Schedule},
		ID:    sayEnded + a.ID,
		Route: routeSchedule,
	}}
}

// endedAction returns the ID of the action that a message says has ended, or nothing.
func endedAction(m *store.Message) string {
	id, ok := strings.CutPrefix(m.ID, sayEnded)
	if !ok {
		return ""
	}
	return id
}
