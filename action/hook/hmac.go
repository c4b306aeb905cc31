package hook

import (
	"crypto/sha1"
	"crypto/sha256"
	"crypto/sha512"
	"encoding/base64"
	"errors"
	"fmt"
	"hash"
	"net/http"
	"strings"
	"time"
)

// Algorithm is the hash of an [HMAC].
type Algorithm string

// Algorithms. SHA1 is for senders that know nothing else, and has to be asked for.
const (
	SHA256 Algorithm = "sha256"
	SHA512 Algorithm = "sha512"
	SHA1   Algorithm = "sha1"
)

// Encoding is how the bytes of a signature are written.
type Encoding string

// Encodings.
const (
	Hex    Encoding = "hex"
	Base64 Encoding = "base64"
)

// Parts of what is signed: see [HMAC.Template].
const (
	partTimestamp = "{timestamp}"
	partBody      = "{body}"
)

// HMAC verifies what other senders sign, if they do it with an HMAC in one header.
type HMAC struct {
	// Secrets are the shared secret and, while it is replaced, the one before.
	Secrets []Secret

	// Header is the one with the signature, and Prefix what stands before it there, such
	// as sha256=.
	Header string
	Prefix string

	// Algorithm is the hash, and Encoding the encoding of the signature. Empty means [SHA256]
	// and [Hex].
	Algorithm Algorithm
	Encoding  Encoding

	// TimestampHeader is the one with the time of the signature, in seconds since 1970. If it is
	// empty, there is none, and nothing is ever stale. Tolerance is the largest difference from
	// the clock, in either direction. Zero means [DefaultTolerance].
	TimestampHeader string
	Tolerance       time.Duration

	// Template is what is signed: {body} and, if there is a header for it, {timestamp}, each
	// once, with other text around them as it is. Empty means {body}, or {timestamp}.{body} if
	// there is a timestamp.
	Template string

	// DeliveryHeader is the one with the name of the delivery. If it is empty, there is none,
	// and what is sent twice becomes two actions. The name is not signed: to reject replays, use
	// a timestamp, too.
	DeliveryHeader string
}

var _ Verifier = HMAC{}

// Open checks the fields, and reads the secrets.
func (v HMAC) Open() (Scheme, error) {
	keys, err := resolve(v.Secrets)
	if err != nil {
		return Scheme{}, err
	}
	within, err := tolerance(v.Tolerance)
	if err != nil {
		return Scheme{}, err
	}
	algorithm, err := v.algorithm()
	if err != nil {
		return Scheme{}, err
	}
	decode, err := v.decoder()
	if err != nil {
		return Scheme{}, err
	}
	template, err := v.template()
	if err != nil {
		return Scheme{}, err
	}
	if err := v.checkHeaders(); err != nil {
		return Scheme{}, err
	}
	scheme := Scheme{Hide: []string{v.Header}}
	for _, name := range []string{v.TimestampHeader, v.DeliveryHeader} {
		if name != "" {
			scheme.Keep = append(scheme.Keep, name)
		}
	}
	scheme.Verify = func(header http.Header, body []byte, now time.Time) (string, error) {
		value, err := single(header, v.Header)
		if err != nil {
			return "", err
		}
		signature, err := decode(value)
		if err != nil {
			return "", err
		}
		at := ""
		if v.TimestampHeader != "" {
			if at, err = single(header, v.TimestampHeader); err != nil {
				return "", err
			}
			if err := checkTime(v.TimestampHeader, at, now, within); err != nil {
				return "", err
			}
		}
		if !anySigned(algorithm, keys, [][]byte{signature}, fill(template, at, body)...) {
			return "", ErrSignature
		}
		if v.DeliveryHeader == "" {
			return "", nil
		}
		return deliveryIn(header, v.DeliveryHeader)
	}
	return scheme, nil
}

func (v HMAC) algorithm() (func() hash.Hash, error) {
	switch v.Algorithm {
	case SHA256, "":
		return sha256.New, nil
	case SHA512:
		return sha512.New, nil
	case SHA1:
		return sha1.New, nil
	}
	return nil, fmt.Errorf("there is no algorithm %.32q; there are %s, %s and %s", v.Algorithm, SHA256, SHA512, SHA1)
}

func (v HMAC) decoder() (func(string) ([]byte, error), error) {
	switch v.Encoding {
	case Hex, "":
		return func(value string) ([]byte, error) { return unhex(v.Header, value, v.Prefix) }, nil
	case Base64:
		return func(value string) ([]byte, error) { return unbase64(v.Header, value, v.Prefix) }, nil
	}
	return nil, fmt.Errorf("there is no encoding %.32q; there are %s and %s", v.Encoding, Hex, Base64)
}

func unbase64(name, value, prefix string) ([]byte, error) {
	text, ok := strings.CutPrefix(value, prefix)
	if !ok {
		return nil, fmt.Errorf("%s must begin with %s: %w", name, prefix, ErrMalformed)
	}
	signature, err := base64.StdEncoding.DecodeString(text)
	if err != nil {
		return nil, fmt.Errorf("%s must be in base64: %w", name, ErrMalformed)
	}
	return signature, nil
}

// template returns the parts of what is signed, in their order.
func (v HMAC) template() ([]string, error) {
	text, times := v.Template, 0
	if v.TimestampHeader != "" {
		times = 1
	}
	switch {
	case text == "" && times == 1:
		text = partTimestamp + "." + partBody
	case text == "":
		text = partBody
	}
	if strings.Count(text, partBody) != 1 {
		return nil, fmt.Errorf("the template must have %s once", partBody)
	}
	if strings.Count(text, partTimestamp) != times {
		return nil, fmt.Errorf("the template must have %s once if there is a header for it, and not if there is none", partTimestamp)
	}
	return split(text), nil
}

// split cuts a template into its parts and the text between them.
func split(text string) []string {
	var parts []string
	for text != "" {
		at, part := len(text), ""
		for _, p := range []string{partBody, partTimestamp} {
			if i := strings.Index(text, p); i >= 0 && i < at {
				at, part = i, p
			}
		}
		parts = append(parts, text[:at], part)
		text = text[at+len(part):]
	}
	return parts
}

// fill returns what is signed, in parts, so that the body need not be copied.
func fill(template []string, at string, body []byte) [][]byte {
	parts := make([][]byte, len(template))
	for i, part := range template {
		switch part {
		case partBody:
			parts[i] = body
		case partTimestamp:
			parts[i] = []byte(at)
		default:
			parts[i] = []byte(part)
		}
	}
	return parts
}

func (v HMAC) checkHeaders() error {
	if v.Header == "" {
		return errors.New("the header of the signature has no name")
	}
	names := map[string]bool{}
	for _, name := range []string{v.Header, v.TimestampHeader, v.DeliveryHeader} {
		switch canonical := http.CanonicalHeaderKey(name); {
		case name == "":
		case !isHeader(name):
			return fmt.Errorf("%.64q is not the name of a header", name)
		case names[canonical]:
			return fmt.Errorf("header %s is there for two things", canonical)
		default:
			names[canonical] = true
		}
	}
	return nil
}
