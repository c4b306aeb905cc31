package action

import (
	"encoding/json"
	"fmt"
	"strconv"
	"strings"
	"time"

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

// scheduleBody is the body of a schedule's record: JSON, so that an operator can read it in the
// database. Its names are part of the format, and do not change with those of [Schedule].
type scheduleBody struct {
	Format int `json:"format"`
	planBody

	Status     ScheduleStatus `json:"status"`
	Reason     string         `json:"reason,omitempty"`
	PausedAt   time.Time      `json:"pausedAt,omitzero"`
	Next       time.Time      `json:"next,omitzero"`
	NextJitter time.Duration  `json:"nextJitterNs,omitempty"`
	Last       time.Time      `json:"last,omitzero"`
	Runs       int            `json:"runs"`
	Current    string         `json:"current,omitempty"`
	Queued     time.Time      `json:"queued,omitzero"`
	CreatedAt  time.Time      `json:"createdAt"`
	UpdatedAt  time.Time      `json:"updatedAt"`
	Version    int64          `json:"version"`
	Warning    string         `json:"warning,omitempty"`
}

// planBody has the fields of [Plan] in their order, so that one converts to the other.
type planBody struct {
	Tenant     string          `json:"tenant"`
	Slug       string          `json:"slug"`
	Target     string          `json:"target"`
	Payload    json.RawMessage `json:"payload,omitempty"`
	Idempotent bool            `json:"idempotent,omitempty"`
	ID         string          `json:"id"`
	Cron       string          `json:"cron,omitempty"`
	Every      time.Duration   `json:"everyNs,omitempty"`
	Zone       string          `json:"zone,omitempty"`
	Gap        Gap             `json:"gap,omitempty"`
	Fold       Fold            `json:"fold,omitempty"`
	Jitter     time.Duration   `json:"jitterNs,omitempty"`
	Overlap    Overlap         `json:"overlap,omitempty"`
	CatchUp    CatchUp         `json:"catchUp,omitempty"`
	Window     time.Duration   `json:"windowNs,omitempty"`
	Cap        int             `json:"cap,omitempty"`
	From       time.Time       `json:"from,omitzero"`
	Until      time.Time       `json:"until,omitzero"`
	Count      int             `json:"count,omitempty"`
}

// scheduleFormat is the format that this version reads and writes.
const scheduleFormat = 1

// record returns the schedule as a record.
func (s *Schedule) record() (store.Record, error) {
	body, err := json.Marshal(scheduleBody{
		Format: scheduleFormat, planBody: planBody(s.Plan),
		Status: s.Status, Reason: s.Reason, PausedAt: s.PausedAt, Next: s.Next, NextJitter: s.NextJitter, Last: s.Last, Runs: s.Runs,
		Current: s.Current, Queued: s.Queued, CreatedAt: s.CreatedAt, UpdatedAt: s.UpdatedAt, Version: s.Version, Warning: s.Warning,
	})
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
	var b scheduleBody
	err := json.Unmarshal(rec.Body, &b)
	if err == nil && b.Format != scheduleFormat {
		err = fmt.Errorf("format %d, this version knows %d", b.Format, scheduleFormat)
	}
	if err != nil {
		return Schedule{}, fmt.Errorf("action: record %v: %w: %w", rec.Key, err, store.ErrCorrupt)
	}
	s := Schedule{
		Plan: Plan(b.planBody), Status: b.Status, Reason: b.Reason, PausedAt: b.PausedAt, Next: b.Next, NextJitter: b.NextJitter,
		Last: b.Last, Runs: b.Runs, Current: b.Current, Queued: b.Queued, CreatedAt: b.CreatedAt, UpdatedAt: b.UpdatedAt,
		Warning: b.Warning, Version: rec.Version,
	}
	s.Tenant, s.ID = rec.Key.Tenant, rec.Key.ID
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
