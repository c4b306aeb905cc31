package auth

import (
	"crypto/rand"
	"crypto/sha256"
	"encoding/base32"
	"encoding/binary"
	"hash/crc32"
	"strings"
)

// A token is written abide_<ID>_<secret><checksum>, all in one word, so that a double click
// takes all of it and those who look for secrets in texts find it:
//
//	abide_[a-z2-7]{16}_[a-z2-7]{59}
//
// The checksum is that of what stands before it. It tells a token that was cut off or
// mistyped from one that nobody knows.
const (
	tokenPrefix  = "abide_"
	idLength     = 16 // 80 bits
	secretLength = 52 // 256 bits
	checkLength  = 7  // 32 bits
	tokenLength  = len(tokenPrefix) + idLength + 1 + secretLength + checkLength
)

var letters = base32.NewEncoding("abcdefghijklmnopqrstuvwxyz234567").WithPadding(base32.NoPadding)

// newID returns a name that nobody has had.
func newID() string { return random(idLength * 5 / 8) }

// newSecret returns what nobody can guess.
func newSecret() string { return random(sha256.Size) }

// random returns that many random bytes as text. They come from the system, which never
// fails to give them.
func random(n int) string {
	data := make([]byte, n)
	_, _ = rand.Read(data) // it never returns an error
	return letters.EncodeToString(data)
}

// writeToken returns a token as its owner gets it.
func writeToken(id, secret string) string {
	text := tokenPrefix + id + "_" + secret
	return text + checksum(text)
}

func checksum(text string) string {
	return letters.EncodeToString(binary.BigEndian.AppendUint32(nil, crc32.ChecksumIEEE([]byte(text))))
}

// readToken is the inverse of writeToken. Its errors say what is wrong with the form, and
// nothing of the content.
func readToken(text string) (id, secret string, err error) {
	rest, ok := strings.CutPrefix(text, tokenPrefix)
	switch {
	case !ok:
		return "", "", malformed("a token begins with %s", tokenPrefix)
	case len(text) != tokenLength:
		return "", "", malformed("the token has %d characters, and should have %d: it was cut off, or something was added", len(text), tokenLength)
	case rest[idLength] != '_' || !isLetters(rest[:idLength]) || !isLetters(rest[idLength+1:]):
		return "", "", malformed("the token has characters that do not belong there")
	case checksum(text[:len(text)-checkLength]) != text[len(text)-checkLength:]:
		return "", "", malformed("the token is mistyped: its checksum is wrong")
	}
	return rest[:idLength], rest[idLength+1 : len(rest)-checkLength], nil
}

func isLetters(s string) bool {
	for _, c := range []byte(s) {
		if (c < 'a' || c > 'z') && (c < '2' || c > '7') {
			return false
		}
	}
	return true
}

// hash returns what is kept of a secret. Secrets are random and long, so a hash that is
// made slow on purpose would protect nothing.
func hash(secret string) [sha256.Size]byte { return sha256.Sum256([]byte(secret)) }
