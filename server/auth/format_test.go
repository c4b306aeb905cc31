package auth

import (
	"errors"
	"reflect"
	"slices"
	"testing"
	"time"

	"github.com/abidehq/abide/internal/check"
	"github.com/abidehq/abide/store"
)

// Examples have something in each field.
var (
	exampleToken = Token{
		ID: "abcdefghijklmnop", Name: "the shop", Role: Operate, Tenants: []string{"a", "b"}, CreatedAt: noon, CreatedBy: "admin",
		Expires: noon.Add(time.Hour), Rate: 2.5, UsedAt: noon.Add(time.Minute), hash: hash("secret"), version: 3,
	}
	servingToken   = Token{ID: "w", Name: "w", Role: Worker, Serve: []string{"label-*", "ship"}, CreatedAt: noon, version: 1}
	exampleSession = session{
		id: "s", kind: ByToken, token: "abcdefghijklmnop", proof: hash("proof"), subject: "p", name: "a person", role: Admin,
		tenants: []string{}, created: noon, expires: noon.Add(SessionLife),
	}
	exampleLogin = login{id: "l", state: "s", nonce: "n", verifier: "v", next: "/timers", expires: noon, version: 1}
	exampleLog   = auditLog{name: "2026-03-01/p/1", first: noon, last: noon.Add(time.Minute), count: 300, version: 7}
	exampleEntry = Entry{
		At: noon, RequestID: "r", Subject: "s", Name: "n", Kind: ByCertificate, Remote: "192.0.2.1", Operation: "o", Tenant: "t",
		Target: "/x", Status: 409, Error: "e",
	}
	detailedEntry = Entry{At: noon, Subject: "s", Operation: "o", Target: "/x", Detail: `{"role":"admin"}`, Status: 201}
)

// TestFormatIsGolden: a byte that changes makes what is on disk unreadable.
func TestFormatIsGolden(t *testing.T) {
	t.Parallel()
	bare := Token{ID: "b", Name: "b", Role: Read, CreatedAt: noon}
	lines := map[string][]byte{
		"token": exampleToken.record().Body, "token bare": bare.record().Body, "token for names": servingToken.record().Body, "session": exampleSession.record().Body,
		"login": exampleLogin.record().Body, "log": exampleLog.record().Body, "entry": exampleEntry.encode(),
		"entry with a detail": detailedEntry.encode(),
	}
	check.GoldenTable(t, "testdata/format_1.txt", lines)
}

// parsers read what is kept, each into its own form.
var parsers = map[string]struct {
	record store.Record
	want   any
	parse  func(store.Record) (any, error)
}{
	"token":           {exampleToken.record(), exampleToken, func(r store.Record) (any, error) { return parseToken(r) }},
	"token for names": {servingToken.record(), servingToken, func(r store.Record) (any, error) { return parseToken(r) }},
	"session":         {exampleSession.record(), exampleSession, func(r store.Record) (any, error) { return parseSession(r) }},
	"login":           {exampleLogin.record(), exampleLogin, func(r store.Record) (any, error) { return parseLogin(r) }},
	"log":             {exampleLog.record(), exampleLog, func(r store.Record) (any, error) { return parseAuditLog(r) }},
}

func TestFormatComesBack(t *testing.T) {
	t.Parallel()
	versions := map[string]int64{"token": 3, "token for names": 1, "login": 1, "log": 7}
	for name, p := range parsers {
		p.record.Version = versions[name]
		got, err := p.parse(p.record)
		if err != nil || !reflect.DeepEqual(got, p.want) {
			t.Errorf("%s: %+v, %v", name, got, err)
		}
		for n := range p.record.Body {
			cut := p.record
			cut.Body = cut.Body[:n]
			if _, err := p.parse(cut); !errors.Is(err, store.ErrCorrupt) {
				t.Errorf("%s, %d bytes: %v", name, n, err)
			}
		}
		p.record.Body = append(slices.Clone(p.record.Body), 0)
		if _, err := p.parse(p.record); !errors.Is(err, store.ErrCorrupt) {
			t.Errorf("%s, a byte more: %v", name, err)
		}
	}
	if got, err := parseEntry(exampleEntry.encode()); err != nil || got != exampleEntry {
		t.Errorf("entry: %+v, %v", got, err)
	}
	if got, err := parseEntry(detailedEntry.encode()); err != nil || got != detailedEntry {
		t.Errorf("entry with a detail: %+v, %v", got, err)
	}
}

// TestDamagedScopeIsNobodys: what cannot be read must not become all tenants.
func TestDamagedScopeIsNobodys(t *testing.T) {
	t.Parallel()
	rec := exampleToken.record()
	for n := range rec.Body {
		cut := rec
		cut.Body = cut.Body[:n]
		if got, err := parseToken(cut); err == nil || got.Tenants == nil {
			t.Fatalf("%d bytes: %+v, %v", n, got, err)
		}
	}
}
