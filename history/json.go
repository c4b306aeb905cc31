package history

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"math"
	"strconv"
	"time"
	"unicode/utf8"
)

// Payload is a value as a codec has encoded it. In JSON it is the value itself, if that is
// JSON, or an object with its base64: {"$base64": "…"}.
type Payload []byte

type opaque struct {
	Base64 []byte `json:"$base64"`
}

// MarshalJSON returns the payload itself if it is JSON that would come back as it is.
func (p Payload) MarshalJSON() ([]byte, error) {
	if same, err := compact(p); err == nil && bytes.Equal(same, p) && utf8.Valid(p) && !bytes.HasPrefix(p, []byte(`{"$base64"`)) {
		return p, nil
	}
	if p == nil {
		p = Payload{}
	}
	return json.Marshal(opaque{p})
}

// UnmarshalJSON is the inverse of MarshalJSON.
func (p *Payload) UnmarshalJSON(data []byte) error {
	data, err := compact(data)
	if err != nil {
		return err
	}
	if bytes.HasPrefix(data, []byte(`{"$base64"`)) {
		var o opaque
		if err := json.Unmarshal(data, &o); err != nil {
			return fmt.Errorf("history: payload: $base64 is not base64: %w", err)
		}
		*p = o.Base64
		return nil
	}
	*p = data
	return nil
}

// compact returns JSON in the form that package json writes: without spaces, and with
// what HTML would misread escaped.
func compact(data []byte) ([]byte, error) {
	var b, escaped bytes.Buffer
	if err := json.Compact(&b, data); err != nil {
		return nil, err
	}
	json.HTMLEscape(&escaped, b.Bytes())
	return escaped.Bytes(), nil
}

// eventJSON is an event in JSON.
type eventJSON struct {
	ID       int32     `json:"id"`
	Kind     Kind      `json:"kind"`
	Ref      int32     `json:"ref,omitempty"`
	Name     string    `json:"name,omitempty"`
	Target   string    `json:"target,omitempty"`
	At       time.Time `json:"at,omitzero"`
	Data     Payload   `json:"data,omitempty"`
	Failure  *Failure  `json:"failure,omitempty"`
	Start    *Start    `json:"start,omitempty"`
	Activity *Activity `json:"activity,omitempty"`
	Child    *Child    `json:"child,omitempty"`
	Foreign  *Foreign  `json:"foreign,omitempty"`
	Span     string    `json:"span,omitempty"`
	Build    string    `json:"build,omitempty"`
	By       string    `json:"by,omitempty"`
	Retired  bool      `json:"retired,omitempty"`

	Discarded bool `json:"discarded,omitempty"`

	HistoryEvents int32 `json:"history_events,omitempty"`
	HistoryBytes  int64 `json:"history_bytes,omitempty"`
	Suggested     bool  `json:"suggested,omitempty"`

	// Wire is the wire form of the whole event, if JSON cannot represent it: text that is not
	// UTF-8, a time after the year 9999. It takes precedence over the other fields.
	Wire []byte `json:"wire,omitempty"`
}

// MarshalJSON returns the event in a form that people can read and edit.
func (e Event) MarshalJSON() ([]byte, error) {
	out := eventJSON{
		ID: e.ID, Kind: e.Kind, Ref: e.Ref, Name: e.Name, Target: e.Target, At: e.At, Data: e.Data,
		Failure: e.Failure, Start: e.Start, Activity: e.Activity, Child: e.Child, Foreign: e.Foreign, Build: e.Build, By: e.By, Discarded: e.Discarded, Retired: e.Retired,
		HistoryEvents: e.HistoryEvents, HistoryBytes: e.HistoryBytes, Suggested: e.Suggested,
	}
	if e.Span != 0 {
		out.Span = fmt.Sprintf("%016x", e.Span)
	}
	if !e.representable() {
		if err := e.Validate(); err != nil {
			return nil, fmt.Errorf("history: event %d: %w", e.ID, err)
		}
		out = eventJSON{
			ID: e.ID, Kind: e.Kind, Ref: e.Ref, Name: e.Name, Target: e.Target, Data: e.Data,
			Failure: e.Failure, Wire: Append(nil, &e),
		}
	}
	return json.Marshal(out)
}

// UnmarshalJSON is the inverse of MarshalJSON. An event of an unknown kind, or without
// a field that its kind requires, is an error that matches [ErrInvalid].
func (e *Event) UnmarshalJSON(data []byte) error {
	var in eventJSON
	if err := json.Unmarshal(data, &in); err != nil {
		if !errors.Is(err, ErrInvalid) {
			err = fmt.Errorf("%w: %w", err, ErrInvalid)
		}
		return fmt.Errorf("history: event %d: %w", in.ID, err)
	}
	if len(in.Wire) > 0 {
		event, err := Parse(in.Wire)
		if err != nil {
			return fmt.Errorf("history: event %d: wire: %w: %w", in.ID, err, ErrInvalid)
		}
		*e = event
		return nil
	}
	*e = Event{
		ID: in.ID, Kind: in.Kind, Ref: in.Ref, Name: in.Name, Target: in.Target, Data: in.Data,
		Failure: in.Failure, Start: in.Start, Activity: in.Activity, Child: in.Child, Foreign: in.Foreign, Build: in.Build, By: in.By, Discarded: in.Discarded, Retired: in.Retired,
		HistoryEvents: in.HistoryEvents, HistoryBytes: in.HistoryBytes, Suggested: in.Suggested,
	}
	if !in.At.IsZero() {
		e.At = in.At.UTC()
	}
	if in.Span != "" {
		span, err := strconv.ParseUint(in.Span, 16, 64)
		if err != nil {
			return fmt.Errorf("history: event %d: span %q is not a number of 16 hexadecimal digits: %w", e.ID, in.Span, ErrInvalid)
		}
		e.Span = span
	}
	if err := e.Validate(); err != nil {
		return fmt.Errorf("history: event %d: %w", e.ID, err)
	}
	return nil
}

// representable reports whether JSON can represent all of the event.
func (e *Event) representable() bool {
	texts := []string{e.Name, e.Target, e.Build, e.By}
	for f := e.Failure; f != nil; f = f.Cause {
		texts = append(texts, f.Type, f.Message)
	}
	if e.Start != nil {
		texts = append(texts, e.Start.Version, e.Start.Parent, e.Start.ParentName)
	}
	if e.Activity != nil {
		if math.IsNaN(e.Activity.Factor) || math.IsInf(e.Activity.Factor, 0) {
			return false
		}
		texts = appendLimitTexts(append(texts, e.Activity.Final...), e.Activity.Limits)
	}
	if e.Child != nil {
		if _, err := e.Child.OnClose.MarshalText(); err != nil {
			return false
		}
		texts = appendLimitTexts(appendTexts(append(texts, e.Child.Version), e.Child.Tags), e.Child.Limits)
	}
	if f := e.Foreign; f != nil {
		texts = appendTexts(append(texts, f.Request, f.Version, f.TraceParent, f.TraceState), f.Tags)
	}
	for _, text := range texts {
		if !utf8.ValidString(text) {
			return false
		}
	}
	return e.At.Year() >= 0 && e.At.Year() <= 9999
}

func appendLimitTexts(texts []string, limits []Limit) []string {
	for i := range limits {
		texts = append(texts, limits[i].Name, limits[i].Key)
	}
	return texts
}

func appendTexts(texts []string, tags map[string]string) []string {
	for name, value := range tags {
		texts = append(texts, name, value)
	}
	return texts
}

// activityJSON is a [Activity] in JSON: durations are written as people write
// them.
type activityJSON struct {
	StartToClose    string   `json:"start_to_close,omitempty"`
	ScheduleToClose string   `json:"schedule_to_close,omitempty"`
	Heartbeat       string   `json:"heartbeat,omitempty"`
	MaxAttempts     int32    `json:"max_attempts,omitempty"`
	Backoff         string   `json:"backoff,omitempty"`
	BackoffMax      string   `json:"backoff_max,omitempty"`
	Factor          float64  `json:"factor,omitempty"`
	Final           []string `json:"final,omitempty"`
	Limits          []Limit  `json:"limits,omitempty"`
	Priority        int32    `json:"priority,omitempty"`
}

// MarshalJSON writes durations as 1m30s.
func (a Activity) MarshalJSON() ([]byte, error) {
	text := func(d time.Duration) string {
		if d == 0 {
			return ""
		}
		return d.String()
	}
	return json.Marshal(activityJSON{
		StartToClose: text(a.StartToClose), ScheduleToClose: text(a.ScheduleToClose), Heartbeat: text(a.Heartbeat),
		MaxAttempts: a.MaxAttempts, Backoff: text(a.Backoff), BackoffMax: text(a.BackoffMax), Factor: a.Factor, Final: a.Final,
		Limits: a.Limits, Priority: a.Priority,
	})
}

// UnmarshalJSON is the inverse of MarshalJSON.
func (a *Activity) UnmarshalJSON(data []byte) error {
	var in activityJSON
	if err := json.Unmarshal(data, &in); err != nil {
		return err
	}
	*a = Activity{MaxAttempts: in.MaxAttempts, Factor: in.Factor, Final: in.Final, Limits: in.Limits, Priority: in.Priority}
	for _, field := range []struct {
		name string
		text string
		to   *time.Duration
	}{
		{"start_to_close", in.StartToClose, &a.StartToClose},
		{"schedule_to_close", in.ScheduleToClose, &a.ScheduleToClose},
		{"heartbeat", in.Heartbeat, &a.Heartbeat},
		{"backoff", in.Backoff, &a.Backoff},
		{"backoff_max", in.BackoffMax, &a.BackoffMax},
	} {
		if field.text == "" {
			continue
		}
		d, err := time.ParseDuration(field.text)
		if err != nil {
			return fmt.Errorf("activity.%s: %w", field.name, err)
		}
		*field.to = d
	}
	return nil
}
