package auth

import (
	"crypto/ecdsa"
	"crypto/sha256"
	"encoding/base64"
	"encoding/json"
	"maps"
	"net/http"
	"net/http/httptest"
	"net/url"
	"sync"
	"testing"
	"time"

	"github.com/go-jose/go-jose/v4"
	"github.com/go-jose/go-jose/v4/jwt"

	"github.com/abidehq/abide/internal/base"
)

const (
	clientID     = "abide"
	clientSecret = "client secret"
)

// idp is a small provider of OpenID Connect, as the standard has it: discovery, keys, codes
// that are good once and only with what was agreed at the beginning. Every user is
// logged in at once, with the claims that the test has set.
type idp struct {
	t     *testing.T
	clock base.Clock
	url   string
	key   *ecdsa.PrivateKey

	mu     sync.Mutex
	claims map[string]any    // of the next login
	codes  map[string]*grant // what was agreed, by code
	broken func(map[string]any)
	sign   func(payload []byte) string // nil: as it should be
}

// grant is what was agreed at a login.
type grant struct {
	nonce, challenge, redirect string
	used                       bool
}

func newIDP(t *testing.T, clock base.Clock) *idp {
	t.Helper()
	p := &idp{t: t, clock: clock, key: newKey(t), codes: map[string]*grant{}, claims: map[string]any{}}
	mux := http.NewServeMux()
	mux.HandleFunc("GET /.well-known/openid-configuration", p.discovery)
	mux.HandleFunc("GET /keys", p.keys)
	mux.HandleFunc("GET /authorize", p.authorize)
	mux.HandleFunc("POST /token", p.token)
	s := httptest.NewServer(mux)
	t.Cleanup(s.Close)
	p.url = s.URL
	return p
}

func (p *idp) discovery(w http.ResponseWriter, _ *http.Request) {
	p.json(w, http.StatusOK, map[string]any{
		"issuer": p.url, "authorization_endpoint": p.url + "/authorize", "token_endpoint": p.url + "/token", "jwks_uri": p.url + "/keys",
		"response_types_supported": []string{"code"}, "subject_types_supported": []string{"public"},
		"id_token_signing_alg_values_supported": []string{"ES256"},
	})
}

func (p *idp) keys(w http.ResponseWriter, _ *http.Request) {
	p.json(w, http.StatusOK, jose.JSONWebKeySet{Keys: []jose.JSONWebKey{{Key: p.key.Public(), KeyID: "k1", Algorithm: "ES256", Use: "sig"}}})
}

// authorize logs in, and sends the browser back.
func (p *idp) authorize(w http.ResponseWriter, r *http.Request) {
	q := r.URL.Query()
	if q.Get("client_id") != clientID || q.Get("response_type") != "code" || q.Get("code_challenge_method") != "S256" ||
		q.Get("state") == "" || q.Get("nonce") == "" || q.Get("scope") != "openid profile email" {
		http.Error(w, "not a request to log in: "+r.URL.RawQuery, http.StatusBadRequest)
		return
	}
	code := newSecret()
	p.mu.Lock()
	p.codes[code] = &grant{nonce: q.Get("nonce"), challenge: q.Get("code_challenge"), redirect: q.Get("redirect_uri")}
	p.mu.Unlock()
	http.Redirect(w, r, q.Get("redirect_uri")+"?"+url.Values{"code": {code}, "state": {q.Get("state")}}.Encode(), http.StatusFound)
}

// token gives an ID token for a code.
func (p *idp) token(w http.ResponseWriter, r *http.Request) {
	id, secret, _ := r.BasicAuth()
	secret, _ = url.QueryUnescape(secret)
	p.mu.Lock()
	defer p.mu.Unlock()
	g := p.codes[r.PostFormValue("code")]
	challenge := sha256.Sum256([]byte(r.PostFormValue("code_verifier")))
	if g == nil || g.used || id != clientID || secret != clientSecret || r.PostFormValue("redirect_uri") != g.redirect ||
		base64.RawURLEncoding.EncodeToString(challenge[:]) != g.challenge {
		p.json(w, http.StatusBadRequest, map[string]any{"error": "invalid_grant"})
		return
	}
	g.used = true
	now := p.clock.Now()
	claims := map[string]any{
		"iss": p.url, "sub": "person-1", "aud": clientID, "nonce": g.nonce, "iat": now.Unix(), "exp": now.Add(time.Hour).Unix(),
	}
	maps.Copy(claims, p.claims)
	if p.broken != nil {
		p.broken(claims)
	}
	payload, err := json.Marshal(claims)
	if err != nil {
		p.t.Error(err)
	}
	sign := p.sign
	if sign == nil {
		sign = func(payload []byte) string { return p.signed(p.key, "k1", payload) }
	}
	raw := sign(payload)
	p.json(w, http.StatusOK, map[string]any{"access_token": "x", "token_type": "Bearer", "id_token": raw})
}

// signed returns an ID token.
func (p *idp) signed(key any, id string, payload []byte) string {
	signer, err := jose.NewSigner(jose.SigningKey{Algorithm: jose.ES256, Key: jose.JSONWebKey{Key: key, KeyID: id}}, nil)
	if err != nil {
		p.t.Error(err)
		return ""
	}
	var claims map[string]any
	_ = json.Unmarshal(payload, &claims)
	raw, err := jwt.Signed(signer).Claims(claims).Serialize()
	if err != nil {
		p.t.Error(err)
	}
	return raw
}

func (p *idp) json(w http.ResponseWriter, status int, v any) {
	w.Header().Set("Content-Type", "application/json")
	w.WriteHeader(status)
	if err := json.NewEncoder(w).Encode(v); err != nil {
		p.t.Error(err)
	}
}
