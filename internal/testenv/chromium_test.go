//go:build unix

package testenv

import (
	"net/http"
	"net/url"
	"testing"

	"github.com/abidehq/abide/internal/check"
)

func TestChromiumAnswers(t *testing.T) {
	t.Parallel()
	at, err := url.Parse(Chromium(t))
	check.OK(t, err)
	answer, err := http.Get("http://" + at.Host + "/json/version")
	check.OK(t, err)
	defer answer.Body.Close()
	check.Equal(t, "it answers with status", answer.StatusCode, http.StatusOK)
}
