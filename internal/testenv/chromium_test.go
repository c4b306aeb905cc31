//go:build unix

package testenv

import (
	"net/http"
	"net/url"
	"testing"
)

func TestChromiumAnswers(t *testing.T) {
	t.Parallel()
	at, err := url.Parse(Chromium(t))
	if err != nil {
		t.Fatal(err)
	}
	answer, err := http.Get("http://" + at.Host + "/json/version")
	if err != nil {
		t.Fatal(err)
	}
	defer answer.Body.Close()
	if answer.StatusCode != http.StatusOK {
		t.Errorf("it answers with status %d, want 200", answer.StatusCode)
	}
}
