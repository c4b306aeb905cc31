//go:build unix

package web_test

import (
	"testing"
	"time"

	"github.com/abidehq/abide"
	"github.com/abidehq/abide/history"
	"github.com/abidehq/abide/internal/base"
	"github.com/abidehq/abide/internal/browser"
	"github.com/abidehq/abide/internal/check"
)

// TestRewindInABrowser: the page of an instance that has failed offers to rewind it, with a reason, and shows how it
// goes on; that of one that has completed does not.
func TestRewindInABrowser(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	bank := "bank-" + base.NewID(time.Now())
	i, err := invoice.Start(t.Context(), w.engine, bank, abide.ID("invoice-1"))
	check.OK(t, err)
	w.until(i.Ref(), func(i abide.Info) bool { return i.Status == abide.Failed })
	b := openTab(t, browser.New(t), w, looks[0])
	b.Open("/instances/default/invoice-1")
	b.Shows("the bank is closed")
	openBanks.Store(bank, true)
	b.Press("Rewind")
	b.Shows("It goes on from before its failure, with its history")
	b.Fill("Reason", "the bank is open")
	b.Press("Rewind")
	b.Shows("paid by " + bank)
	b.Shows("Restart")
	b.check("rewound")
	w.lacks(w.see("/instances/default/invoice-1"), "/invoice-1/rewind")
	h, err := i.History(t.Context())
	check.OK(t, err)
	var reasons []string
	for _, e := range h.Events {
		if e.Kind == history.ExecutionRewound {
			reasons = append(reasons, e.Name)
		}
	}
	check.Equal(t, "rewinds", len(reasons), 1)
	check.Equal(t, "reason", reasons[0], "the bank is open")
}
