package store_test

import (
	"errors"
	"strings"
	"testing"
	"unicode/utf8"

	"github.com/abidehq/abide/store"
)

func TestErrorsSayWhereWhatAndWhy(t *testing.T) {
	t.Parallel()
	key := store.Key{Queue: "turns", Tenant: "acme", Name: "order-1"}
	record := store.RecordKey{Kind: "instance", Tenant: "acme", ID: "order-1"}
	for _, tc := range []struct {
		err    error
		target error
		text   string
	}{
		{store.LengthConflict(key, 3, 5), store.ErrConflict, "store: commit: log of turns/acme/order-1 has length 5, expected 3: conflict"},
		{store.VersionConflict(record, 3, 0), store.ErrConflict, "store: commit: record instance/acme/order-1 has version 0, expected 3: conflict"},
		{store.ClaimLost("release", store.Lease{Key: key, Token: "secret"}), store.ErrClaimLost, "store: release: turns/acme/order-1: claim lost"},
		{store.NotFound("get", record), store.ErrNotFound, "store: get: record instance/acme/order-1: not found"},
		{store.Closed("claim"), store.ErrClosed, "store: claim: store is closed"},
	} {
		if !errors.Is(tc.err, tc.target) {
			t.Errorf("%q does not match %v", tc.err, tc.target)
		}
		if tc.err.Error() != tc.text {
			t.Errorf("got  %q\nwant %q", tc.err, tc.text)
		}
	}
}

func TestSentinelsMatchNoOther(t *testing.T) {
	t.Parallel()
	sentinels := []error{
		store.ErrConflict, store.ErrClaimLost, store.ErrNotFound, store.ErrInvalid, store.ErrTooLarge,
		store.ErrFull, store.ErrClosed, store.ErrInUse, store.ErrCorrupt, store.ErrFormat, store.ErrFailed,
	}
	const tooLarge, invalid = 4, 3 // the one exception
	for i, a := range sentinels {
		for j, b := range sentinels {
			want := i == j || i == tooLarge && j == invalid
			if got := errors.Is(a, b); got != want {
				t.Errorf("errors.Is(%v, %v) = %v, want %v", a, b, got, want)
			}
		}
	}
}

func TestKeysAreReadable(t *testing.T) {
	t.Parallel()
	for _, tc := range []struct {
		key  store.Key
		want string
	}{
		{store.Key{Queue: "turns", Tenant: "acme", Name: "order-1"}, "turns/acme/order-1"},
		{store.Key{Queue: "turns", Name: "order-1"}, "turns//order-1"},
		{store.Key{Queue: "turns", Tenant: "Zürich", Name: "a b"}, "turns/Zürich/a b"},
		{store.Key{Queue: "turns", Tenant: "a\nb", Name: "\x00\xff"}, `turns/"a\nb"/"\x00\xff"`},
		{store.Key{Queue: "turns", Tenant: `say "hi"`, Name: "x"}, `turns/"say \"hi\""/x`},
	} {
		if got := tc.key.String(); got != tc.want {
			t.Errorf("got %s, want %s", got, tc.want)
		}
		record := store.RecordKey{Kind: tc.key.Queue, Tenant: tc.key.Tenant, ID: tc.key.Name}
		if got := record.String(); got != tc.want {
			t.Errorf("record key: got %s, want %s", got, tc.want)
		}
		ref := store.MessageRef{Key: tc.key, ID: "m\n"}
		if got, want := ref.String(), tc.want+`#"m\n"`; got != want {
			t.Errorf("message: got %s, want %s", got, want)
		}
	}
}

func TestALongNameDoesNotFillAnErrorMessage(t *testing.T) {
	t.Parallel()
	for _, name := range []string{strings.Repeat("x", store.MaxName), strings.Repeat("é", store.MaxName/2), "x" + strings.Repeat("é", store.MaxName/2)} {
		text := store.Key{Queue: "q", Tenant: "t", Name: name}.String()
		if len(text) > 256 || !strings.Contains(text, "…") {
			t.Errorf("%d bytes of name make %d bytes of text, %q", len(name), len(text), text)
		}
		if !utf8.ValidString(text) {
			t.Errorf("the text is not valid UTF-8: %q", text)
		}
	}
}
