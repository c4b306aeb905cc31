//go:build unix

package web_test

import (
	"context"
	_ "embed"
	"net/http/httptest"
	"testing"

	"github.com/chromedp/chromedp"

	"github.com/abidehq/abide/internal/browser"
)

// looks are all that are tested.
var looks = []browser.Look{{Theme: "light", Width: 1280}, {Theme: "dark", Width: 1280}, {Theme: "light", Width: 390}, {Theme: "dark", Width: 390}}

// tab is a tab of a browser that looks at a world.
type tab struct {
	*world
	*browser.Tab
	t *testing.T
}

// openTab serves a world, and opens a tab of a browser for it.
func openTab(t *testing.T, chromium context.Context, w *world, l browser.Look) *tab {
	t.Helper()
	server := httptest.NewServer(w.handler)
	t.Cleanup(server.Close)
	return &tab{world: w, Tab: browser.Open(t, chromium, server.URL, l), t: t}
}

//go:embed testdata/check.js
var checkScript string

// check fails the test for everything about the page that keeps people from using it.
func (b *tab) check(name string) {
	b.t.Helper()
	var findings []string
	b.Run(chromedp.Evaluate(checkScript, &findings))
	for _, f := range findings {
		b.t.Errorf("%s (%v): %s", name, b.Look(), f)
	}
}
