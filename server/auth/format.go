package auth

import (
	"fmt"
	"math"
	"time"

	"github.com/abidehq/abide/internal/wire"
	"github.com/abidehq/abide/store"
)

// Names in the store. All of it belongs to no tenant.
const (
	kindToken   = "token"   // of the records of tokens
	kindSession = "session" // of the records of sessions
	kindLogin   = "login"   // of the records of logins that are under way elsewhere
	kindGuarded = "guarded" // of the record that says that a guarded server has started on the store
	kindAudit   = "audit"   // of the records that say which logs there are
	queueAudit  = "audit"   // of the keys of these logs
)

// First bytes of what is kept. docs/security.md says what follows.
const (
	tokenFormat   = 1
	tokenServes   = 2 // of a token that is for some names
	sessionFormat = 1
	loginFormat   = 1
	auditFormat   = 1
	entryFormat   = 1
	entryDetailed = 2 // of an entry that has a detail
)

func tokenKey(id string) store.RecordKey { return store.RecordKey{Kind: kindToken, ID: id} }

func (t *Token) record() store.Record {
	format := byte(tokenFormat)
	if t.Serve != nil {
		format = tokenServes
	}
	out := append(make([]byte, 0, 128), format)
	out = append(out, t.hash[:]...)
	out = appendScope(out, t.Role, t.Tenants)
	out = wire.AppendString(out, t.CreatedBy)
	out = wire.AppendTime(out, t.Expires)
	out = wire.AppendNumber(out, math.Float64bits(t.Rate))
	out = wire.AppendTime(out, t.UsedAt)
	if t.Serve != nil {
		out = wire.AppendStrings(out, t.Serve)
	}
	return store.Record{Key: tokenKey(t.ID), Name: t.Name, Time: t.CreatedAt, Body: out}
}

func parseToken(rec store.Record) (Token, error) {
	t := Token{ID: rec.Key.ID, Name: rec.Name, CreatedAt: rec.Time.UTC(), version: rec.Version}
	r := wire.Reader{Data: rec.Body}
	serves := len(rec.Body) > 0 && rec.Body[0] == tokenServes
	if serves {
		r.Format(tokenServes)
	} else {
		r.Format(tokenFormat)
	}
	readHash(&r, &t.hash)
	t.Role, t.Tenants = readScope(&r)
	t.CreatedBy = r.String()
	t.Expires = r.Time()
	t.Rate = math.Float64frombits(r.Number())
	t.UsedAt = r.Time()
	if serves {
		t.Serve = append([]string{}, wire.Strings[string](&r)...)
	}
	return t, corrupt(rec.Key, r.End())
}

func appendScope(out []byte, role Role, tenants []string) []byte {
	out = wire.AppendString(out, role)
	out = wire.AppendFlag(out, tenants != nil)
	if tenants == nil {
		return out
	}
	return wire.AppendStrings(out, tenants)
}

// readScope reads what appendScope wrote. After an error it is nobody's: an empty list of
// tenants, never all of them.
func readScope(r *wire.Reader) (Role, []string) {
	role := Role(r.String())
	if !r.Flag() && r.Err == nil {
		return role, nil
	}
	return role, append([]string{}, wire.Strings[string](r)...)
}

func readHash(r *wire.Reader, sum *[32]byte) {
	if len(r.Data) < len(sum) {
		r.Fail("too short")
		return
	}
	copy(sum[:], r.Data)
	r.Data = r.Data[len(sum):]
}

// corrupt says which record cannot be read.
func corrupt(key store.RecordKey, err error) error {
	if err == nil {
		return nil
	}
	return fmt.Errorf("auth: record %v: %w: %w", key, err, store.ErrCorrupt)
}

// session is a login. The cookie has a secret, of which the record's ID is the hash.
type session struct {
	id      string
	kind    Kind   // ByToken, or BySession after a login at a provider
	token   string // the ID of the token, or empty for the one in the configuration
	proof   [32]byte
	subject string
	name    string
	role    Role
	tenants []string
	created time.Time
	expires time.Time
}

func sessionKey(id string) store.RecordKey { return store.RecordKey{Kind: kindSession, ID: id} }

func (s *session) record() store.Record {
	out := append(make([]byte, 0, 160), sessionFormat)
	out = wire.AppendString(out, s.kind)
	out = wire.AppendString(out, s.token)
	out = append(out, s.proof[:]...)
	out = wire.AppendString(out, s.subject)
	out = appendScope(out, s.role, s.tenants)
	out = wire.AppendTime(out, s.created)
	return store.Record{Key: sessionKey(s.id), Name: s.name, Time: s.expires, Body: out}
}

func parseSession(rec store.Record) (session, error) {
	s := session{id: rec.Key.ID, name: rec.Name, expires: rec.Time.UTC()}
	r := wire.Reader{Data: rec.Body}
	r.Format(sessionFormat)
	s.kind = Kind(r.String())
	s.token = r.String()
	readHash(&r, &s.proof)
	s.subject = r.String()
	s.role, s.tenants = readScope(&r)
	s.created = r.Time()
	return s, corrupt(rec.Key, r.End())
}

// login is the state of a login at a provider, until the user comes back. A cookie has
// a secret, of which the record's ID is the hash.
type login struct {
	id       string
	state    string
	nonce    string
	verifier string
	next     string
	expires  time.Time
	version  int64
}

func loginKey(id string) store.RecordKey { return store.RecordKey{Kind: kindLogin, ID: id} }

func (l *login) record() store.Record {
	out := append(make([]byte, 0, 256), loginFormat)
	out = wire.AppendString(out, l.state)
	out = wire.AppendString(out, l.nonce)
	out = wire.AppendString(out, l.verifier)
	out = wire.AppendString(out, l.next)
	return store.Record{Key: loginKey(l.id), Time: l.expires, Body: out}
}

func parseLogin(rec store.Record) (login, error) {
	l := login{id: rec.Key.ID, expires: rec.Time.UTC(), version: rec.Version}
	r := wire.Reader{Data: rec.Body}
	r.Format(loginFormat)
	l.state = r.String()
	l.nonce = r.String()
	l.verifier = r.String()
	l.next = r.String()
	return l, corrupt(rec.Key, r.End())
}
