package hook_test

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"log/slog"
	"math"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/abidehq/abide/action"
	"github.com/abidehq/abide/action/hook"
	"github.com/abidehq/abide/internal/check"
	"github.com/abidehq/abide/internal/teststore"
)

func service(t testing.TB) *action.Service {
	t.Helper()
	s, err := action.New(action.Config{Store: teststore.New(t), Logger: slog.New(slog.DiscardHandler)})
	check.OK(t, err)
	return s
}

func TestConfig(t *testing.T) {
	t.Parallel()
	const raw = "hidden-hidden-hidden"
	good := hook.Hook{Slug: "s", Tenant: "t", Target: "x", Unverified: true}
	with := func(change func(h *hook.Hook)) hook.Config {
		h := good
		change(&h)
		return hook.Config{Receiver: service(t), Hooks: []hook.Hook{h}}
	}
	verify := func(v hook.Verifier) hook.Config {
		return with(func(h *hook.Hook) { h.Verify, h.Unverified = v, false })
	}
	signed := hook.HMAC{Secrets: secrets(raw), Header: "X-Sig"}
	generic := func(change func(v *hook.HMAC)) hook.Config {
		v := signed
		change(&v)
		return verify(v)
	}
	var many []string
	for i := range action.MaxHeaders - 3 {
		many = append(many, fmt.Sprintf("X-%d", i))
	}
	for _, c := range []struct {
		name string
		cfg  hook.Config
		says string // empty if it is right
	}{
		{"a hook", with(func(*hook.Hook) {}), ""},
		{"no hook", hook.Config{Receiver: service(t)}, ""},
		{"no receiver", hook.Config{Hooks: []hook.Hook{good}}, "no receiver"},
		{"two with one slug", hook.Config{Receiver: service(t), Hooks: []hook.Hook{good, good}}, "two with that slug"},
		{"a negative time", hook.Config{Receiver: service(t), ReadTimeout: -1}, "negative"},
		{"no slug", with(func(h *hook.Hook) { h.Slug = "" }), "slug"},
		{"a slug that is a path", with(func(h *hook.Hook) { h.Slug = "a/b" }), "slug"},
		{"no target", with(func(h *hook.Hook) { h.Target = "" }), "target"},
		{"a long target", with(func(h *hook.Hook) { h.Target = strings.Repeat("x", action.MaxTarget+1) }), "target"},
		{"nothing about senders", with(func(h *hook.Hook) { h.Unverified = false }), "must say so with Unverified"},
		{"both", with(func(h *hook.Hook) { h.Verify = signed }), "said to be unverified"},
		{"the largest body", with(func(h *hook.Hook) { h.MaxBody = action.MaxBody }), ""},
		{"a larger body", with(func(h *hook.Hook) { h.MaxBody = action.MaxBody + 1 }), "at most 2097152"},
		{"a negative body", with(func(h *hook.Hook) { h.MaxBody = -1 }), "-1 bytes"},
		{"no rate", with(func(h *hook.Hook) { h.Rate = math.NaN() }), "rate is not a number"},
		{"a negative burst", with(func(h *hook.Hook) { h.Burst = -1 }), "negative"},
		{"the most headers", with(func(h *hook.Hook) { h.Headers = many }), ""},
		{"more headers", with(func(h *hook.Hook) { h.Headers = append([]string{"X-Y"}, many...) }), "at most 32"},
		{"no name of a header", with(func(h *hook.Hook) { h.Headers = []string{"a b"} }), "not the name of a header"},
		{"a header that opens doors", with(func(h *hook.Hook) { h.Headers = []string{"authorization"} }), "Authorization"},
		{"a signature", with(func(h *hook.Hook) { h.Headers = []string{"x-hub-signature-256"} }), "X-Hub-Signature-256"},
		{"the verifier's signature", hook.Config{Receiver: service(t), Hooks: []hook.Hook{
			{Slug: "s", Tenant: "t", Target: "x", Verify: signed, Headers: []string{"x-sig"}},
		}}, "X-Sig"},
		{"a verifier without a function", verify(broken{}), "no function"},

		{"HMAC", verify(signed), ""},
		{"GitHub without a secret", verify(hook.GitHub{}), "0 secrets"},
		{"too many secrets", verify(hook.GitHub{Secrets: make([]hook.Secret, hook.MaxSecrets+1)}), "9 secrets"},
		{"an empty secret", verify(hook.Slack{Secrets: secrets("")}), "a secret is empty"},
		{"a zero secret", verify(hook.Stripe{Secrets: make([]hook.Secret, 1)}), "a secret is empty"},
		{"another kind of secret", verify(hook.StandardWebhooks{Secrets: secrets(raw)}), "must start with whsec_"},
		{"a long secret", verify(hook.GitHub{Secrets: secrets(strings.Repeat(raw, 1000))}), "at most 4096"},
		{"a negative tolerance", verify(hook.Stripe{Secrets: secrets(raw), Tolerance: -1}), "tolerance"},
		{"a large tolerance", verify(hook.Slack{Secrets: secrets(raw), Tolerance: hook.MaxTolerance + time.Second}), "tolerance"},
		{"no header", generic(func(v *hook.HMAC) { v.Header = "" }), "no name"},
		{"a wrong header", generic(func(v *hook.HMAC) { v.Header = "a:b" }), "not the name"},
		{"one header twice", generic(func(v *hook.HMAC) { v.DeliveryHeader = "x-sig" }), "two things"},
		{"another algorithm", generic(func(v *hook.HMAC) { v.Algorithm = "md5" }), "no algorithm"},
		{"another encoding", generic(func(v *hook.HMAC) { v.Encoding = "hax" }), "no encoding"},
		{"a template without the body", generic(func(v *hook.HMAC) { v.Template = "x" }), "{body} once"},
		{"a template with two", generic(func(v *hook.HMAC) { v.Template = "{body}{body}" }), "{body} once"},
		{"a time that is not signed", generic(func(v *hook.HMAC) { v.TimestampHeader, v.Template = "X-T", "{body}" }), "{timestamp} once"},
		{"a time that is nowhere", generic(func(v *hook.HMAC) { v.Template = "{timestamp}{body}" }), "not if there is none"},
	} {
		t.Run(c.name, func(t *testing.T) {
			t.Parallel()
			h, err := hook.New(c.cfg)
			switch {
			case c.says == "":
				if err != nil || h == nil {
					t.Errorf("the error is %v", err)
				}
			case !errors.Is(err, hook.ErrConfig) || !strings.Contains(err.Error(), c.says) || h != nil:
				t.Errorf("the error is %v, want one that says %q", err, c.says)
			case strings.Contains(err.Error(), raw):
				t.Errorf("the error shows the secret: %v", err)
			}
		})
	}
}

// broken is an incomplete verifier.
type broken struct{}

func (broken) Open() (hook.Scheme, error) { return hook.Scheme{}, nil }

// TestSecretsFromElsewhere sets variables, so it is not run beside others.
func TestSecretsFromElsewhere(t *testing.T) {
	t.Setenv("HOOK_TEST_SECRET", key)
	t.Setenv("HOOK_TEST_EMPTY", "")
	dir := t.TempDir()
	file := func(name, content string) string {
		path := filepath.Join(dir, name)
		check.OK(t, os.WriteFile(path, []byte(content), 0o600))
		return "file:" + path
	}
	for text, says := range map[string]string{
		key:                           "",
		"env:HOOK_TEST_SECRET":        "",
		file("plain", key):            "",
		file("line", key+"\n"):        "",
		file("windows", key+"\r\n"):   "",
		file("two", key+"\n\n"):       "other",
		file("space", key+" "):        "other",
		"env:HOOK_TEST_EMPTY":         `"HOOK_TEST_EMPTY" is empty`,
		"env:HOOK_TEST_NOWHERE":       `"HOOK_TEST_NOWHERE" is empty`,
		"env:":                        "is empty",
		file("empty", "\n"):           "is empty",
		"file:" + dir + "/nowhere":    "no such file",
		file("long", longText("k")):   "at most 4096",
		"ENV:HOOK_TEST_SECRET":        "other",
		"file:" + dir + "/plain/more": "not a directory",
	} {
		scheme, err := hook.GitHub{Secrets: secrets(text)}.Open()
		if err == nil {
			_, err = scheme.Verify(github("1", []byte("{}")), []byte("{}"), noon)
			if errors.Is(err, hook.ErrSignature) {
				err = errors.New("other")
			}
		}
		if (says == "") != (err == nil) || (err != nil && !strings.Contains(err.Error(), says)) {
			t.Errorf("%q: the error is %v, want %q", text, err, says)
		}
	}
}

func longText(s string) string { return strings.Repeat(s, 4097) }

func TestSecretsDoNotPrint(t *testing.T) {
	t.Parallel()
	var s hook.Secret
	check.OK(t, s.UnmarshalText([]byte(strings.Repeat("K", 30))))
	cfg := hook.Hook{Slug: "s", Tenant: "t", Target: "x", Verify: hook.GitHub{Secrets: []hook.Secret{s}}}
	handler, err := hook.New(hook.Config{Receiver: service(t), Hooks: []hook.Hook{cfg}})
	check.OK(t, err)
	var printed bytes.Buffer
	for _, verb := range []string{"%v", "%+v", "%#v", "%s", "%q", "%x", "%X", "%d"} {
		for _, value := range []any{s, &s, cfg, &cfg, cfg.Verify, handler, open(t, cfg.Verify)} {
			fmt.Fprintf(&printed, verb+"\n", value)
		}
	}
	asJSON, err := json.Marshal(cfg)
	check.OK(t, err)
	printed.Write(asJSON)
	slog.New(slog.NewTextHandler(&printed, nil)).Info("text", "secret", s, "hook", cfg)
	slog.New(slog.NewJSONHandler(&printed, nil)).Info("json", "secret", s, "hook", cfg)
	for _, shown := range []string{"KKKK", "4b4b4b4b", "4B4B4B4B", "75 75 75", "0x4b, 0x4b"} {
		if strings.Contains(printed.String(), shown) {
			t.Errorf("%s is printed in\n%s", shown, &printed)
		}
	}
	if !strings.Contains(printed.String(), "REDACTED") {
		t.Error("what is printed does not say that something is hidden")
	}
}
