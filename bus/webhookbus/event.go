package webhookbus

import (
	"bytes"
	"encoding/json"
	"fmt"
	"net/http"
	"strings"

	"github.com/abidehq/abide/bus"
)

// maxSubject is the longest subject, in bytes. It is a header in mode Binary, and what is
// longer is in the payload anyway.
const maxSubject = 1024

// maxTimestampMs is the last millisecond that has a form in RFC 3339: that of the year
// 9999.
const maxTimestampMs = 253402300799999

// event is a CloudEvent. Its JSON form lacks the data.
type event struct {
	SpecVersion     string          `json:"specversion"`
	ID              string          `json:"id"`
	Type            string          `json:"type"`
	Source          string          `json:"source"`
	Subject         string          `json:"subject,omitempty"`
	Time            string          `json:"time"`
	DataContentType string          `json:"datacontenttype"`
	TenantID        string          `json:"tenantid"`
	CorrelationID   string          `json:"correlationid,omitempty"`
	Data            json.RawMessage `json:"-"`
}

func newEvent(e *bus.Envelope, source string) (*event, error) {
	if err := e.Validate(); err != nil {
		return nil, err
	}
	if e.TimestampMs > maxTimestampMs {
		return nil, fmt.Errorf("timestampMs is %d, at most %d is allowed: %w", e.TimestampMs, int64(maxTimestampMs), bus.ErrInvalid)
	}
	return &event{
		SpecVersion:     "1.0",
		ID:              e.ID,
		Type:            e.Type,
		Source:          source,
		Subject:         subject(e.Payload),
		Time:            e.Time().Format("2006-01-02T15:04:05.000Z07:00"),
		DataContentType: "application/json",
		TenantID:        e.TenantID,
		CorrelationID:   e.CorrelationID,
		Data:            e.Payload,
	}, nil
}

// subject returns the payload's serviceCallId if it can be the subject of an event.
func subject(payload []byte) string {
	// A map, because the names of a struct's fields match in any case.
	var object map[string]json.RawMessage
	if !bytes.Contains(payload, []byte(`"serviceCallId"`)) || json.Unmarshal(payload, &object) != nil {
		return ""
	}
	var id string
	if json.Unmarshal(object["serviceCallId"], &id) != nil || bus.CheckName("subject", id, maxSubject) != nil {
		return ""
	}
	return id
}

// structured returns the body of a request in mode Structured, and adds its headers.
func (v *event) structured(header http.Header) ([]byte, error) {
	header.Set("Content-Type", "application/cloudevents+json")
	body, err := json.Marshal(v)
	if err != nil {
		return nil, fmt.Errorf("%w: %w", err, bus.ErrInvalid)
	}
	// The payload is added as it is: encoding/json would take its spaces and write some of
	// its characters in another way.
	body = append(body[:len(body)-1], `,"data":`...)
	return append(append(body, v.Data...), '}'), nil
}

// binary returns the body of a request in mode Binary, and adds its headers.
func (v *event) binary(header http.Header) []byte {
	header.Set("Content-Type", v.DataContentType)
	for _, a := range []struct{ name, value string }{
		{"Ce-Specversion", v.SpecVersion},
		{"Ce-Id", v.ID},
		{"Ce-Type", v.Type},
		{"Ce-Source", v.Source},
		{"Ce-Subject", v.Subject},
		{"Ce-Time", v.Time},
		{"Ce-Tenantid", v.TenantID},
		{"Ce-Correlationid", v.CorrelationID},
	} {
		if a.value != "" {
			header.Set(a.name, percentEncode(a.value))
		}
	}
	// A copy, because a receiver may answer before it has read the body, and then it is
	// still being sent when Publish has returned.
	return bytes.Clone(v.Data)
}

// percentEncode returns a value in the form that it has in a header: all but printable
// ASCII is encoded, and so are space, quote and percent.
func percentEncode(s string) string {
	const hex = "0123456789ABCDEF"
	var b strings.Builder
	for _, c := range []byte(s) {
		if c <= ' ' || c > '~' || c == '"' || c == '%' {
			b.Write([]byte{'%', hex[c>>4], hex[c&15]})
		} else {
			b.WriteByte(c)
		}
	}
	return b.String()
}
