package webhookbus

import (
	"errors"
	"fmt"
	"io"
	"net/http"
	"strings"
	"testing"
	"time"

	"github.com/abidehq/abide/bus"
	"github.com/abidehq/abide/internal/base"
)

var noon = time.Date(2026, 3, 1, 12, 0, 0, 0, time.UTC)

func TestStatus(t *testing.T) {
	t.Parallel()
	const none = time.Duration(-1)
	for _, c := range []struct {
		status     int
		retryAfter string
		accepted   bool
		permanent  bool
		wish       time.Duration
	}{
		{200, "", true, false, none},
		{201, "", true, false, none},
		{202, "", true, false, none},
		{204, "60", true, false, none},
		{299, "", true, false, none},
		{300, "", false, false, none},
		{304, "", false, false, none},
		{400, "", false, false, none},
		{401, "", false, false, none},
		{404, "", false, false, none},
		{410, "", false, true, none},
		{413, "", false, false, none},
		{429, "", false, false, none},
		{429, "7", false, false, 7 * time.Second},
		{429, "Sun, 01 Mar 2026 12:00:30 GMT", false, false, 30 * time.Second},
		{429, "Sunday, 01-Mar-26 12:00:30 GMT", false, false, 30 * time.Second},
		{429, "0", false, false, none},
		{429, "-5", false, false, none},
		{429, "soon", false, false, none},
		{429, "1.5", false, false, none},
		{429, "Sun, 01 Mar 2026 11:59:59 GMT", false, false, none},
		{500, "", false, false, none},
		{500, "7", false, false, none},
		{502, "", false, false, none},
		{503, "", false, false, none},
		{503, "3600", false, false, time.Hour},
		{503, "3601", false, false, time.Hour},
		{503, "99999999999999999999999", false, false, time.Hour},
		{503, "Mon, 01 Mar 2027 12:00:00 GMT", false, false, time.Hour},
		{599, "", false, false, none},
	} {
		t.Run(fmt.Sprintf("%d after %q", c.status, c.retryAfter), func(t *testing.T) {
			t.Parallel()
			r := newReceiver(t, func(w http.ResponseWriter, _ *http.Request) {
				w.Header().Set("Retry-After", c.retryAfter)
				w.WriteHeader(c.status)
			})
			err := publishOne(t, newBus(t, r.URL, func(c *Config) { c.Clock = base.NewManual(noon) }), envelope("id-1"))
			if (err == nil) != c.accepted || errors.Is(err, bus.ErrPermanent) != c.permanent {
				t.Errorf("the outcome is %v", err)
			}
			if !c.accepted {
				wantError(t, err, fmt.Sprintf("webhookbus: post envelope id-1 to %s: it answered %d", r.URL, c.status))
			}
			wish, ok := bus.RetryDelay(err)
			if ok != (c.wish != none) || (ok && wish != c.wish) {
				t.Errorf("it wishes to be left alone for %v, %v, want %v", wish, ok, c.wish)
			}
		})
	}
}

// TestOutcomes: each envelope has an outcome of its own.
func TestOutcomes(t *testing.T) {
	t.Parallel()
	r := newReceiver(t, func(w http.ResponseWriter, req *http.Request) {
		if id := req.Header.Get("Ce-Id"); id == "b" || id == "d" {
			w.WriteHeader(http.StatusGone)
		}
	})
	var list []bus.Envelope
	for _, id := range []string{"a", "b", "c", "d", "e"} {
		list = append(list, envelope(id))
	}
	err := newBus(t, r.URL, func(c *Config) { c.Mode = Binary }).Publish(t.Context(), list)
	each, ok := errors.AsType[bus.Errors](err)
	if !ok || len(each) != len(list) {
		t.Fatalf("the error is %v", err)
	}
	for i, err := range each {
		if (err == nil) != (i%2 == 0) {
			t.Errorf("the outcome of %s is %v", list[i].ID, err)
		}
	}
	if err := newBus(t, r.URL, nil).Publish(t.Context(), nil); err != nil {
		t.Errorf("no envelopes: %v", err)
	}
}

// TestShownBody: an error shows the beginning of an answer, in a form for one line.
func TestShownBody(t *testing.T) {
	t.Parallel()
	for _, c := range []struct{ name, body, want string }{
		{"text", "no such hook\n", "it answered 404 Not Found: no such hook"},
		{"nothing", "", "it answered 404 Not Found"},
		{"only spaces", " \r\n\t ", "it answered 404 Not Found"},
		{"several lines", "a\nb\r\nc", "it answered 404 Not Found: a b  c"},
		{"not printable", "a\x00\x1b[31mb\u200b\xff\xfec", "it answered 404 Not Found: a[31mbc"},
		{"not ASCII", "Müller 日本", "it answered 404 Not Found: Müller 日本"},
		{"512 bytes", strings.Repeat("x", 512), ": " + strings.Repeat("x", 512)},
		{"more", strings.Repeat("x", 512) + "y", ": " + strings.Repeat("x", 512)},
		{"cut in a character", strings.Repeat("x", 511) + "é", ": " + strings.Repeat("x", 511)},
	} {
		t.Run(c.name, func(t *testing.T) {
			t.Parallel()
			r := newReceiver(t, func(w http.ResponseWriter, _ *http.Request) {
				w.WriteHeader(http.StatusNotFound)
				fmt.Fprint(w, c.body)
			})
			err := publishOne(t, newBus(t, r.URL, nil), envelope("id-1"))
			if err == nil || !strings.HasSuffix(err.Error(), c.want) {
				t.Errorf("the error is %q, want one that ends with %q", err, c.want)
			}
		})
	}
}

// TestErrorsShowNoSecrets, not even with a receiver that repeats what it gets.
func TestErrorsShowNoSecrets(t *testing.T) {
	t.Parallel()
	r := newReceiver(t, func(w http.ResponseWriter, req *http.Request) {
		w.WriteHeader(http.StatusInternalServerError)
		user, password, _ := req.BasicAuth()
		fmt.Fprintln(w, "repeated:", req.RequestURI, req.URL.Path, req.URL.Query().Get("key"), user, password)
		for _, name := range []string{"Authorization", "X-Api-Key", "X-Long"} {
			fmt.Fprintln(w, strings.TrimPrefix(req.Header.Get(name), "Bearer "))
		}
		_, _ = io.Copy(w, req.Body)
	})
	gone := newReceiver(t, nil)
	gone.Close()
	for _, url := range []string{r.URL, gone.URL, "http://127.0.0.1:1"} {
		host := strings.TrimPrefix(url, "http://")
		for _, b := range []*Bus{
			newBus(t, "http://someuser:hunter2-pass@"+host+"/hooks/hunter2-path?key=hunter2%20query&key2=hunter2-two", func(c *Config) {
				c.Header = http.Header{"X-Api-Key": {"hunter2-key"}, "X-Short": {"sesame-1"}, "X-Long": {"sesame-1-hunter2"}}
				c.Secrets = []string{secret("a")}
			}),
			newBus(t, url+"/?hunter2-query", func(c *Config) {
				c.Header = http.Header{"Authorization": {"Bearer hunter2-token"}}
			}),
		} {
			err := publishOne(t, b, envelope("id-1"))
			wantError(t, err, "post envelope id-1 to "+url+": ")
			for _, hidden := range []string{"hunter2", "someuser:", strings.Repeat("a", 16), secret("a")[6:20]} {
				if strings.Contains(err.Error(), hidden) {
					t.Errorf("%q is in the error %v", hidden, err)
				}
			}
			if url == r.URL {
				wantError(t, err, "repeated: ")
			}
		}
	}
}
