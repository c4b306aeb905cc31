package auth

import (
	"context"
	"errors"
	"math"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/abidehq/abide/internal/check"
	"github.com/abidehq/abide/store"
)

func TestTokenIsShownOnceAndKeptHashed(t *testing.T) {
	t.Parallel()
	r := newFixture(t)
	g := r.guard(Config{})
	expires := noon.Add(48 * time.Hour)
	made, secret, err := g.CreateToken(r.as(Admin), NewToken{Name: "the shop", Role: Operate, Tenants: []string{"b", "a", "b"}, Expires: expires, Rate: 2.5})
	check.OK(t, err)
	_, private, err := readToken(secret)
	check.OK(t, err)
	if all := r.everything(); strings.Contains(all, private) || strings.Contains(r.log.String(), private) {
		t.Error("the secret is in the store, or in the log")
	}
	who, err := g.Identify(with(secret))
	check.OK(t, err)
	if who.Kind != ByToken || who.Subject != made.ID || who.Name != "the shop" || who.Role != Operate || !slices.Equal(who.Tenants, []string{"a", "b"}) {
		t.Errorf("identity %+v", who)
	}
	page, err := g.Tokens(r.as(Admin), 0, "")
	if err != nil || len(page.Tokens) != 1 || page.Next != "" {
		t.Fatalf("list: %+v, %v", page, err)
	}
	got := page.Tokens[0]
	if got.ID != made.ID || got.Name != "the shop" || got.Role != Operate || !slices.Equal(got.Tenants, []string{"a", "b"}) ||
		!got.CreatedAt.Equal(noon) || got.CreatedBy != "tester" || !got.Expires.Equal(expires) || got.Rate != 2.5 || !got.UsedAt.Equal(noon) {
		t.Errorf("listed %+v", got)
	}
}

func TestCreateTokenChecks(t *testing.T) {
	t.Parallel()
	r := newFixture(t)
	g := r.guard(Config{})
	long := strings.Repeat("x", MaxName)
	many := make([]string, MaxTenants)
	for i := range many {
		many[i] = "t" + string(rune('A'+i/26)) + string(rune('a'+i%26))
	}
	for name, tt := range map[string]struct {
		n  NewToken
		ok bool
	}{
		"least":                {NewToken{Name: "x", Role: Read}, true},
		"longest":              {NewToken{Name: long, Role: Admin, Tenants: many, Rate: MaxRate}, true},
		"no name":              {NewToken{Role: Read}, false},
		"name too long":        {NewToken{Name: long + "x", Role: Read}, false},
		"name on two lines":    {NewToken{Name: "a\nb", Role: Read}, false},
		"name that hides":      {NewToken{Name: "a\u202eb", Role: Read}, false},
		"name in bad UTF-8":    {NewToken{Name: "\xff", Role: Read}, false},
		"name of space":        {NewToken{Name: " ", Role: Read}, false},
		"no role":              {NewToken{Name: "x"}, false},
		"unknown role":         {NewToken{Name: "x", Role: "root"}, false},
		"no tenants":           {NewToken{Name: "x", Role: Read, Tenants: []string{}}, false},
		"empty tenant":         {NewToken{Name: "x", Role: Read, Tenants: []string{""}}, false},
		"too many tenants":     {NewToken{Name: "x", Role: Read, Tenants: append(slices.Clone(many), "z")}, false},
		"expires now":          {NewToken{Name: "x", Role: Read, Expires: noon}, false},
		"expires in the past":  {NewToken{Name: "x", Role: Read, Expires: noon.Add(-time.Hour)}, false},
		"expires very late":    {NewToken{Name: "x", Role: Read, Expires: time.Date(10000, 1, 1, 0, 0, 0, 0, time.UTC)}, false},
		"negative rate":        {NewToken{Name: "x", Role: Read, Rate: -1}, false},
		"rate of not a number": {NewToken{Name: "x", Role: Read, Rate: math.NaN()}, false},
		"rate too high":        {NewToken{Name: "x", Role: Read, Rate: MaxRate + 1}, false},
	} {
		_, _, err := g.CreateToken(r.as(Admin), tt.n)
		if tt.ok && err != nil || !tt.ok && !errors.Is(err, ErrInvalid) {
			t.Errorf("%s: %v", name, err)
		}
	}
}

// TestNobodyMakesMoreThanThemselves: nor sees, nor revokes.
func TestNobodyMakesMoreThanThemselves(t *testing.T) {
	t.Parallel()
	r := newFixture(t)
	g := r.guard(Config{})
	for name, tt := range map[string]struct {
		who  context.Context
		role Role
		of   []string
		ok   bool
	}{
		"admin of all, for all":          {r.as(Admin), Admin, nil, true},
		"admin of all, for some":         {r.as(Admin), Admin, []string{"a"}, true},
		"admin of some, for one of them": {r.as(Admin, "a", "b"), Admin, []string{"b"}, true},
		"admin of some, for all":         {r.as(Admin, "a", "b"), Read, nil, false},
		"admin of some, for another":     {r.as(Admin, "a", "b"), Read, []string{"a", "c"}, false},
		"operator":                       {r.as(Operate), Read, nil, false},
		"reader":                         {r.as(Read), Read, nil, false},
		"nobody":                         {t.Context(), Read, nil, false},
	} {
		made, _, err := g.CreateToken(tt.who, NewToken{Name: name, Role: tt.role, Tenants: tt.of})
		if tt.ok && err != nil || !tt.ok && !errors.Is(err, ErrForbidden) {
			t.Errorf("%s: %v", name, err)
		}
		if tt.ok {
			if err := g.RevokeToken(tt.who, made.ID); err != nil {
				t.Errorf("%s: revoke: %v", name, err)
			}
		}
	}
	all, _ := r.token(g, NewToken{Name: "of all"})
	a, _ := r.token(g, NewToken{Name: "of a", Role: Admin, Tenants: []string{"a"}})
	check.Error(t, g.RevokeToken(r.as(Admin, "a"), all.ID), ErrNotFound)
	page, err := g.Tokens(r.as(Admin, "a"), 0, "")
	if err != nil || len(page.Tokens) != 1 || page.Tokens[0].ID != a.ID {
		t.Errorf("an admin of one tenant sees %+v, %v", page.Tokens, err)
	}
	for verb, err := range map[string]error{
		"revoke": g.RevokeToken(r.as(Operate), all.ID),
		"list":   second(g.Tokens(r.as(Operate), 0, "")),
		"audit":  second(g.Audit(r.as(Operate), AuditQuery{})),
	} {
		if !errors.Is(err, ErrForbidden) {
			t.Errorf("an operator may %s: %v", verb, err)
		}
	}
}

func second[T any](_ T, err error) error { return err }

func TestTokensPage(t *testing.T) {
	t.Parallel()
	r := newFixture(t)
	g := r.guard(Config{})
	for _, name := range []string{"1", "2", "3", "4", "5"} {
		r.token(g, NewToken{Name: name})
		r.clock.Advance(time.Second)
	}
	var names []string
	for cursor, more := "", true; more; more = cursor != "" {
		page, err := g.Tokens(r.as(Admin), 2, cursor)
		check.OK(t, err)
		for _, token := range page.Tokens {
			names = append(names, token.Name)
		}
		cursor = page.Next
	}
	check.Equal(t, "listed", strings.Join(names, ""), "54321")
	for _, limit := range []int{-1, MaxPage + 1} {
		if _, err := g.Tokens(r.as(Admin), limit, ""); !errors.Is(err, ErrInvalid) {
			t.Errorf("a page of %d: %v", limit, err)
		}
	}
}

func TestTokensEnd(t *testing.T) {
	t.Parallel()
	r := newFixture(t)
	g := r.guard(Config{})
	_, expiring := r.token(g, NewToken{Expires: noon.Add(time.Hour)})
	made, revoked := r.token(g, NewToken{})
	if _, err := g.Identify(with(expiring)); err != nil {
		t.Error(err)
	}
	r.clock.Advance(time.Hour - time.Millisecond)
	if _, err := g.Identify(with(expiring)); err != nil {
		t.Errorf("before it expires: %v", err)
	}
	r.clock.Advance(time.Millisecond)
	if _, err := g.Identify(with(expiring)); !errors.Is(err, ErrUnknown) || errors.Is(err, ErrMalformed) {
		t.Errorf("when it expires: %v", err)
	}
	if _, err := g.Identify(with(revoked)); err != nil {
		t.Error(err)
	}
	check.OK(t, g.RevokeToken(r.as(Admin), made.ID))
	if _, err := g.Identify(with(revoked)); !errors.Is(err, ErrUnknown) {
		t.Errorf("after it was revoked: %v", err)
	}
	for _, id := range []string{made.ID, "", "abcdefghijklmnop", "../../x", strings.Repeat("a", 5000), "\x00"} {
		if err := g.RevokeToken(r.as(Admin), id); !errors.Is(err, ErrNotFound) {
			t.Errorf("revoke %.20q: %v", id, err)
		}
	}
}

// TestRevokedElsewhere: another process knows within [CacheLife].
func TestRevokedElsewhere(t *testing.T) {
	t.Parallel()
	r := newFixture(t)
	here, there := r.guard(Config{}), r.guard(Config{})
	made, secret := r.token(here, NewToken{})
	for _, g := range []*Guard{here, there} {
		if _, err := g.Identify(with(secret)); err != nil {
			t.Fatal(err)
		}
		if _, err := g.Identify(with(secret)); err != nil { // it is known now
			t.Fatal(err)
		}
	}
	check.OK(t, here.RevokeToken(r.as(Admin), made.ID))
	if _, err := here.Identify(with(secret)); !errors.Is(err, ErrUnknown) {
		t.Errorf("here, at once: %v", err)
	}
	r.clock.Advance(CacheLife)
	if _, err := there.Identify(with(secret)); !errors.Is(err, ErrUnknown) {
		t.Errorf("there, after %v: %v", CacheLife, err)
	}
}

// TestWrongSecretAndUnknownTokenAreAlike: in what they say, and in what the store is asked.
func TestWrongSecretAndUnknownTokenAreAlike(t *testing.T) {
	t.Parallel()
	r := newFixture(t)
	counted := &counting{Store: r.store}
	g := r.guard(Config{Store: counted})
	made, _ := r.token(g, NewToken{})
	var said []string
	var asked []int64
	for _, text := range []string{writeToken(made.ID, newSecret()), writeToken(newID(), newSecret())} {
		for range 2 {
			before := counted.gets.Load()
			_, err := g.Identify(with(text))
			if !errors.Is(err, ErrUnknown) || errors.Is(err, ErrMalformed) {
				t.Fatalf("%v", err)
			}
			said = append(said, err.Error())
			asked = append(asked, counted.gets.Load()-before)
		}
	}
	if said[0] != said[2] || asked[0] != asked[2] || asked[1] != asked[3] || asked[1] != 0 {
		t.Errorf("said %q, asked %v", said, asked)
	}
	page, err := g.Tokens(r.as(Admin), 0, "")
	if err != nil || !page.Tokens[0].UsedAt.IsZero() {
		t.Errorf("a wrong secret counts as a use: %+v, %v", page, err)
	}
}

func TestLastUsedIsWrittenOnceAnHour(t *testing.T) {
	t.Parallel()
	r := newFixture(t)
	counted := &counting{Store: r.store}
	g := r.guard(Config{Store: counted})
	made, secret := r.token(g, NewToken{})
	for range 10 {
		for range 30 {
			if _, err := g.Identify(with(secret)); err != nil {
				t.Fatal(err)
			}
		}
		r.clock.Advance(15 * time.Minute) // 2 h 30 min in all
	}
	check.Equal(t, "commits, of which one has made the token", counted.commits.Load(), 1+3)
	rec, err := r.store.Get(t.Context(), tokenKey(made.ID))
	check.OK(t, err)
	if got, err := parseToken(rec); err != nil || !got.UsedAt.Equal(noon.Add(2*time.Hour)) {
		t.Errorf("used at %v, %v", got.UsedAt, err)
	}
}

// TestRevokeWhileUsed: however many use a token meanwhile, it is gone when RevokeToken has
// returned, and stays gone.
func TestRevokeWhileUsed(t *testing.T) {
	t.Parallel()
	r := newFixture(t)
	g := r.guard(Config{})
	for range 50 {
		made, secret := r.token(g, NewToken{})
		var wg sync.WaitGroup
		for range 4 {
			wg.Go(func() {
				for {
					if _, err := g.Identify(with(secret)); err != nil {
						return
					}
					g.tokens.mu.Lock() // what is known of it is old, again and again
					delete(g.tokens.entries, made.ID)
					g.tokens.mu.Unlock()
				}
			})
		}
		check.OK(t, g.RevokeToken(r.as(Admin), made.ID))
		if _, err := g.Identify(with(secret)); !errors.Is(err, ErrUnknown) {
			t.Fatalf("after it was revoked: %v", err)
		}
		wg.Wait()
		if _, err := r.store.Get(t.Context(), tokenKey(made.ID)); !errors.Is(err, store.ErrNotFound) {
			t.Fatalf("the record is back: %v", err)
		}
		r.clock.Advance(time.Second) // failures of an address are limited by the second
	}
}

// TestRevokeDuringLookup: a look at the store that began before the token was revoked, and
// ends after it, is not believed later, and noting its use does not bring it back.
func TestRevokeDuringLookup(t *testing.T) {
	t.Parallel()
	for _, used := range []bool{true, false} {
		r := newFixture(t)
		slow := &counting{Store: r.store}
		g := r.guard(Config{Store: slow})
		made, secret := r.token(g, NewToken{})
		if used {
			if _, err := g.Identify(with(secret)); err != nil { // its use is noted
				t.Fatal(err)
			}
		}
		r.clock.Advance(CacheLife)
		slow.afterGet = func() {
			slow.afterGet = nil
			if err := g.RevokeToken(r.as(Admin), made.ID); err != nil {
				t.Error(err)
			}
		}
		_, _ = g.Identify(with(secret)) // it was good when it was looked up
		if _, err := g.Identify(with(secret)); !errors.Is(err, ErrUnknown) {
			t.Errorf("after it was revoked: %v", err)
		}
		if _, err := r.store.Get(t.Context(), tokenKey(made.ID)); !errors.Is(err, store.ErrNotFound) {
			t.Errorf("the record is back: %v", err)
		}
	}
}

func TestStoreInTroubleIsNotAnUnknownToken(t *testing.T) {
	t.Parallel()
	r := newFixture(t)
	g := r.guard(Config{})
	_, secret := r.token(g, NewToken{})
	_ = r.store.Close()
	_, err := g.Identify(with(secret))
	if err == nil || errors.Is(err, ErrUnknown) || !errors.Is(err, store.ErrClosed) {
		t.Errorf("%v", err)
	}
}

func TestCacheIsBounded(t *testing.T) {
	t.Parallel()
	r := newFixture(t)
	g := r.guard(Config{})
	for range maxCached + 100 {
		_, _ = g.Identify(with(writeToken(newID(), newSecret())))
	}
	if n := len(g.tokens.entries); n > maxCached {
		t.Errorf("%d entries", n)
	}
}
