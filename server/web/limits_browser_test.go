//go:build unix

package web_test

import (
	"testing"

	"github.com/chromedp/chromedp"

	"github.com/abidehq/abide/internal/browser"
)

// TestLimitsInABrowser looks at the pages of limits, in both themes and at both widths.
func TestLimitsInABrowser(t *testing.T) {
	t.Parallel()
	bank := newBank(newWorld(t))
	bank.done("/limits/default/nightly-runs/pause")
	bank.done("/limits/new", "name", "mail", "tenant", "acme", "rate", "30", "per", "90s", "perkey", "yes")
	pages := map[string]string{
		"limits": "/limits", "limit": "/limits/default/gateway", "limit-keys": "/limits/default/customer", "limit-paused": "/limits/default/nightly-runs",
		"limit-set": "/limits/default/gateway/set", "limit-new": "/limits/new", "limit-waits": "/instances/default/transfer-5",
		"limit-pending": "/instances/default/nightly-3", "limit-held": "/",
	}
	chromium := browser.New(t)
	for _, l := range looks {
		t.Run(l.String(), func(t *testing.T) {
			b := openTab(t, chromium, bank.world, l)
			for name, path := range pages {
				b.Open(path)
				b.check(name)
				b.Shoot(name)
			}
		})
	}
}

// TestALimitInABrowser changes a limit by clicking, and sees what waits begin without loading the page again.
func TestALimitInABrowser(t *testing.T) {
	t.Parallel()
	chromium := browser.New(t)
	for _, l := range []browser.Look{looks[0], looks[3]} {
		t.Run(l.String(), func(t *testing.T) {
			bank := newBank(newWorld(t))
			b := openTab(t, chromium, bank.world, l)
			b.Open("/limits")
			b.Press("gateway")
			b.Press("Pause")
			b.Shows("Nothing more begins under it")
			b.Press("Pause")
			b.Shows("Paused. What is under way goes on.")
			b.Press("Resume")
			b.Shows("What waits begins, as far as the rule allows.")
			b.Press("Resume")
			b.Shows("Resumed.")
			b.Press("Change the rule")
			b.Fill("At a time", "2")
			b.Press("Save")
			b.Shows("2 of 2 in use")
			b.Live()
			b.Run(chromedp.Evaluate("window.stayed = true", nil))
			bank.release()
			b.Shows("0 of 2")
			if !b.Is("window.stayed") {
				t.Error("the page was loaded again")
			}
			b.Press("Use the rule of the code")
			b.Press("Use it")
			b.Shows("The rule of the code counts again.")
			b.check("limit-story")
		})
	}
}
