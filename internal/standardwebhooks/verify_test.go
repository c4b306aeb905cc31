package standardwebhooks

import (
	"encoding/base64"
	"errors"
	"net/http"
	"strconv"
	"strings"
	"testing"
	"time"

	sdk "github.com/standard-webhooks/standard-webhooks/libraries/go"
	"pgregory.net/rapid"

	"github.com/abidehq/abide/internal/check"
)

var noon = time.Date(2026, 3, 1, 12, 0, 0, 0, time.UTC)

const tolerance = 5 * time.Minute

// TestPublishedVector is the example that the SDKs of all languages are tested with.
func TestPublishedVector(t *testing.T) {
	t.Parallel()
	secret := parse(t, "whsec_MfKQ9r8GKYqrTwjUPD8ILPZIo2LaLaSw")
	id, at, body := "msg_p5jXN8AQM9LWM0D4loKWxJek", time.Unix(1614265330, 0), []byte(`{"test": 2432232314}`)
	header := Sign(id, at, body, secret)
	for name, want := range map[string]string{
		"webhook-id":        id,
		"webhook-timestamp": "1614265330",
		"webhook-signature": "v1,g0hM9SsE+OTPJTGt/tmIKtSyZlE3uFJELVlNIOLJ1OE=",
	} {
		if got := header.Get(name); got != want {
			t.Errorf("%s is %q, want %q", name, got, want)
		}
	}
	if got, err := Verify(header, body, at, tolerance, secret); got != id || err != nil {
		t.Errorf("verified as %q, %v", got, err)
	}
}

// TestAgainstTheSDK signs here and verifies there, and the other way round.
func TestAgainstTheSDK(t *testing.T) {
	t.Parallel()
	rapid.Check(t, func(r *rapid.T) {
		key := rapid.SliceOfN(rapid.Byte(), MinKey, MaxKey).Draw(r, "key")
		id := rapid.StringMatching(`[!-~]{1,60}`).Filter(validID).Draw(r, "id")
		body := rapid.SliceOf(rapid.Byte()).Draw(r, "body")
		at := time.Unix(rapid.Int64Range(0, 1<<33).Draw(r, "at"), rapid.Int64Range(0, 999_999_999).Draw(r, "ns"))
		text := SecretPrefix + base64.StdEncoding.EncodeToString(key)
		secret, err := ParseSecret(text)
		if err != nil {
			r.Fatal(err)
		}
		theirs, err := sdk.NewWebhook(text)
		if err != nil {
			r.Fatal(err)
		}

		header := Sign(id, at, body, parse(t, secretOf(24)), secret)
		if err := theirs.VerifyIgnoringTimestamp(body, header); err != nil {
			r.Errorf("the SDK refuses what we signed: %v", err)
		}
		signature, err := theirs.Sign(id, at, body)
		if err != nil {
			r.Fatal(err)
		}
		header.Set("webhook-signature", signature)
		if got, err := Verify(header, body, at, tolerance, secret); got != id || err != nil {
			r.Errorf("we read what the SDK signed as %q, %v", got, err)
		}
		if _, err := Verify(header, append(body, ' '), at, tolerance, secret); !errors.Is(err, ErrSignature) {
			r.Errorf("with another body it verifies: %v", err)
		}
	})
}

func TestVerify(t *testing.T) {
	t.Parallel()
	const id = "msg_1"
	body := []byte(`{"n":1}`)
	mine, other := parse(t, secretOf(24)), parse(t, secretOf(25))
	good := Sign(id, noon, body, mine).Get(HeaderSignature)
	bad := Sign(id, noon, body, other).Get(HeaderSignature)
	set := func(name, value string) func(http.Header) {
		return func(h http.Header) { h.Set(name, value) }
	}
	for _, c := range []struct {
		name   string
		change func(http.Header)
		want   error
	}{
		{"as it was signed", func(http.Header) {}, nil},
		{"without an id", func(h http.Header) { h.Del(HeaderID) }, ErrMissing},
		{"without a timestamp", func(h http.Header) { h.Del(HeaderTimestamp) }, ErrMissing},
		{"without a signature", func(h http.Header) { h.Del(HeaderSignature) }, ErrMissing},
		{"an empty id", set(HeaderID, ""), ErrMissing},
		{"an empty timestamp", set(HeaderTimestamp, ""), ErrMissing},
		{"an empty signature", set(HeaderSignature, ""), ErrMissing},
		{"two ids", func(h http.Header) { h.Add(HeaderID, id) }, ErrMalformed},
		{"two timestamps", func(h http.Header) { h.Add(HeaderTimestamp, "1") }, ErrMalformed},
		{"two headers of signatures", func(h http.Header) { h.Add(HeaderSignature, good) }, ErrMalformed},
		{"a space in the id", set(HeaderID, "msg 1"), ErrMalformed},
		{"an id that is not ASCII", set(HeaderID, "msg_é"), ErrMalformed},
		{"a number after a full stop in the id", set(HeaderID, "msg.1"), ErrMalformed},
		{"a number between full stops in the id", set(HeaderID, "msg.1.a"), ErrMalformed},
		{"another id, with a full stop", set(HeaderID, "msg.a"), ErrSignature},
		{"a timestamp in words", set(HeaderTimestamp, "noon"), ErrMalformed},
		{"a timestamp with a sign", func(h http.Header) { h.Set(HeaderTimestamp, "+"+h.Get(HeaderTimestamp)) }, ErrMalformed},
		{"a timestamp with a fraction", func(h http.Header) { h.Set(HeaderTimestamp, h.Get(HeaderTimestamp)+".5") }, ErrMalformed},
		{"a timestamp that overflows", set(HeaderTimestamp, strings.Repeat("9", 30)), ErrMalformed},
		{"the last timestamp", set(HeaderTimestamp, strconv.Itoa(1<<40-1)), ErrStale},
		{"another id", set(HeaderID, "msg_2"), ErrSignature},
		{"another timestamp", set(HeaderTimestamp, strconv.FormatInt(noon.Unix()+1, 10)), ErrSignature},
		{"another's signature", set(HeaderSignature, bad), ErrSignature},
		{"only spaces", set(HeaderSignature, "   "), ErrSignature},
		{"no version", set(HeaderSignature, strings.TrimPrefix(good, "v1,")), ErrSignature},
		{"another version", set(HeaderSignature, strings.Replace(good, "v1,", "v2,", 1)), ErrSignature},
		{"the asymmetric version", set(HeaderSignature, strings.Replace(good, "v1,", "v1a,", 1)), ErrSignature},
		{"half a signature", set(HeaderSignature, good[:len(good)/2]), ErrSignature},
		{"a version with nothing", set(HeaderSignature, "v1,"), ErrSignature},
		{"nothing with a version", set(HeaderSignature, "v1"), ErrSignature},
		{"unknown versions beside it", set(HeaderSignature, "v0 v1a,xyz "+good+" v2,abc"), nil},
		{"broken ones before it", set(HeaderSignature, "v1 v1, v1,!!! "+good), nil},
		{"the last of many", set(HeaderSignature, strings.Repeat(bad+" ", 1000)+good), nil},
		{"many of others", set(HeaderSignature, strings.Repeat(bad+" ", 1000)), ErrSignature},
		{"several spaces", set(HeaderSignature, bad+"   "+good+" "), nil},
	} {
		t.Run(c.name, func(t *testing.T) {
			t.Parallel()
			header := Sign(id, noon, body, mine)
			c.change(header)
			got, err := Verify(header, body, noon, tolerance, mine)
			if !errors.Is(err, c.want) || (c.want == nil) != (got == id) || (c.want != nil && got != "") {
				t.Errorf("verified as %q, %v, want %v", got, err, c.want)
			}
		})
	}
}

// TestMovedFullStop is why an id cannot have everything after a full stop: the same
// bytes are signed here for two different webhooks.
func TestMovedFullStop(t *testing.T) {
	t.Parallel()
	secret := parse(t, secretOf(24))
	second := strconv.FormatInt(noon.Unix(), 10)
	for _, id := range []string{"msg_1", "msg.a", "."} {
		signed := Sign(id, noon, []byte(second+".pay"), secret)
		moved := http.Header{
			HeaderID:        {id + "." + second},
			HeaderTimestamp: {second},
			HeaderSignature: signed.Values(HeaderSignature),
		}
		if id, err := Verify(moved, []byte("pay"), noon, tolerance, secret); !errors.Is(err, ErrMalformed) {
			t.Errorf("a webhook that nobody signed is verified as %q, %v", id, err)
		}
	}
}

// TestOneWayToRead: whatever full stops there are, what is signed can be cut in one place
// only such that it is accepted.
func TestOneWayToRead(t *testing.T) {
	t.Parallel()
	secret := parse(t, secretOf(24))
	second := strconv.FormatInt(noon.Unix(), 10)
	rapid.Check(t, func(r *rapid.T) {
		parts := rapid.SliceOfN(rapid.SampledFrom([]string{"", "a", "7", "0" + second, second}), 3, 8).Draw(r, "parts")
		var accepted []string
		for i := 1; i < len(parts)-1; i++ {
			id, body := strings.Join(parts[:i], "."), strings.Join(parts[i+1:], ".")
			header := http.Header{HeaderID: {id}, HeaderTimestamp: {parts[i]}}
			header.Set(HeaderSignature, "v1,"+base64.StdEncoding.EncodeToString(secret.sum(id, parts[i], []byte(body))))
			if got, err := Verify(header, []byte(body), noon, tolerance, secret); err == nil {
				accepted = append(accepted, got)
			}
		}
		if len(accepted) > 1 {
			r.Errorf("%q is accepted with the ids %q", parts, accepted)
		}
	})
}

func TestFullStopsInTheID(t *testing.T) {
	t.Parallel()
	secret := parse(t, secretOf(24))
	for _, id := range []string{"msg.a", "evt.order.x-1", "a..b", ".", "1.a", "a." + strings.Repeat("9", 20)} {
		header := Sign(id, noon, []byte("{}"), secret)
		if got, err := Verify(header, []byte("{}"), noon, tolerance, secret); got != id || err != nil {
			t.Errorf("%q is verified as %q, %v", id, got, err)
		}
	}
}

func TestTolerance(t *testing.T) {
	t.Parallel()
	secret := parse(t, secretOf(24))
	header := Sign("msg_1", noon, nil, secret)
	for _, c := range []struct {
		name string
		now  time.Time
		want error
	}{
		{"at once", noon, nil},
		{"exactly at the tolerance", noon.Add(tolerance), nil},
		{"just after it", noon.Add(tolerance + 1), ErrStale},
		{"exactly as far in the future", noon.Add(-tolerance), nil},
		{"further in the future", noon.Add(-tolerance - 1), ErrStale},
		{"centuries later", noon.AddDate(1000, 0, 0), ErrStale},
		{"before 1970", time.Unix(-1, 0), ErrStale},
	} {
		t.Run(c.name, func(t *testing.T) {
			t.Parallel()
			if _, err := Verify(header, nil, c.now, tolerance, secret); !errors.Is(err, c.want) {
				t.Errorf("the error is %v, want %v", err, c.want)
			}
		})
	}
}

func TestRotation(t *testing.T) {
	t.Parallel()
	before, after, other := parse(t, secretOf(24)), parse(t, secretOf(25)), parse(t, secretOf(26))
	header := Sign("msg_1", noon, []byte("{}"), before, after)
	check.Equal(t, "signatures of two secrets", len(strings.Fields(header.Get(HeaderSignature))), 2)
	for _, c := range []struct {
		name  string
		known []Secret
		want  error
	}{
		{"a receiver with the old secret", []Secret{before}, nil},
		{"one with the new secret", []Secret{after}, nil},
		{"one with both", []Secret{after, before}, nil},
		{"one with another first", []Secret{other, after}, nil},
		{"one with another only", []Secret{other}, ErrSignature},
		{"one with none", nil, ErrSignature},
	} {
		t.Run(c.name, func(t *testing.T) {
			t.Parallel()
			if _, err := Verify(header, []byte("{}"), noon, tolerance, c.known...); !errors.Is(err, c.want) {
				t.Errorf("the error is %v, want %v", err, c.want)
			}
		})
	}
}

// TestZeroSecret: a secret that somebody forgot to set must not become an empty key,
// which everybody knows.
func TestZeroSecret(t *testing.T) {
	t.Parallel()
	if header := Sign("msg_1", noon, nil, Secret{}); header.Get(HeaderSignature) != "" {
		t.Error("signed with no secret")
	}
	empty := Sign("msg_1", noon, nil, Secret{key: func() []byte { return nil }})
	if _, err := Verify(empty, nil, noon, tolerance, Secret{}); !errors.Is(err, ErrSignature) {
		t.Errorf("verified with no secret: %v", err)
	}
}
