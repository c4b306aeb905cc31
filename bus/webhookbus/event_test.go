package webhookbus

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"io"
	"net/http"
	"net/url"
	"strings"
	"testing"
	"time"

	"github.com/cloudevents/sdk-go/v2/binding"
	cloudevent "github.com/cloudevents/sdk-go/v2/event"
	cehttp "github.com/cloudevents/sdk-go/v2/protocol/http"

	"github.com/abidehq/abide/bus"
	"github.com/abidehq/abide/internal/check"
)

var modes = []Mode{Structured, Binary}

// TestStructuredRequest is a request as it is on the wire.
func TestStructuredRequest(t *testing.T) {
	t.Parallel()
	r := newReceiver(t, nil)
	b := newBus(t, r.URL+"/hook?key=1#top", nil)
	check.OK(t, publishOne(t, b, envelope("id-1")))
	req := r.got()[0]
	want := `{"specversion":"1.0","id":"id-1","type":"DueTimeReached","source":"abide","subject":"call-1",` +
		`"time":"2026-03-01T12:00:00.007Z","datacontenttype":"application/json","tenantid":"acme","correlationid":"corr-1",` +
		`"data":{"serviceCallId":"call-1","dueAt":"2026-03-01T12:00:00Z"}}`
	if string(req.body) != want {
		t.Errorf("the body is\n%s\nwant\n%s", req.body, want)
	}
	check.Equal(t, "the content type", req.Header.Get("Content-Type"), "application/cloudevents+json")
	if req.Method != http.MethodPost || req.RequestURI != "/hook?key=1" || "http://"+req.Host != r.URL {
		t.Errorf("the request is %s %s to %s", req.Method, req.RequestURI, req.Host)
	}
	for name := range req.Header {
		if strings.HasPrefix(name, "Webhook-") {
			t.Errorf("nothing is signed, and there is %s", name)
		}
	}
}

// TestBinaryRequest is the same event in the other mode.
func TestBinaryRequest(t *testing.T) {
	t.Parallel()
	r := newReceiver(t, nil)
	b := newBus(t, r.URL, func(c *Config) { c.Mode, c.Source = Binary, "https://abide.example/a%20b" })
	e := envelope("id-1")
	e.TenantID = "Euro € 😀"
	check.OK(t, publishOne(t, b, e))
	req := r.got()[0]
	for name, want := range map[string]string{
		"Content-Type":     "application/json",
		"Ce-Specversion":   "1.0",
		"Ce-Id":            "id-1",
		"Ce-Type":          "DueTimeReached",
		"Ce-Source":        "https://abide.example/a%2520b",
		"Ce-Subject":       "call-1",
		"Ce-Time":          "2026-03-01T12:00:00.007Z",
		"Ce-Tenantid":      "Euro%20%E2%82%AC%20%F0%9F%98%80", // as in the HTTP binding
		"Ce-Correlationid": "corr-1",
	} {
		if got := req.Header.Get(name); got != want {
			t.Errorf("%s is %q, want %q", name, got, want)
		}
	}
	if !bytes.Equal(req.body, e.Payload) {
		t.Errorf("the body is %s", req.body)
	}
	if req.Header.Get("Ce-Datacontenttype") != "" {
		t.Error("the content type is there twice")
	}
}

// read has the SDK of CloudEvents read a request.
func read(t *testing.T, req request, mode Mode) *cloudevent.Event {
	t.Helper()
	m := cehttp.NewMessage(req.Header, io.NopCloser(bytes.NewReader(req.body)))
	want := binding.EncodingStructured
	if mode == Binary {
		want = binding.EncodingBinary
	}
	check.Equal(t, "the SDK reads mode", m.ReadEncoding(), want)
	v, err := binding.ToEvent(context.WithoutCancel(t.Context()), m)
	check.OK(t, err)
	if err := v.Validate(); err != nil {
		t.Errorf("the SDK finds fault: %v", err)
	}
	return v
}

// TestAgainstTheSDK sends names of all kinds, and has the SDK of CloudEvents read them.
// It leaves headers percent-encoded, which the binding says a receiver must decode.
func TestAgainstTheSDK(t *testing.T) {
	t.Parallel()
	names := []string{
		"plain", "with space", " spaces around ", `"quoted"`, `back\slash`, "100%", "%41", "%zz", "a+b", "a,b;c=d", "a/b?c#d",
		"Müller", "日本", "😀", "é combined", "a\u2028b", "<&>", "ce-id", strings.Repeat("x", 128),
	}
	for _, mode := range modes {
		t.Run(string(mode), func(t *testing.T) {
			t.Parallel()
			r := newReceiver(t, nil)
			b := newBus(t, r.URL, func(c *Config) { c.Mode, c.Concurrency = mode, 1 })
			var sent []bus.Envelope
			for _, name := range names {
				call, err := json.Marshal(map[string]string{"serviceCallId": name})
				check.OK(t, err)
				sent = append(sent, bus.Envelope{ID: name, Type: name, TenantID: name, CorrelationID: name, TimestampMs: 1, Payload: call})
			}
			check.OK(t, b.Publish(t.Context(), sent))
			for i, req := range r.got() {
				v := read(t, req, mode)
				for what, got := range map[string]any{
					"id": v.ID(), "type": v.Type(), "subject": v.Subject(),
					"tenantid": v.Extensions()["tenantid"], "correlationid": v.Extensions()["correlationid"],
				} {
					text, _ := got.(string)
					if mode == Binary {
						text = decoded(t, text)
					}
					if text != names[i] {
						t.Errorf("%s is %q, want %q", what, text, names[i])
					}
				}
				if v.Source() != "abide" || !v.Time().Equal(time.UnixMilli(1)) || v.DataContentType() != "application/json" {
					t.Errorf("source %q, time %v, content type %q", v.Source(), v.Time(), v.DataContentType())
				}
				if !bytes.Equal(v.Data(), sent[i].Payload) {
					t.Errorf("the data is %s, want %s", v.Data(), sent[i].Payload)
				}
			}
		})
	}
}

// decoded is what a receiver makes of a header: one round of percent-decoding.
func decoded(t *testing.T, s string) string {
	t.Helper()
	if strings.ContainsFunc(s, func(r rune) bool { return r <= ' ' || r > '~' || r == '"' }) {
		t.Errorf("the header %q is not encoded", s)
	}
	plain, err := url.PathUnescape(s)
	if err != nil {
		t.Error(err)
	}
	return plain
}

func TestWithoutCorrelation(t *testing.T) {
	t.Parallel()
	for _, mode := range modes {
		t.Run(string(mode), func(t *testing.T) {
			t.Parallel()
			r := newReceiver(t, nil)
			e := envelope("id-1")
			e.CorrelationID, e.Payload = "", json.RawMessage(`[1]`)
			check.OK(t, publishOne(t, newBus(t, r.URL, func(c *Config) { c.Mode = mode }), e))
			req := r.got()[0]
			if _, there := read(t, req, mode).Extensions()["correlationid"]; there {
				t.Error("there is an empty correlationid")
			}
			if strings.Contains(string(req.body), "subject") || len(req.Header.Values("Ce-Subject")) > 0 {
				t.Error("there is an empty subject")
			}
		})
	}
}

func TestSubject(t *testing.T) {
	t.Parallel()
	for payload, want := range map[string]string{
		`{"serviceCallId":"a"}`:                 "a",
		`{"x":{"serviceCallId":"b"}}`:           "",
		`{"servicecallid":"a"}`:                 "",
		`{"serviceCallId":7}`:                   "",
		`{"serviceCallId":null}`:                "",
		`{"serviceCallId":""}`:                  "",
		`{"serviceCallId":{"serviceCallId":1}}`: "",
		`{"serviceCallId":"a\nb"}`:              "",
		`["serviceCallId"]`:                     "",
		`"serviceCallId"`:                       "",
		`null`:                                  "",
		`{"serviceCallId":"` + strings.Repeat("x", 1024) + `"}`: strings.Repeat("x", 1024),
		`{"serviceCallId":"` + strings.Repeat("x", 1025) + `"}`: "",
	} {
		if got := subject([]byte(payload)); got != want {
			t.Errorf("the subject of %.60s is %.60q, want %.60q", payload, got, want)
		}
	}
}

// TestInvalidEnvelope: one that breaks a rule is not sent, and its neighbours are.
func TestInvalidEnvelope(t *testing.T) {
	t.Parallel()
	r := newReceiver(t, nil)
	noTenant, notJSON, tooLate := envelope("1"), envelope("2"), envelope("3")
	noTenant.TenantID, notJSON.Payload, tooLate.TimestampMs = "", json.RawMessage(`{`), maxTimestampMs+1
	list := []bus.Envelope{noTenant, notJSON, tooLate, envelope("4")}
	outcomes := bus.Outcomes(newBus(t, r.URL, nil).Publish(t.Context(), list), len(list))
	for i, err := range outcomes {
		if errors.Is(err, bus.ErrInvalid) != (i < 3) {
			t.Errorf("the outcome of envelope %d is %v", i+1, err)
		}
	}
	if n := len(r.got()); n != 1 || outcomes[3] != nil {
		t.Errorf("%d requests were made, want that of the valid one: %v", n, outcomes[3])
	}
}
