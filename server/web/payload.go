package web

import (
	"bytes"
	"encoding/json"
	"net/http"
	"slices"
	"strings"

	"github.com/abidehq/abide"
	"github.com/abidehq/abide/history"
	"github.com/abidehq/abide/server/api"
)

// uncheckedField is for those who know better than what workers have published.
func uncheckedField(label string) field {
	return field{Name: "unchecked", More: true, Label: label, Kind: "check"}
}

// awaited returns the events that an instance waits for.
func (s *site) awaited(r *request, info *abide.Info) ([]abide.Waiting, error) {
	if len(info.Awaited) == 0 {
		return nil, nil
	}
	waits, err := s.engine.Waits(r.ctx(), info.Ref)
	return slices.DeleteFunc(waits, func(w abide.Waiting) bool { return w.Kind != history.EventReceived }), err
}

// raiseVerb raises an event. The form offers the events that the instance waits for, and begins with
// a payload of the right type.
func (s *site) raiseVerb() verb {
	return verb{
		pattern: "/instances/{tenant}/{id}/raise", section: "instances", operation: "raise-event",
		form: func(r *request) (form, error) {
			info, err := s.got(r)
			if err != nil {
				return form{}, err
			}
			waits, err := s.awaited(r, &info)
			if err != nil {
				return form{}, err
			}
			f := form{
				Title: "Raise an event", Submit: "Raise", Back: s.path(instancePath(info.Ref)),
				Text: "It waits for no event now. Events of a name are kept in order until the instance waits for them.",
			}
			name := field{Name: "name", Label: "Name", Kind: "text", Required: true, Value: r.value("name")}
			data := field{Name: "data", Label: "Payload", Kind: "code", Value: r.value("data"), Help: "JSON. Empty means nothing."}
			if len(waits) > 0 {
				names := make([]string, len(waits))
				for i, w := range waits {
					names[i] = w.Name
				}
				names = slices.Compact(names)
				f.Text = "It waits for " + strings.Join(names, ", ") + ". Events of other names are kept until it waits for them."
				name.Options = options(names...)
				if name.Value == "" && len(names) == 1 {
					name.Value = names[0]
				}
			}
			if i := slices.IndexFunc(waits, func(w abide.Waiting) bool { return w.Name == name.Value }); i >= 0 {
				data = expected(data, waits[i].Schema)
			}
			f.Fields = []field{
				name, data, {Name: "awaited", Label: "Only if the instance waits for it", Kind: "check"},
				uncheckedField("Raise it with any payload, also one that the instance cannot read"),
			}
			return f, nil
		},
		apply: s.raise,
	}
}

// expected has a field of a payload begin with an example of its type, and say what the type is.
func expected(f field, schema json.RawMessage) field {
	if len(schema) == 0 {
		return f
	}
	example := string(abide.ExampleOf(schema))
	if f.Value == "" && example != "null" {
		f.Value = example
	}
	var title struct {
		Title string `json:"title"`
	}
	if json.Unmarshal(schema, &title) == nil && title.Title != "" {
		f.Help = "JSON of the type " + title.Title + ". It is checked before it is sent."
	}
	return f
}

// raise raises the event of a form.
func (s *site) raise(r *request) (done, error) {
	ref, err := r.ref()
	if err != nil {
		return done{}, err
	}
	d := done{target: target(ref), to: s.path(instancePath(ref)), notice: "raised"}
	data, err := parseJSON("Payload", r.value("data"))
	if err != nil {
		return d, err
	}
	opts := []abide.RaiseOption{abide.Tenant(ref.Tenant)}
	if r.value("awaited") != "" {
		opts = append(opts, abide.IfAwaited())
	}
	if r.value("unchecked") != "" {
		opts = append(opts, abide.Unchecked())
	}
	request, err := api.PrepareEvent(s.engine, ref.ID, r.value("name"), data, opts...)
	if err != nil {
		return d, err
	}
	raised, err := s.engine.Raise(r.ctx(), request)
	if err == nil && raised[0].Outcome != abide.OutcomeUnknown {
		d.notice = "raised-" + string(raised[0].Outcome)
	}
	return d, err
}

// correctVerb replaces the payload because of which an instance has stalled, or drops the event.
func (s *site) correctVerb() verb {
	return verb{
		pattern: "/instances/{tenant}/{id}/correct", section: "instances", operation: "correct-instance",
		form: func(r *request) (form, error) {
			info, err := s.got(r)
			if err != nil {
				return form{}, err
			}
			bad := info.BadPayload
			if bad == nil {
				return form{}, &refusal{status: http.StatusConflict, title: "Not possible any more", text: "The instance has not stalled because of a payload."}
			}
			payload, err := s.badPayload(r, &info)
			if err != nil {
				return form{}, err
			}
			f := form{
				Title: "Correct " + badTitle(bad), Submit: "Correct and resume", Back: s.path(instancePath(info.Ref)),
				Text: "The code receives the corrected payload, and the instance goes on. The history keeps both. " + firstLine(info.Reason),
				Fields: []field{
					{Name: "data", Label: "Payload", Kind: "code", Value: payload, Help: "JSON."},
				},
			}
			if schema := s.schemaOf(r, &info); len(schema) > 0 {
				f.Fields[0].Help = "JSON such as " + compactJSON(abide.ExampleOf(schema))
			}
			if bad.Kind == history.EventReceived {
				f.Fields = append(f.Fields, field{Name: "discard", Label: "Discard the event instead", Kind: "check"})
			}
			f.Fields = append(f.Fields, uncheckedField("Accept any payload, also one that the instance cannot read"))
			return f, nil
		},
		apply: func(r *request) (done, error) {
			ref, err := r.ref()
			if err != nil {
				return done{}, err
			}
			d := done{target: target(ref), to: s.path(instancePath(ref)), notice: "corrected"}
			fix := abide.Correction{Discard: r.value("discard") != "", Unchecked: r.value("unchecked") != ""}
			if !fix.Discard {
				data, err := parseJSON("Payload", r.value("data"))
				if err != nil {
					return d, err
				}
				fix.Data = data
			}
			return d, s.engine.Correct(r.ctx(), ref, fix)
		},
	}
}

// badTitle says which payload does not fit.
func badTitle(bad *abide.BadPayload) string {
	switch bad.Kind {
	case history.ExecutionStarted:
		return "the input of " + bad.Name
	case history.EventReceived:
		return "event " + bad.Name
	case history.ChildCompleted:
		return "the result of child " + bad.Name
	default:
		return "the result of " + bad.Name
	}
}

// badPayload returns the payload because of which an instance has stalled, indented.
func (s *site) badPayload(r *request, info *abide.Info) (string, error) {
	bad := info.BadPayload
	if bad.Event > 0 {
		part, _, err := s.engine.HistoryPart(r.ctx(), info.Ref, abide.HistoryRange{After: bad.Event - 1, MaxBytes: 1})
		if err != nil || len(part.Events) == 0 {
			return "", err
		}
		return indented(part.Events[0].Data), nil
	}
	messages, err := s.engine.Undelivered(r.ctx(), info.Ref)
	if err != nil {
		return "", err
	}
	for i := range messages {
		if messages[i].Message == bad.Message {
			return indented(messages[i].Event.Data), nil
		}
	}
	return "", nil
}

// undeliveredInput returns the input of an instance that has not begun, from the message that starts it;
// nil if there is none.
func (s *site) undeliveredInput(r *request, info *abide.Info) []byte {
	messages, err := s.engine.Undelivered(r.ctx(), info.Ref)
	if err != nil {
		return nil // the page shows what it has
	}
	for i := range messages {
		if messages[i].Event.Kind == history.ExecutionStarted {
			return messages[i].Event.Data
		}
	}
	return nil
}

// schemaOf returns the schema of the payload because of which an instance has stalled, if it is known.
func (s *site) schemaOf(r *request, info *abide.Info) json.RawMessage {
	signatures, err := s.engine.Signatures(r.ctx())
	if err != nil {
		return nil
	}
	bad := info.BadPayload
	for i := range signatures {
		sig := &signatures[i]
		of := sig.Name == info.Orchestration && sig.Version == info.Version && !sig.Activity
		switch {
		case bad.Kind == history.EventReceived && of && len(sig.Events[bad.Name]) > 0:
			return sig.Events[bad.Name]
		case bad.Kind == history.ExecutionStarted && of:
			return sig.Input
		}
	}
	return nil
}

// inputSchema returns the schema of an orchestration's input, of its name or name@version.
func (s *site) inputSchema(r *request, route string) json.RawMessage {
	name, version, _ := strings.Cut(route, "@")
	signatures, err := s.engine.Signatures(r.ctx())
	if err != nil || name == "" {
		return nil
	}
	for i := range signatures {
		if sig := &signatures[i]; sig.Name == name && sig.Version == version && !sig.Activity {
			return sig.Input
		}
	}
	return nil
}

func indented(data []byte) string {
	var b bytes.Buffer
	if json.Indent(&b, data, "", "  ") != nil {
		return string(data)
	}
	return b.String()
}

func compactJSON(data []byte) string {
	var b bytes.Buffer
	if json.Compact(&b, data) != nil {
		return string(data)
	}
	return b.String()
}
