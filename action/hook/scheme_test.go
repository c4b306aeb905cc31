package hook_test

import (
	"crypto/hmac"
	"crypto/sha1"
	"crypto/sha512"
	"encoding/base64"
	"encoding/hex"
	"errors"
	"hash"
	"net/http"
	"strings"
	"testing"
	"time"

	"github.com/abidehq/abide/action/hook"
	"github.com/abidehq/abide/internal/check"
)

// open returns the scheme of a verifier.
func open(t testing.TB, v hook.Verifier) hook.Scheme {
	t.Helper()
	s, err := v.Open()
	check.OK(t, err)
	return s
}

func secrets(texts ...string) []hook.Secret {
	var all []hook.Secret
	for _, text := range texts {
		all = append(all, hook.NewSecret(text))
	}
	return all
}

const (
	// standardSecret and standardID are of the example of Standard Webhooks.
	standardSecret = "whsec_MfKQ9r8GKYqrTwjUPD8ILPZIo2LaLaSw"
	standardID     = "msg_p5jXN8AQM9LWM0D4loKWxJek"

	slackBody = "token=xyzz0WbapA4vBCDEFasx0q6G&team_id=T1DC2JH3J&team_domain=testteamnow&channel_id=G8PSS9T3V" +
		"&channel_name=foobar&user_id=U2CERLKJA&user_name=roadrunner&command=%2Fwebhook-collect&text=" +
		"&response_url=https%3A%2F%2Fhooks.slack.com%2Fcommands%2FT1DC2JH3J%2F397700885554%2F96rGlfmibIGlgcZRskXaIFfN" +
		"&trigger_id=398738663015.47445629121.803a0bc887a14d10d2c447fce8b6703c"
)

// TestPublishedVectors are the examples in the documentation of the providers. For Stripe
// there is none, and HMAC stands in for others with the same bytes.
func TestPublishedVectors(t *testing.T) {
	t.Parallel()
	const githubSum = "757107ea0eb2509fc211221cce984b8a37570b6d7586c22c46f4379c8b043e17"
	for _, c := range []struct {
		name     string
		verifier hook.Verifier
		header   http.Header
		body     string
		at       int64
		delivery string // empty if it is that of the body
	}{
		{
			"GitHub", hook.GitHub{Secrets: secrets("It's a Secret to Everybody")},
			header("X-Hub-Signature-256", "sha256="+githubSum, "X-GitHub-Delivery", "72d3162e-cc78-11e3-81ab-4c9367dc0958"),
			"Hello, World!", 0, "72d3162e-cc78-11e3-81ab-4c9367dc0958",
		},
		{
			"GitHub, in a header of another", hook.HMAC{Secrets: secrets("It's a Secret to Everybody"), Header: "X-Sum", DeliveryHeader: "X-Id"},
			header("X-Sum", strings.ToUpper(githubSum), "X-Id", "1"), "Hello, World!", 0, "1",
		},
		{
			"Slack", hook.Slack{Secrets: secrets("8f742231b10e8888abcd99yyyzzz85a5")},
			header("X-Slack-Request-Timestamp", "1531420618",
				"X-Slack-Signature", "v0=a2114d57b48eac39b9ad189dd8316235a7b4a8d21a10bd27519666489c69b503"),
			slackBody, 1531420618, "",
		},
		{
			"Standard Webhooks", hook.StandardWebhooks{Secrets: secrets(standardSecret)},
			header("webhook-id", standardID, "webhook-timestamp", "1614265330",
				"webhook-signature", "v1,g0hM9SsE+OTPJTGt/tmIKtSyZlE3uFJELVlNIOLJ1OE="),
			`{"test": 2432232314}`, 1614265330, standardID,
		},
	} {
		t.Run(c.name, func(t *testing.T) {
			t.Parallel()
			scheme := open(t, c.verifier)
			got, err := scheme.Verify(c.header, []byte(c.body), time.Unix(c.at, 0))
			if err != nil || got == "" || (c.delivery != "" && got != c.delivery) {
				t.Errorf("it is verified as %q, %v", got, err)
			}
			if got, err := scheme.Verify(c.header, []byte(c.body+" "), time.Unix(c.at, 0)); !errors.Is(err, hook.ErrSignature) || got != "" {
				t.Errorf("with another body it is verified as %q, %v", got, err)
			}
		})
	}
}

// signer signs with one key as the senders of a verifier do, and says which header has
// the signature and which the time.
type signer struct {
	name      string
	verifier  func(keys ...string) hook.Verifier
	sign      func(key string, at time.Time, body string) http.Header
	signature string
	timestamp string // empty if there is none
}

const (
	keyA = "whsec_QUFBQUFBQUFBQUFBQUFBQUFBQUFBQUFB"
	keyB = "whsec_QkJCQkJCQkJCQkJCQkJCQkJCQkJCQkJC"
	keyC = "whsec_Q0NDQ0NDQ0NDQ0NDQ0NDQ0NDQ0NDQ0ND"
)

var signers = []signer{
	{
		"Standard Webhooks",
		func(keys ...string) hook.Verifier { return hook.StandardWebhooks{Secrets: secrets(keys...)} },
		func(key string, at time.Time, body string) http.Header {
			raw, _ := base64.StdEncoding.DecodeString(strings.TrimPrefix(key, "whsec_"))
			return header("webhook-id", "msg_1", "webhook-timestamp", unix(at),
				"webhook-signature", "v1,"+base64.StdEncoding.EncodeToString(sum(string(raw), "msg_1.", unix(at), ".", body)))
		},
		"Webhook-Signature", "Webhook-Timestamp",
	},
	{
		"GitHub",
		func(keys ...string) hook.Verifier { return hook.GitHub{Secrets: secrets(keys...)} },
		func(key string, _ time.Time, body string) http.Header {
			return header("X-Hub-Signature-256", "sha256="+hexSum(key, body), "X-GitHub-Delivery", "d-1")
		},
		"X-Hub-Signature-256", "",
	},
	{
		"Stripe",
		func(keys ...string) hook.Verifier { return hook.Stripe{Secrets: secrets(keys...)} },
		func(key string, at time.Time, body string) http.Header {
			return header("Stripe-Signature", "t="+unix(at)+",v1="+hexSum(key, unix(at), ".", body)+",v0="+strings.Repeat("6", 64))
		},
		"Stripe-Signature", "",
	},
	{
		"Slack",
		func(keys ...string) hook.Verifier { return hook.Slack{Secrets: secrets(keys...)} },
		func(key string, at time.Time, body string) http.Header {
			return header("X-Slack-Request-Timestamp", unix(at), "X-Slack-Signature", "v0="+hexSum(key, "v0:", unix(at), ":", body))
		},
		"X-Slack-Signature", "X-Slack-Request-Timestamp",
	},
	{
		"HMAC with a time",
		func(keys ...string) hook.Verifier {
			return hook.HMAC{
				Secrets: secrets(keys...), Header: "X-Sig", Prefix: "s=", TimestampHeader: "X-Time",
				Template: "<{body}|{timestamp}>", DeliveryHeader: "X-Id",
			}
		},
		func(key string, at time.Time, body string) http.Header {
			return header("X-Sig", "s="+hexSum(key, "<", body, "|", unix(at), ">"), "X-Time", unix(at), "X-Id", "1")
		},
		"X-Sig", "X-Time",
	},
	{
		"HMAC in base64",
		func(keys ...string) hook.Verifier {
			return hook.HMAC{Secrets: secrets(keys...), Header: "X-Sig", Encoding: hook.Base64}
		},
		func(key string, _ time.Time, body string) http.Header {
			return header("X-Sig", base64.StdEncoding.EncodeToString(sum(key, body)))
		},
		"X-Sig", "",
	},
}

// TestSignatures has each scheme refuse what its rules refuse.
func TestSignatures(t *testing.T) {
	t.Parallel()
	const body = `{"n":1}`
	for _, s := range signers {
		scheme := open(t, s.verifier(keyA))
		type edit = func(h http.Header)
		change := func(name string, f func(string) string) edit {
			return func(h http.Header) { h.Set(name, f(h.Get(name))) }
		}
		cases := []struct {
			name   string
			change edit
			want   error // nil if it must verify
		}{
			{"as it was signed", func(http.Header) {}, nil},
			{"missing", func(h http.Header) { h.Del(s.signature) }, hook.ErrMissing},
			{"empty", func(h http.Header) { h.Set(s.signature, "") }, hook.ErrMissing},
			{"twice", func(h http.Header) { h.Add(s.signature, h.Get(s.signature)) }, hook.ErrMalformed},
			{"too long", change(s.signature, func(v string) string { return v + strings.Repeat("0", 5000) }), errAny},
			{"cut", change(s.signature, func(v string) string { return v[:len(v)/2] }), errAny},
			{"without what stands before it", change(s.signature, func(v string) string { return v[3:] }), errAny},
			{"of nothing", func(h http.Header) { h.Set(s.signature, "=") }, errAny},
			{"with a byte of no alphabet", change(s.signature, func(v string) string { return v[:20] + "\x00" + v[21:] }), errAny},
			{"by another key", func(h http.Header) { h.Set(s.signature, s.sign(keyB, noon, body).Get(s.signature)) }, hook.ErrSignature},
			{"of another body", func(h http.Header) { h.Set(s.signature, s.sign(keyA, noon, "{}").Get(s.signature)) }, hook.ErrSignature},
			{"of no body", func(h http.Header) { h.Set(s.signature, s.sign(keyA, noon, "").Get(s.signature)) }, hook.ErrSignature},
		}
		if s.timestamp != "" {
			cases = append(cases, []struct {
				name   string
				change edit
				want   error
			}{
				{"without a time", func(h http.Header) { h.Del(s.timestamp) }, hook.ErrMissing},
				{"with two times", func(h http.Header) { h.Add(s.timestamp, unix(noon)) }, hook.ErrMalformed},
				{"with another time", func(h http.Header) { h.Set(s.timestamp, unix(noon.Add(time.Second))) }, hook.ErrSignature},
				{"with a time in words", func(h http.Header) { h.Set(s.timestamp, "noon") }, hook.ErrMalformed},
				{"with a sign before the time", change(s.timestamp, func(v string) string { return "+" + v }), hook.ErrMalformed},
				{"with a time that overflows", func(h http.Header) { h.Set(s.timestamp, strings.Repeat("9", 30)) }, hook.ErrMalformed},
			}...)
		}
		for _, c := range cases {
			t.Run(s.name+"/"+c.name, func(t *testing.T) {
				t.Parallel()
				h := s.sign(keyA, noon, body)
				c.change(h)
				got, err := scheme.Verify(h, []byte(body), noon)
				switch {
				case c.want == nil:
					if err != nil {
						t.Errorf("refused: %v", err)
					}
				case err == nil || got != "", !errors.Is(c.want, errAny) && !errors.Is(err, c.want):
					t.Errorf("verified as %q, %v, want %v", got, err, c.want)
				default:
					quiet(t, err.Error(), h.Get(s.signature))
				}
			})
		}
	}
}

// errAny stands for any error.
var errAny = errors.New("any")

// quiet checks that a text shows neither a secret nor a signature.
func quiet(t *testing.T, text string, hidden ...string) {
	t.Helper()
	for _, part := range append(hidden, keyA, "QUFBQUFB", key) {
		if len(part) > 8 && strings.Contains(text, part) {
			t.Errorf("%q shows %q", text, part)
		}
	}
}

func TestTolerance(t *testing.T) {
	t.Parallel()
	const five = 5 * time.Minute
	for _, s := range signers {
		if s.name == "GitHub" || s.name == "HMAC in base64" {
			continue // they have no time
		}
		scheme := open(t, s.verifier(keyA))
		for _, c := range []struct {
			name string
			now  time.Time
			ok   bool
		}{
			{"at the end", noon.Add(five), true},
			{"stale", noon.Add(five + 1), false},
			{"long ago", noon.AddDate(20, 0, 0), false},
			{"as far in the future", noon.Add(-five), true},
			{"further in the future", noon.Add(-five - 1), false},
		} {
			t.Run(s.name+"/"+c.name, func(t *testing.T) {
				t.Parallel()
				_, err := scheme.Verify(s.sign(keyA, noon, "{}"), []byte("{}"), c.now)
				if c.ok != (err == nil) || (!c.ok && !errors.Is(err, hook.ErrStale)) {
					t.Errorf("the error is %v", err)
				}
			})
		}
	}
}

// TestRotation: while a secret is replaced, both count, and after that one does.
func TestRotation(t *testing.T) {
	t.Parallel()
	for _, s := range signers {
		t.Run(s.name, func(t *testing.T) {
			t.Parallel()
			both := open(t, s.verifier(keyA, keyB))
			for key, ok := range map[string]bool{keyA: true, keyB: true, keyC: false} {
				if _, err := both.Verify(s.sign(key, noon, "{}"), []byte("{}"), noon); ok != (err == nil) {
					t.Errorf("with %s, the error is %v", key, err)
				}
			}
			if _, err := open(t, s.verifier(keyB)).Verify(s.sign(keyA, noon, "{}"), []byte("{}"), noon); err == nil {
				t.Error("the secret that was replaced still counts")
			}
		})
	}
}

// TestStripeHeader: several signatures may stand there, and what is not known is passed
// over.
func TestStripeHeader(t *testing.T) {
	t.Parallel()
	at := unix(noon)
	good, bad := "v1="+hexSum(key, at, ".{}"), "v1="+hexSum("another", at, ".{}")
	scheme := open(t, hook.Stripe{Secrets: secrets(key)})
	for _, c := range []struct {
		name, value string
		want        error
	}{
		{"another first", "t=" + at + "," + bad + "," + good, nil},
		{"another last", "t=" + at + "," + good + "," + bad, nil},
		{"the time last", good + ",t=" + at, nil},
		{"spaces", "t=" + at + ", " + good, nil},
		{"capital letters", "t=" + at + ",v1=" + strings.ToUpper(good[3:]), nil},
		{"a broken one beside it", "t=" + at + ",v1=xyz,v1=,v1,=,,nothing," + good, nil},
		{"only others", "t=" + at + "," + bad + "," + bad, hook.ErrSignature},
		{"another version", "t=" + at + "," + strings.Replace(good, "v1", "v0", 1), hook.ErrMalformed},
		{"two times", "t=" + at + ",t=" + at + "," + good, hook.ErrMalformed},
		{"no time", good, hook.ErrMalformed},
		{"an empty time", "t=," + good, hook.ErrMalformed},
		{"a time that begins with 0", "t=0" + at + ",v1=" + hexSum(key, "0"+at, ".{}"), hook.ErrMalformed},
		{"another time", "t=" + unix(noon.Add(1*time.Second)) + "," + good, hook.ErrSignature},
		{"only commas", ",,,", hook.ErrMalformed},
	} {
		t.Run(c.name, func(t *testing.T) {
			t.Parallel()
			_, err := scheme.Verify(header("Stripe-Signature", c.value), []byte("{}"), noon)
			check.Error(t, err, c.want)
		})
	}
}

func TestAlgorithms(t *testing.T) {
	t.Parallel()
	for algorithm, newHash := range map[hook.Algorithm]func() hash.Hash{hook.SHA512: sha512.New, hook.SHA1: sha1.New} {
		mac := hmac.New(newHash, []byte(key))
		mac.Write([]byte("{}"))
		h := header("X-Sig", hex.EncodeToString(mac.Sum(nil)))
		scheme := open(t, hook.HMAC{Secrets: secrets(key), Header: "X-Sig", Algorithm: algorithm})
		if _, err := scheme.Verify(h, []byte("{}"), noon); err != nil {
			t.Errorf("%s: %v", algorithm, err)
		}
		if _, err := open(t, hook.HMAC{Secrets: secrets(key), Header: "X-Sig"}).Verify(h, []byte("{}"), noon); !errors.Is(err, hook.ErrSignature) {
			t.Errorf("%s counts where nobody has asked for it: %v", algorithm, err)
		}
	}
}

// TestDeliveryIDs: a provider that names its deliveries must do so, in a way that can be
// kept.
func TestDeliveryIDs(t *testing.T) {
	t.Parallel()
	for _, c := range []struct {
		name string
		ids  []string
		want int
	}{
		{"the longest", []string{strings.Repeat("x", hook.MaxDelivery)}, http.StatusAccepted},
		{"too long", []string{strings.Repeat("x", hook.MaxDelivery+1)}, http.StatusBadRequest},
		{"missing", nil, http.StatusBadRequest},
		{"empty", []string{""}, http.StatusBadRequest},
		{"two", []string{"a", "b"}, http.StatusBadRequest},
		{"a space", []string{"a b"}, http.StatusBadRequest},
		{"not ASCII", []string{"é"}, http.StatusBadRequest},
	} {
		t.Run(c.name, func(t *testing.T) {
			t.Parallel()
			k := newFixture(t, githubHook("gh"))
			h := github("", []byte("{}"))
			delete(h, "X-Github-Delivery")
			if c.ids != nil {
				h["X-Github-Delivery"] = c.ids
			}
			got := k.post("gh", h, []byte("{}"))
			if c.want == http.StatusAccepted {
				if got.Status != c.want {
					t.Errorf("the answer is %d %s", got.Status, got.Text)
				}
				return
			}
			got.want(t, c.want, "delivery_id_invalid")
			k.none()
		})
	}
}
