package webhookbus

import (
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/url"
	"slices"
	"strconv"
	"strings"
	"time"
	"unicode"
	"unicode/utf8"

	"github.com/abidehq/abide/bus"
)

const (
	// maxAnswer is how many bytes of an answer are read. What is left unread costs the
	// connection, which is cheaper than reading it.
	maxAnswer = 64 << 10

	// maxShown is how many bytes of an answer an error shows.
	maxShown = 512

	// maxRetryAfter is the longest that a receiver is left alone because it says so.
	maxRetryAfter = time.Hour
)

// outcome returns what an answer means. The status decides: a body that breaks off
// changes nothing about it.
func (b *Bus) outcome(resp *http.Response) error {
	body, _ := io.ReadAll(io.LimitReader(resp.Body, maxAnswer))
	if resp.StatusCode >= 200 && resp.StatusCode < 300 {
		return nil
	}
	err := fmt.Errorf("it answered %d %s%s", resp.StatusCode, http.StatusText(resp.StatusCode), b.shown(body))
	switch resp.StatusCode {
	case http.StatusGone:
		return fmt.Errorf("%w: %w", err, bus.ErrPermanent)
	case http.StatusTooManyRequests, http.StatusServiceUnavailable:
		if after, ok := parseRetryAfter(resp.Header.Get("Retry-After"), b.cfg.Clock.Now()); ok {
			return bus.RetryAfter(err, after)
		}
	}
	return err
}

// parseRetryAfter reads a wish to be left alone, in seconds or until a date. A wish for
// no time is none.
func parseRetryAfter(value string, now time.Time) (time.Duration, bool) {
	after := time.Duration(0)
	seconds, err := strconv.ParseUint(value, 10, 32)
	switch {
	case errors.Is(err, strconv.ErrRange):
		after = maxRetryAfter
	case err == nil:
		after = time.Duration(seconds) * time.Second
	default:
		if date, err := http.ParseTime(value); err == nil {
			after = date.Sub(now)
		}
	}
	return min(after, maxRetryAfter), after > 0
}

// shown returns the beginning of a body as an error shows it: on one line, and without
// what a receiver may have repeated of the request.
func (b *Bus) shown(body []byte) string {
	text := strings.Map(func(r rune) rune {
		switch {
		case unicode.IsSpace(r):
			return ' '
		case r == utf8.RuneError || !unicode.IsPrint(r):
			return -1
		}
		return r
	}, string(body))
	text = b.hide.Replace(text)
	if len(text) > maxShown {
		text = text[:maxShown]
		for !utf8.ValidString(text) {
			text = text[:len(text)-1]
		}
	}
	if text = strings.TrimSpace(text); text == "" {
		return ""
	}
	return ": " + text
}

// hiding returns what blots out a request's secrets. What is too short to be a secret
// stays, or the text would be unreadable.
func hiding(target *url.URL, header http.Header) *strings.Replacer {
	secrets := []string{target.RawQuery, target.EscapedPath(), target.Path}
	for _, values := range target.Query() {
		secrets = append(secrets, values...)
	}
	if password, ok := target.User.Password(); ok {
		secrets = append(secrets, password, target.User.String())
	}
	for _, values := range header {
		for _, v := range values {
			secrets = append(append(secrets, v), strings.Fields(v)...)
		}
	}
	// The longest first, because the first that matches is the one that is replaced.
	slices.SortFunc(secrets, func(x, y string) int { return len(y) - len(x) })
	var pairs []string
	for _, s := range secrets {
		if len(s) >= 8 {
			pairs = append(pairs, s, "***")
		}
	}
	return strings.NewReplacer(pairs...)
}
