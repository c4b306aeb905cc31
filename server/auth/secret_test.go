package auth

import (
	"errors"
	"regexp"
	"strings"
	"testing"
)

func TestTokensHaveAFormThatScannersFind(t *testing.T) {
	t.Parallel()
	form := regexp.MustCompile(`^abide_[a-z2-7]{16}_[a-z2-7]{59}$`)
	seen := map[string]bool{}
	for range 100 {
		id, secret := newID(), newSecret()
		text := writeToken(id, secret)
		if !form.MatchString(text) || len(text) != tokenLength {
			t.Fatalf("token %q", text)
		}
		if seen[id] || seen[secret] {
			t.Fatal("the same random text twice")
		}
		seen[id], seen[secret] = true, true
		gotID, gotSecret, err := readToken(text)
		if err != nil || gotID != id || gotSecret != secret {
			t.Fatalf("read %q: %q, %q, %v", text, gotID, gotSecret, err)
		}
	}
}

// TestTruncatedPaste: whatever part of a token is pasted, and whichever character is
// mistyped, is not a token that nobody knows, but none at all.
func TestTruncatedPaste(t *testing.T) {
	t.Parallel()
	text := writeToken(newID(), newSecret())
	var wrong []string
	for i := range text {
		wrong = append(wrong, text[:i], text[i+1:], text[:i]+text[i+1:])
		for _, c := range []string{"a", "b", "7", "_", "A", "0", "é"} {
			if text[i:i+1] != c {
				wrong = append(wrong, text[:i]+c+text[i+1:])
			}
		}
	}
	wrong = append(wrong, text+"a", " "+text, text+"\n", strings.ToUpper(text), "", "abide_", strings.Repeat("a", 1<<16))
	for _, text := range wrong {
		_, _, err := readToken(text)
		if !errors.Is(err, ErrMalformed) || !errors.Is(err, ErrUnknown) {
			t.Errorf("%q: %v", text, err)
		}
		if err != nil && len(text) > 20 && strings.Contains(err.Error(), text[10:]) {
			t.Errorf("the error tells the token: %v", err)
		}
	}
}

func FuzzReadToken(f *testing.F) {
	f.Add(writeToken("abcdefghijklmnop", strings.Repeat("q", secretLength)))
	f.Add("abide_abcdefghijklmnop_")
	f.Add("")
	f.Fuzz(func(t *testing.T, text string) {
		id, secret, err := readToken(text)
		if err != nil {
			if id != "" || secret != "" || !errors.Is(err, ErrMalformed) {
				t.Fatalf("%q: %q, %q, %v", text, id, secret, err)
			}
			return
		}
		if writeToken(id, secret) != text {
			t.Fatalf("%q is read as %q and %q, which are written otherwise", text, id, secret)
		}
	})
}
