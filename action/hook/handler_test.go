package hook_test

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"net/http"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/abidehq/abide/action"
	"github.com/abidehq/abide/action/hook"
	"github.com/abidehq/abide/internal/check"
	"github.com/abidehq/abide/internal/ratelimit"
)

func TestWebhookBecomesAnAction(t *testing.T) {
	t.Parallel()
	k := newFixture(t, githubHook("gh"))
	body := []byte(`{"ref":"main"}`)
	got := k.post("gh", github("d-1", body), body)
	if got.Status != http.StatusAccepted || got.ID == "" || got.Header.Get("Content-Type") != "application/json" {
		t.Fatalf("the answer is %+v", got)
	}
	a, kept := k.kept(got.ID)
	if a.Tenant != tenant || a.Slug != "gh" || a.Target != "target" || a.Status != action.Pending || a.Trigger.Kind != action.Webhook {
		t.Errorf("the action is %+v", a)
	}
	if !bytes.Equal(kept, body) || a.Trigger.Size != len(body) {
		t.Errorf("kept are %d bytes, %q", a.Trigger.Size, kept)
	}
	check.Equal(t, "counted", k.outcomes(), map[string]int64{"accepted": 1})
}

// TestBodiesAreKeptByteForByte, whatever is in them, and however they are sent.
func TestBodiesAreKeptByteForByte(t *testing.T) {
	t.Parallel()
	var every []byte
	for i := range 256 {
		every = append(every, byte(i))
	}
	k := newFixture(t, githubHook("gh"))
	for name, body := range map[string][]byte{
		"empty":              {},
		"every byte":         every,
		"not UTF-8":          {0xff, 0xfe, 0xc0, 0x80},
		"line ends":          []byte("a\r\nb\nc\r"),
		"not JSON":           []byte(`{"a":`),
		"larger than a read": bytes.Repeat(every, 2000),
		"the largest":        bytes.Repeat([]byte("x"), hook.DefaultBody),
	} {
		for kind, reader := range map[string]func() io.Reader{
			"whole":   func() io.Reader { return bytes.NewReader(body) },
			"chunked": func() io.Reader { return struct{ io.Reader }{bytes.NewReader(body)} }, // nobody can see its length
		} {
			h := github(strings.ReplaceAll(name, " ", "-")+kind, body)
			got := k.send(http.MethodPost, "gh", h, reader())
			if got.Status != http.StatusAccepted {
				t.Errorf("%s, %s: the answer is %d %s", name, kind, got.Status, got.Text)
				continue
			}
			if _, kept := k.kept(got.ID); !bytes.Equal(kept, body) {
				t.Errorf("%s, %s: kept are %d bytes instead of %d", name, kind, len(kept), len(body))
			}
		}
	}
}

func TestMethodsAndSlugs(t *testing.T) {
	t.Parallel()
	k := newFixture(t, githubHook("gh"))
	for _, slug := range []string{"other", "", "gh/", "GH", "gh%2f", "gh%00", strings.Repeat("x", 2000)} {
		k.send(http.MethodPost, slug, nil, strings.NewReader("{}")).want(t, http.StatusNotFound, "hook_not_found")
	}
	for _, method := range []string{http.MethodGet, http.MethodPut, http.MethodDelete, http.MethodOptions, "SEND"} {
		got := k.send(method, "gh", nil, nil)
		got.want(t, http.StatusMethodNotAllowed, "method_not_allowed")
		if got.Header.Get("Allow") != "POST" {
			t.Errorf("%s: allowed are %q", method, got.Header.Get("Allow"))
		}
	}
	k.send(http.MethodGet, "other", nil, nil).want(t, http.StatusNotFound, "hook_not_found")
	k.none()

	// It is the last element of the path that counts, wherever the handler is mounted.
	if got := k.post("deep/er/gh", github("d", nil), nil); got.Status != http.StatusAccepted {
		t.Errorf("elsewhere, the answer is %d %s", got.Status, got.Text)
	}
}

func TestBodyLimit(t *testing.T) {
	t.Parallel()
	k := newFixture(t, hook.Hook{Slug: "small", Unverified: true, MaxBody: 1000}, hook.Hook{Slug: "large", Unverified: true, MaxBody: action.MaxBody})
	hide := func(n int) io.Reader { return struct{ io.Reader }{strings.NewReader(strings.Repeat("x", n))} }
	for slug, most := range map[string]int{"small": 1000, "large": action.MaxBody} {
		if got := k.post(slug, nil, bytes.Repeat([]byte("x"), most)); got.Status != http.StatusAccepted {
			t.Errorf("%s: %d bytes are answered with %d %s", slug, most, got.Status, got.Text)
		}
		if got := k.send(http.MethodPost, slug, nil, hide(most)); got.Status != http.StatusAccepted {
			t.Errorf("%s: %d bytes in chunks are answered with %d %s", slug, most, got.Status, got.Text)
		}
		k.post(slug, nil, bytes.Repeat([]byte("x"), most+1)).want(t, http.StatusRequestEntityTooLarge, "body_too_large")
		k.send(http.MethodPost, slug, nil, hide(most+1)).want(t, http.StatusRequestEntityTooLarge, "body_too_large")
	}
	check.Equal(t, "kept", len(k.actions()), 4)
	if got := k.outcomes(); got["too_large"] != 4 || got["accepted"] != 4 {
		t.Errorf("counted are %v", got)
	}
}

func TestRateLimit(t *testing.T) {
	t.Parallel()
	limited := githubHook("gh")
	limited.Rate, limited.Burst = 0.5, 3
	k := newFixture(t, limited, hook.Hook{Slug: "open", Unverified: true}, hook.Hook{Slug: "any", Unverified: true, Rate: -1})
	for i := range 3 {
		if got := k.post("gh", github(fmt.Sprint(i), nil), nil); got.Status != http.StatusAccepted {
			t.Fatalf("number %d is answered with %d", i, got.Status)
		}
	}
	for range 3 { // those that are refused do not count
		got := k.post("gh", github("late", nil), nil)
		got.want(t, http.StatusTooManyRequests, "rate_limited")
		check.Equal(t, "it may come again after", got.Header.Get("Retry-After"), "2")
	}
	k.clock.Advance(1999 * time.Millisecond)
	got := k.post("gh", github("late", nil), nil)
	got.want(t, http.StatusTooManyRequests, "rate_limited")
	check.Equal(t, "it may come again after", got.Header.Get("Retry-After"), "1")
	k.clock.Advance(time.Millisecond)
	if got := k.post("gh", github("late", nil), nil); got.Status != http.StatusAccepted {
		t.Errorf("when it may come, the answer is %d", got.Status)
	}

	// By default there are 200 at once, and each hook has its own count.
	for i := range 2 * hook.DefaultRate {
		if got := k.post("open", nil, nil); got.Status != http.StatusAccepted {
			t.Fatalf("number %d is answered with %d", i, got.Status)
		}
	}
	k.post("open", nil, nil).want(t, http.StatusTooManyRequests, "rate_limited")
	for range 3 * hook.DefaultRate {
		if got := k.post("any", nil, nil); got.Status != http.StatusAccepted {
			t.Fatalf("without a limit, the answer is %d", got.Status)
		}
	}
}

// TestUnsignedWebhooksDoNotUseUpTheRate: those of an address that cannot sign are refused
// before their body is read, and the sender who can is served.
func TestUnsignedWebhooksDoNotUseUpTheRate(t *testing.T) {
	t.Parallel()
	limited := githubHook("gh")
	limited.Rate, limited.Burst = 1, 5
	k := newFixtureWith(t, hook.Config{Hooks: []hook.Hook{limited}, Remote: func(r *http.Request) string { return r.Header.Get("X-From") }})
	from := func(h http.Header, address string) http.Header {
		h.Set("X-From", address)
		return h
	}
	forged := func() http.Header {
		h := from(github("forged", []byte("other")), "192.0.2.66")
		return h
	}
	for range ratelimit.MaxFailures {
		k.post("gh", forged(), []byte("{}")).want(t, http.StatusUnauthorized, "signature_invalid")
	}
	for range 100 {
		got := k.post("gh", forged(), []byte("{}"))
		got.want(t, http.StatusTooManyRequests, "rate_limited")
		check.Equal(t, "it may come again after", got.Header.Get("Retry-After"), "1")
	}
	for i := range 5 {
		if got := k.post("gh", from(github(fmt.Sprint(i), nil), "192.0.2.1"), nil); got.Status != http.StatusAccepted {
			t.Errorf("genuine webhook %d is answered with %d", i, got.Status)
		}
	}
	k.post("gh", from(github("6", nil), "192.0.2.1"), nil).want(t, http.StatusTooManyRequests, "rate_limited")
	counted := k.outcomes()
	if counted["signature"] != ratelimit.MaxFailures || counted["address"] != 100 || counted["accepted"] != 5 || counted["rate"] != 1 {
		t.Errorf("counted are %v", counted)
	}
	k.clock.Advance(time.Second)
	if lines := strings.Count(k.log.String(), "level=WARN msg=\"webhook"); lines != 2 {
		t.Errorf("%d warnings, want one at once and one a second later with the rest:\n%s", lines, k.log.String())
	}
	k.post("gh", forged(), []byte("{}")).want(t, http.StatusUnauthorized, "signature_invalid")
}

// TestWebPagesCannotUseHooksWithoutSignatures: the browser of a user who can reach the hook
// would let any page do so.
func TestWebPagesCannotUseHooksWithoutSignatures(t *testing.T) {
	t.Parallel()
	k := newFixture(t, hook.Hook{Slug: "open", Unverified: true}, githubHook("gh"))
	for name, value := range map[string]string{"Origin": "https://evil.example", "Sec-Fetch-Site": "cross-site"} {
		k.post("open", header(name, value), nil).want(t, http.StatusForbidden, "cross_origin")
		signed := github(name, nil)
		signed.Set(name, value)
		if got := k.post("gh", signed, nil); got.Status != http.StatusAccepted {
			t.Errorf("%s: a signed webhook is answered with %d", name, got.Status)
		}
	}
	if got := k.post("open", nil, nil); got.Status != http.StatusAccepted {
		t.Errorf("without a page, the answer is %d", got.Status)
	}
}

// TestSignatureIsRefusedWithoutDetail: a sender learns nothing, and the log everything
// but the secrets and signatures.
func TestSignatureIsRefusedWithoutDetail(t *testing.T) {
	t.Parallel()
	k := newFixture(t, hook.Hook{Slug: "st", Verify: hook.Stripe{Secrets: secrets(key)}})
	sign := func(key string, at time.Time) http.Header {
		return header("Stripe-Signature", "t="+unix(at)+",v1="+hexSum(key, unix(at), ".{}"))
	}
	stale, wrong := sign(key, noon.Add(-time.Hour)), sign("another", noon)
	var texts []string
	for _, h := range []http.Header{{}, header("Stripe-Signature", "v1"), stale, wrong} {
		got := k.post("st", h, []byte("{}"))
		got.want(t, http.StatusUnauthorized, "signature_invalid")
		texts = append(texts, got.Text)
	}
	for _, text := range texts {
		if text != texts[0] {
			t.Errorf("the answers differ: %s", texts)
		}
	}
	k.none()
	check.Equal(t, "counted", k.outcomes(), map[string]int64{"unsigned": 1, "malformed": 1, "stale": 1, "signature": 1})
	for _, says := range []string{"missing header", "malformed header", "1h0m0s ago", "no matching signature", "slug=st"} {
		if !strings.Contains(k.log.String(), says) {
			t.Errorf("the log does not say %q:\n%s", says, k.log)
		}
	}
	quiet(t, k.log.String(), hexSum(key, unix(noon.Add(-time.Hour)), ".{}"), hexSum("another", unix(noon), ".{}"))
}

// TestDuplicates: what is received twice is one action, and the sender gets its ID.
func TestDuplicates(t *testing.T) {
	t.Parallel()
	signed := func(at time.Time, body string) http.Header {
		return header("Stripe-Signature", "t="+unix(at)+",v1="+hexSum(key, unix(at), ".", body),
			"X-Slack-Request-Timestamp", unix(at), "X-Slack-Signature", "v0="+hexSum(key, "v0:", unix(at), ":", body))
	}
	k := newFixture(t, githubHook("gh"), githubHook("gh2"),
		hook.Hook{Slug: "stripe", Verify: hook.Stripe{Secrets: secrets(key)}},
		hook.Hook{Slug: "slack", Verify: hook.Slack{Secrets: secrets(key)}},
		hook.Hook{Slug: "plain", Verify: hook.HMAC{Secrets: secrets(key), Header: "X-Sig"}},
	)
	plain := header("X-Sig", hexSum(key, "{}"))
	first := map[string]string{}
	for i, c := range []struct {
		slug      string
		header    http.Header
		body      string
		duplicate bool
	}{
		{"gh", github("d-1", []byte("{}")), "{}", false},
		{"gh", github("d-1", []byte("{}")), "{}", true},
		{"gh2", github("d-1", []byte("{}")), "{}", false}, // another hook knows others
		{"stripe", signed(noon, "{}"), "{}", false},
		{"stripe", signed(noon, "{}"), "{}", true},                  // played back
		{"stripe", signed(noon.Add(time.Minute), "{}"), "{}", true}, // sent again, and signed again
		{"slack", signed(noon, "{}"), "{}", false},
		{"slack", signed(noon, "{}"), "{}", true},
		{"slack", signed(noon.Add(time.Minute), "{}"), "{}", true},
		{"plain", plain, "{}", false},
		{"plain", plain, "{}", false}, // it has no name: nobody knows
	} {
		got := k.post(c.slug, c.header, []byte(c.body))
		if want := map[bool]int{false: http.StatusAccepted, true: http.StatusOK}[c.duplicate]; got.Status != want {
			t.Errorf("request %d to %s is answered with %d %s, want %d", i, c.slug, got.Status, got.Text, want)
		}
		if c.duplicate && got.ID != first[c.slug] {
			t.Errorf("request %d to %s is answered with %s, and the first was %s", i, c.slug, got.ID, first[c.slug])
		}
		if !c.duplicate {
			first[c.slug] = got.ID
		}
	}
	if got := k.post("stripe", signed(noon, "other"), []byte("other")); got.Status != http.StatusAccepted {
		t.Errorf("another body is answered with %d", got.Status)
	}
	check.Equal(t, "there are actions", len(k.actions()), 7)
	if got := k.outcomes(); got["duplicate"] != 5 || got["accepted"] != 7 {
		t.Errorf("counted are %v", got)
	}
}

// TestConcurrentDuplicates: of many at the same time, one is the first.
func TestConcurrentDuplicates(t *testing.T) {
	t.Parallel()
	k := newFixture(t, githubHook("gh"))
	const deliveries, times = 5, 20
	var mu sync.Mutex
	ids, accepted := map[string]map[string]bool{}, 0
	var wg sync.WaitGroup
	for i := range deliveries * times {
		wg.Go(func() {
			name := fmt.Sprint(i % deliveries)
			got, err := send(t.Context(), http.MethodPost, k.server.URL+"/hooks/gh", github(name, []byte(name)), strings.NewReader(name))
			mu.Lock()
			defer mu.Unlock()
			switch {
			case err != nil:
				t.Error(err)
			case got.Status == http.StatusAccepted:
				accepted++
			case got.Status != http.StatusOK:
				t.Errorf("the answer is %d %s", got.Status, got.Text)
			}
			if ids[name] == nil {
				ids[name] = map[string]bool{}
			}
			ids[name][got.ID] = true
		})
	}
	wg.Wait()
	for name, all := range ids {
		if len(all) != 1 {
			t.Errorf("delivery %s has the IDs %v", name, all)
		}
	}
	if n := len(k.actions()); accepted != deliveries || n != deliveries {
		t.Errorf("%d were accepted and %d are kept, want %d", accepted, n, deliveries)
	}
}

// TestReplayIsOneAction: a recording that is played back within the tolerance does
// nothing, and one that is played back later is refused.
func TestReplayIsOneAction(t *testing.T) {
	t.Parallel()
	for _, s := range signers {
		if s.timestamp == "" && s.name != "Stripe" {
			continue // they sign no time
		}
		t.Run(s.name, func(t *testing.T) {
			t.Parallel()
			k := newFixture(t, hook.Hook{Slug: "h", Verify: s.verifier(keyA)})
			recorded := s.sign(keyA, noon, "{}")
			first := k.post("h", recorded, []byte("{}"))
			k.clock.Advance(5 * time.Minute)
			again := k.post("h", recorded, []byte("{}"))
			if first.Status != http.StatusAccepted || again.Status != http.StatusOK || first.ID != again.ID {
				t.Errorf("the answers are %d %s and %d %s", first.Status, first.Text, again.Status, again.Text)
			}
			k.clock.Advance(time.Nanosecond)
			k.post("h", recorded, []byte("{}")).want(t, http.StatusUnauthorized, "signature_invalid")
			check.Equal(t, "there are actions", len(k.actions()), 1)
		})
	}
}

func TestKeptHeaders(t *testing.T) {
	t.Parallel()
	gh := githubHook("gh")
	gh.Headers = []string{"x-custom", "X-Long", "Content-Type"}
	k := newFixture(t, gh)
	h := github("d-1", []byte("{}"))
	for name, value := range map[string]string{
		"Content-Type": "application/json", "User-Agent": "agent", "Content-Encoding": "br", "X-Other": "other", "Authorization": "Bearer x",
		"Cookie": "c=1", "X-Hub-Signature": "sha1=0", "X-Long": strings.Repeat("x", action.MaxHeader+1),
	} {
		h.Set(name, value)
	}
	h["X-Custom"] = []string{"a", "b"}
	a, _ := k.kept(k.post("gh", h, []byte("{}")).ID)
	want := map[string]string{
		"Content-Type": "application/json", "User-Agent": "agent", "Content-Encoding": "br", "X-Custom": "a, b",
		"X-Github-Delivery": "d-1", "X-Github-Event": "push",
	}
	check.Equal(t, "kept", a.Trigger.Header, want)
	if !strings.Contains(k.log.String(), "header=X-Long bytes=1025") {
		t.Errorf("the log does not tell what was left out:\n%s", k.log)
	}
}

// TestStoreTrouble: nobody is told that something is kept which is not.
func TestStoreTrouble(t *testing.T) {
	t.Parallel()
	k := newFixture(t, githubHook("gh"))
	check.OK(t, k.store.Close())
	got := k.post("gh", github("d-1", nil), nil)
	got.want(t, http.StatusServiceUnavailable, "unavailable")
	if got.Header.Get("Retry-After") == "" {
		t.Error("the sender is not told when to come again")
	}
	if got := k.outcomes(); got["store"] != 1 || !strings.Contains(k.log.String(), "level=ERROR") {
		t.Errorf("counted are %v, logged is\n%s", got, k.log)
	}
}

// receiver is a Receiver that is a function.
type receiver func(ctx context.Context, r action.Received) (action.Action, bool, error)

func (f receiver) Receive(ctx context.Context, r action.Received) (action.Action, bool, error) {
	return f(ctx, r)
}

// TestReceiverThatRefuses: if what a hook is made of does not suit the receiver, sending
// it again is of no use.
func TestReceiverThatRefuses(t *testing.T) {
	t.Parallel()
	k := newFixtureWith(t, hook.Config{
		Hooks: []hook.Hook{{Slug: "h", Unverified: true}},
		Receiver: receiver(func(context.Context, action.Received) (action.Action, bool, error) {
			return action.Action{}, false, errors.Join(errors.New("no"), action.ErrInvalid)
		}),
	})
	k.post("h", nil, nil).want(t, http.StatusInternalServerError, "internal")
}
