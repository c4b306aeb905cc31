package hook_test

import (
	"bytes"
	"context"
	"crypto/hmac"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"io"
	"log/slog"
	"maps"
	"net/http"
	"net/http/httptest"
	"strconv"
	"testing"
	"time"

	"go.opentelemetry.io/otel/attribute"
	sdk "go.opentelemetry.io/otel/sdk/metric"
	"go.opentelemetry.io/otel/sdk/metric/metricdata"

	"github.com/abidehq/abide/action"
	"github.com/abidehq/abide/action/hook"
	"github.com/abidehq/abide/internal/base"
	"github.com/abidehq/abide/internal/check"
	"github.com/abidehq/abide/internal/rig"
	"github.com/abidehq/abide/internal/teststore"
	"github.com/abidehq/abide/store"
)

var noon = time.Date(2026, 3, 1, 12, 0, 0, 0, time.UTC)

const (
	tenant = "acme"
	key    = "a key that nobody may see"
)

func TestMain(m *testing.M) { teststore.Main(m) }

// fixture is a handler behind a real server, with a service and a store of its own.
type fixture struct {
	t       *testing.T
	store   store.Store
	service *action.Service
	clock   *base.Manual
	log     *rig.Log
	reader  *sdk.ManualReader
	server  *httptest.Server

	requests chan context.Context // of each request when it came
	served   chan struct{}        // one for each request that was served
}

func newFixture(t *testing.T, hooks ...hook.Hook) *fixture {
	return newFixtureWith(t, hook.Config{Hooks: hooks})
}

func newFixtureWith(t *testing.T, cfg hook.Config) *fixture {
	t.Helper()
	k := &fixture{
		t: t, store: teststore.New(t), clock: base.NewManual(noon), log: &rig.Log{},
		reader: sdk.NewManualReader(), requests: make(chan context.Context, 1000), served: make(chan struct{}, 1000),
	}
	logger := k.log.Logger(slog.LevelDebug)
	var err error
	if k.service, err = action.New(action.Config{Store: k.store, Logger: logger}); err != nil {
		t.Fatal(err)
	}
	if cfg.Receiver == nil {
		cfg.Receiver = k.service
	}
	cfg.Logger, cfg.Clock, cfg.MeterProvider = logger, k.clock, sdk.NewMeterProvider(sdk.WithReader(k.reader))
	for i := range cfg.Hooks {
		cfg.Hooks[i].Tenant, cfg.Hooks[i].Target = tenant, "target"
	}
	handler, err := hook.New(cfg)
	check.OK(t, err)
	k.server = httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		k.requests <- r.Context()
		defer func() { k.served <- struct{}{} }()
		handler.ServeHTTP(w, r)
	}))
	t.Cleanup(k.server.Close)
	return k
}

// answer is what a sender gets.
type answer struct {
	Status int
	Header http.Header
	ID     string `json:"id"`
	Code   string `json:"code"`
	Text   string
}

// post sends a webhook.
func (k *fixture) post(slug string, header http.Header, body []byte) answer {
	k.t.Helper()
	return k.send(http.MethodPost, slug, header, bytes.NewReader(body))
}

func (k *fixture) send(method, slug string, header http.Header, body io.Reader) answer {
	k.t.Helper()
	got, err := send(k.t.Context(), method, k.server.URL+"/hooks/"+slug, header, body)
	check.OK(k.t, err)
	return got
}

func send(ctx context.Context, method, url string, header http.Header, body io.Reader) (answer, error) {
	req, err := http.NewRequestWithContext(ctx, method, url, body)
	if err != nil {
		return answer{}, err
	}
	maps.Copy(req.Header, header)
	resp, err := http.DefaultClient.Do(req)
	if err != nil {
		return answer{}, err
	}
	defer resp.Body.Close()
	got := answer{Status: resp.StatusCode, Header: resp.Header}
	text, err := io.ReadAll(resp.Body)
	if err != nil {
		return answer{}, err
	}
	got.Text = string(text)
	if len(text) > 0 {
		err = json.Unmarshal(text, &got)
	}
	return got, err
}

// want checks a refusal, and that it is a problem as RFC 9457 has it.
func (a answer) want(t *testing.T, status int, code string) {
	t.Helper()
	var p struct {
		Type, Title, Code string
		Status            int
	}
	if err := json.Unmarshal([]byte(a.Text), &p); err != nil {
		t.Fatalf("%d is answered with %q: %v", a.Status, a.Text, err)
	}
	if a.Status != status || p.Code != code || p.Status != status || p.Type != "about:blank" || p.Title == "" ||
		a.Header.Get("Content-Type") != "application/problem+json" {
		t.Errorf("the answer is %d %v %s, want %d with code %s", a.Status, a.Header, a.Text, status, code)
	}
}

// actions returns all actions.
func (k *fixture) actions() []action.Action {
	k.t.Helper()
	return check.All(k.t, k.service.All(k.t.Context(), action.Filter{Tenant: tenant}))
}

// none checks that nothing is kept.
func (k *fixture) none() {
	k.t.Helper()
	if all := k.actions(); len(all) > 0 {
		k.t.Errorf("%d webhooks are kept: %+v", len(all), all)
	}
}

// kept returns an action and its body.
func (k *fixture) kept(id string) (action.Action, []byte) {
	k.t.Helper()
	a, err := k.service.Get(k.t.Context(), tenant, id)
	check.OK(k.t, err)
	body, err := k.service.Body(k.t.Context(), tenant, id)
	check.OK(k.t, err)
	return a, body
}

// outcomes returns how many requests were counted, by outcome.
func (k *fixture) outcomes() map[string]int64 {
	k.t.Helper()
	var all metricdata.ResourceMetrics
	check.OK(k.t, k.reader.Collect(context.Background(), &all))
	found := map[string]int64{}
	for _, scope := range all.ScopeMetrics {
		for _, m := range scope.Metrics {
			if sum, ok := m.Data.(metricdata.Sum[int64]); ok && m.Name == "abide.hook.requests" {
				for _, p := range sum.DataPoints {
					label, _ := p.Attributes.Value(attribute.Key("outcome"))
					found[label.AsString()] = p.Value
				}
			}
		}
	}
	return found
}

// sum is an HMAC, by nothing but the standard library.
func sum(key string, parts ...string) []byte {
	mac := hmac.New(sha256.New, []byte(key))
	for _, p := range parts {
		mac.Write([]byte(p))
	}
	return mac.Sum(nil)
}

func hexSum(key string, parts ...string) string { return hex.EncodeToString(sum(key, parts...)) }

func unix(at time.Time) string { return strconv.FormatInt(at.Unix(), 10) }

// header makes one of names and values.
func header(pairs ...string) http.Header {
	h := http.Header{}
	for i := 0; i < len(pairs); i += 2 {
		h.Add(pairs[i], pairs[i+1])
	}
	return h
}

// github signs as GitHub does.
func github(delivery string, body []byte) http.Header {
	return header("X-Hub-Signature-256", "sha256="+hexSum(key, string(body)), "X-GitHub-Delivery", delivery, "X-GitHub-Event", "push")
}

func githubHook(slug string) hook.Hook {
	return hook.Hook{Slug: slug, Verify: hook.GitHub{Secrets: []hook.Secret{hook.NewSecret(key)}}}
}
