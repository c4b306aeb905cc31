package top

import (
	"fmt"
	"io"
	"strings"
	"testing"
	"time"

	"github.com/abidehq/abide/internal/cli/connect"
	"github.com/abidehq/abide/internal/cli/instances"

	tea "charm.land/bubbletea/v2"
	"github.com/charmbracelet/x/ansi"

	"github.com/abidehq/abide"
	"github.com/abidehq/abide/store/memstore"
)

// newTestWatcher returns a watcher of a store in memory with so many instances.
func newTestWatcher(t *testing.T, n int) *watcher {
	t.Helper()
	b := connect.NewStoreBackend(memstore.New(memstore.Options{}))
	t.Cleanup(func() {
		if err := b.Close(); err != nil {
			t.Error(err)
		}
	})
	for i := range n {
		if _, err := instances.StartInstance(t.Context(), b.Client(), "order", "", nil, []abide.StartOption{abide.ID(fmt.Sprintf("order-%02d", i)), abide.Unchecked()}); err != nil {
			t.Fatal(err)
		}
	}
	w, err := newWatcher(t.Context(), b)
	if err != nil {
		t.Fatal(err)
	}
	return w
}

// newTestModel returns the model after its first look, at a screen of a size.
func newTestModel(t *testing.T, instances, width, height int) *topModel {
	t.Helper()
	m := newTopModel(t.Context(), newTestWatcher(t, instances), time.Second, false)
	m.Update(tea.WindowSizeMsg{Width: width, Height: height})
	m.Update(m.look())
	return m
}

func press(m *topModel, keys ...tea.KeyPressMsg) (cmd tea.Cmd) {
	for _, key := range keys {
		_, cmd = m.Update(key)
	}
	return cmd
}

var (
	keyDown  = tea.KeyPressMsg{Code: tea.KeyDown}
	keyUp    = tea.KeyPressMsg{Code: tea.KeyUp}
	keyEnter = tea.KeyPressMsg{Code: tea.KeyEnter}
	keyEsc   = tea.KeyPressMsg{Code: tea.KeyEscape}
	keyQ     = tea.KeyPressMsg{Code: 'q', Text: "q"}
)

// The screen is never larger than the terminal, and shows what there is.
func TestTopFitsItsScreen(t *testing.T) {
	t.Parallel()
	m := newTestModel(t, 60, 80, 24)
	for _, size := range [][2]int{{80, 24}, {200, 60}, {40, 12}, {20, 5}} {
		m.Update(tea.WindowSizeMsg{Width: size[0], Height: size[1]})
		lines := strings.Split(m.View().Content, "\n")
		if len(lines) > size[1] {
			t.Errorf("%v: %d lines", size, len(lines))
		}
		for _, line := range lines {
			if ansi.StringWidth(line) > size[0] {
				t.Errorf("%v: %q is wider", size, line)
			}
		}
	}
	m.Update(tea.WindowSizeMsg{Width: 120, Height: 40})
	for _, want := range []string{"started/s", "unserved    1", "order (nobody serves it)", "> order-59", "q ends"} {
		if !strings.Contains(m.View().Content, want) {
			t.Errorf("%q is not in\n%s", want, m.View().Content)
		}
	}
}

// The cursor moves, stays with its instance when others come, and is always on the screen.
func TestTopCursor(t *testing.T) {
	t.Parallel()
	m := newTestModel(t, 45, 100, 24)
	press(m, keyUp, keyDown, keyDown)
	if m.chosen.ID != "order-42" {
		t.Fatalf("the cursor is at %v", m.chosen)
	}
	if _, err := instances.StartInstance(t.Context(), m.w.engine, "order", "", nil, []abide.StartOption{abide.ID("order-new"), abide.Unchecked()}); err != nil {
		t.Fatal(err)
	}
	m.Update(m.look())
	if m.chosen.ID != "order-42" || !strings.Contains(m.View().Content, "order-new ") {
		t.Errorf("the cursor is at %v in\n%s", m.chosen, m.View().Content)
	}
	for range 60 {
		press(m, keyDown)
		if !strings.Contains(m.View().Content, "> "+m.chosen.ID) {
			t.Fatalf("%v is not on the screen:\n%s", m.chosen, m.View().Content)
		}
	}
	if m.chosen.ID != "order-00" {
		t.Errorf("at the end the cursor is at %v", m.chosen)
	}
}

// Enter shows an instance, which is read again with each look, and esc goes back.
func TestTopDetails(t *testing.T) {
	t.Parallel()
	m := newTestModel(t, 3, 100, 24)
	show := press(m, keyDown, keyEnter)
	if show == nil {
		t.Fatal("enter asks for nothing")
	}
	m.Update(show())
	for _, want := range []string{"instance order-01", "it waits for a process that serves order"} {
		if !strings.Contains(m.View().Content, want) {
			t.Errorf("%q is not in\n%s", want, m.View().Content)
		}
	}
	if err := m.w.engine.Suspend(t.Context(), abide.Ref{ID: "order-01"}, ""); err != nil {
		t.Fatal(err)
	}
	if _, again := m.Update(tickMsg{}); again == nil {
		t.Error("it is not read again")
	}
	press(m, keyEsc)
	if !strings.Contains(m.View().Content, "latest instances") {
		t.Errorf("after esc:\n%s", m.View().Content)
	}
	quit := press(m, keyQ)
	if quit == nil {
		t.Fatal("q does nothing")
	}
	if _, ok := quit().(tea.QuitMsg); !ok {
		t.Error("q does not end it")
	}
}

// What goes wrong is said, and what was seen before stays.
func TestTopErrors(t *testing.T) {
	t.Parallel()
	m := newTestModel(t, 1, 100, 24)
	_, next := m.Update(overviewMsg{err: io.ErrUnexpectedEOF})
	if next == nil {
		t.Error("it does not look again")
	}
	for _, want := range []string{"cannot look: unexpected EOF", "order-00"} {
		if !strings.Contains(m.View().Content, want) {
			t.Errorf("%q is not in\n%s", want, m.View().Content)
		}
	}
}

// Rates are differences, and what is not known is not called zero.
func TestTopRates(t *testing.T) {
	t.Parallel()
	w := newTestWatcher(t, 2)
	o, err := w.look(t.Context())
	if err != nil || o.started >= 0 || o.ended >= 0 {
		t.Fatalf("at first: started %v, ended %v, %v", o.started, o.ended, err)
	}
	for begun := o.at; !o.at.After(begun); { // what began in this millisecond counts in the next
		if o.stats, err = w.b.Stats(t.Context()); err != nil {
			t.Fatal(err)
		}
		o.at = o.stats.Now
	}
	w.last, w.at = o.at.Add(-4*time.Second), w.at.Add(-4*time.Second)
	w.tally = &tally{known: true}
	for _, status := range []abide.Status{abide.Running, abide.Completed, abide.Failed} {
		w.tally.count(abide.Change{Status: status})
	}
	w.tally.count(abide.Change{Status: abide.Completed, Deleted: true})
	if o, err = w.look(t.Context()); err != nil {
		t.Fatal(err)
	}
	if o.started <= 0.3 || o.started > 0.5 || o.ended <= 0.2 || o.ended > 0.5 || o.failed >= o.ended {
		t.Errorf("started %v, ended %v, failed %v", o.started, o.ended, o.failed)
	}
	w.tally.Set(false)
	if o, err = w.look(t.Context()); err != nil || o.ended >= 0 {
		t.Errorf("ended %v, %v, and nobody knows", o.ended, err)
	}
	for rate, want := range map[float64]string{-1: "–", 0: "0.0", 3.25: "3.2", 1234.5: "1234"} {
		if got := rateText(rate); got != want {
			t.Errorf("%v is %q, want %q", rate, got, want)
		}
	}
}
