//go:build unix

package browser

import (
	"context"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/chromedp/cdproto/emulation"
	"github.com/chromedp/cdproto/input"
	"github.com/chromedp/cdproto/log"
	"github.com/chromedp/cdproto/page"
	"github.com/chromedp/cdproto/runtime"
	"github.com/chromedp/chromedp"

	"github.com/abidehq/abide/internal/base"
	"github.com/abidehq/abide/internal/check"
	"github.com/abidehq/abide/internal/testenv"
)

// Patience is how long a browser may take on a machine that is busy.
const Patience = 30 * time.Second

// Look is a theme and a width of the window.
type Look struct {
	Theme string // light or dark
	Width int64
}

// String returns the theme and the width, as part of a name.
func (l Look) String() string { return fmt.Sprintf("%s-%d", l.Theme, l.Width) }

// Tab is a tab of a browser.
type Tab struct {
	// Patience is how long a wait may take: [Patience], unless it is changed.
	Patience time.Duration

	t    *testing.T
	ctx  context.Context
	base string
	look Look

	mu       sync.Mutex
	problems []string
}

// New starts a browser for a test and all of its tabs.
func New(t *testing.T) context.Context {
	t.Helper()
	ctx, cancel := chromedp.NewRemoteAllocator(context.Background(), testenv.Chromium(t), chromedp.NoModifyURL)
	t.Cleanup(cancel)
	// The library logs events that it does not know.
	ctx, cancel = chromedp.NewContext(ctx, chromedp.WithErrorf(func(string, ...any) {}))
	t.Cleanup(cancel)
	check.OK(t, chromedp.Run(ctx))
	return ctx
}

// Open opens a tab of a browser that [New] has returned, for pages below the URL base. The test fails
// if the browser has complained by its end.
func Open(t *testing.T, browser context.Context, base string, l Look) *Tab {
	t.Helper()
	ctx, cancel := chromedp.NewContext(browser)
	t.Cleanup(cancel)
	b := &Tab{Patience: Patience, t: t, ctx: ctx, base: base, look: l}
	chromedp.ListenTarget(ctx, b.listen)
	// The tab lasts as long as the context that it is opened with.
	check.OK(t, chromedp.Run(ctx))
	b.Run(
		runtime.Enable(), log.Enable(),
		emulation.SetEmulatedMedia().WithFeatures([]*emulation.MediaFeature{
			{Name: "prefers-color-scheme", Value: l.Theme}, {Name: "prefers-reduced-motion", Value: "reduce"},
		}),
		chromedp.EmulateViewport(l.Width, 900),
	)
	t.Cleanup(func() {
		b.mu.Lock()
		defer b.mu.Unlock()
		for _, problem := range b.problems {
			t.Errorf("the browser complains: %s", problem)
		}
	})
	return b
}

// Look returns the theme and the width of the tab.
func (b *Tab) Look() Look { return b.look }

// Forgive drops what the browser has complained about so far, such as a server that was away.
func (b *Tab) Forgive() {
	b.mu.Lock()
	defer b.mu.Unlock()
	b.problems = nil
}

// listen collects errors of the console, of scripts and of the content security policy.
func (b *Tab) listen(event any) {
	var problem string
	switch e := event.(type) {
	case *runtime.EventExceptionThrown:
		problem = e.ExceptionDetails.Error()
	case *runtime.EventConsoleAPICalled:
		if e.Type == runtime.APITypeError || e.Type == runtime.APITypeWarning {
			problem = string(e.Type)
			for _, arg := range e.Args {
				problem += " " + string(arg.Value) + arg.Description
			}
		}
	case *log.EventEntryAdded:
		if e.Entry.Level == log.LevelError || e.Entry.Level == log.LevelWarning {
			problem = e.Entry.Text + " " + e.Entry.URL
		}
	}
	if problem != "" {
		b.mu.Lock()
		b.problems = append(b.problems, problem)
		b.mu.Unlock()
	}
}

// Run runs actions of the library, which must succeed.
func (b *Tab) Run(actions ...chromedp.Action) {
	b.t.Helper()
	ctx, cancel := context.WithTimeout(b.ctx, b.Patience)
	defer cancel()
	if err := chromedp.Run(ctx, actions...); err != nil {
		b.Shoot("failed")
		b.t.Fatalf("the browser: %v", err)
	}
}

// Open goes to a page.
func (b *Tab) Open(path string) {
	b.t.Helper()
	b.Run(chromedp.Navigate(b.base + path))
}

// Is evaluates a condition in the page. While a page is being left there is nothing to
// evaluate it in, which counts as no.
func (b *Tab) Is(condition string) bool {
	var yes bool
	ctx, cancel := context.WithTimeout(b.ctx, b.Patience)
	defer cancel()
	err := chromedp.Run(ctx, chromedp.Evaluate("!!("+condition+")", &yes))
	return err == nil && yes
}

// Wait waits until a condition holds in the page.
func (b *Tab) Wait(condition string) {
	b.t.Helper()
	clock := base.System{}
	for end := clock.Now().Add(b.Patience); clock.Now().Before(end); {
		if b.Is(condition) {
			return
		}
		moment := make(chan struct{})
		clock.AfterFunc(20*time.Millisecond, func() { close(moment) })
		<-moment
	}
	b.Shoot("failed")
	b.t.Fatalf("this never comes true: %s", condition)
}

// Live waits until the page has loaded its script and is told of changes.
func (b *Tab) Live() {
	b.t.Helper()
	b.Wait(`document.getElementById("live-state")?.hidden === false && document.getElementById("live-words").textContent === "live"`)
}

// Shows waits until the page shows a text.
func (b *Tab) Shows(text string) {
	b.t.Helper()
	b.Wait(fmt.Sprintf("document.body.innerText.includes(%q)", text))
}

// Press clicks what has a label, in the open dialog if there is one.
func (b *Tab) Press(label string) {
	b.t.Helper()
	find := fmt.Sprintf(`[...(document.querySelector("dialog[open]") || document).querySelectorAll("a, button")]
		.find(e => (e.getAttribute("aria-label") || e.textContent.trim()) === %q && e.checkVisibility())`, label)
	b.Wait(find)
	b.Run(chromedp.Evaluate(find+".click()", nil))
}

// Fill fills in a field of the open dialog by its label, as a person does.
func (b *Tab) Fill(label, value string) {
	b.t.Helper()
	find := fmt.Sprintf(`[...document.querySelectorAll("dialog[open] label")].find(e => e.textContent.replace("*", "").trim() === %q)`, label)
	b.Wait(find)
	var id string
	b.Run(chromedp.Evaluate(find+".control.id", &id))
	b.Run(chromedp.Evaluate(fmt.Sprintf("document.getElementById(%q).select?.()", id), nil), chromedp.SendKeys("#"+id, value, chromedp.ByQuery))
}

// Tick clicks a box of the open dialog by its label.
func (b *Tab) Tick(label string) {
	b.t.Helper()
	find := fmt.Sprintf(`[...document.querySelectorAll("dialog[open] label")].find(e => e.textContent.trim() === %q && e.checkVisibility())`, label)
	b.Wait(find)
	b.Run(chromedp.Evaluate(find+".click()", nil))
}

// Key presses a key that is also a character, as a keyboard does: if the page takes the
// key, the character is not typed.
func (b *Tab) Key(key string) {
	b.t.Helper()
	b.Run(input.DispatchKeyEvent(input.KeyDown).WithKey(key).WithText(key), input.DispatchKeyEvent(input.KeyUp).WithKey(key))
}

// Text evaluates an expression to a text.
func (b *Tab) Text(expression string) string {
	b.t.Helper()
	var text string
	b.Run(chromedp.Evaluate(expression, &text))
	return text
}

// Shoot takes a picture of the whole page, into $ABIDE_ARTIFACTS or the test's folder of artifacts.
func (b *Tab) Shoot(name string) {
	var picture []byte
	ctx, cancel := context.WithTimeout(b.ctx, b.Patience)
	defer cancel()
	err := chromedp.Run(ctx, chromedp.ActionFunc(func(ctx context.Context) error {
		var err error
		picture, err = page.CaptureScreenshot().WithCaptureBeyondViewport(true).Do(ctx)
		return err
	}))
	if err != nil {
		b.t.Logf("no picture: %v", err)
		return
	}
	folder := os.Getenv("ABIDE_ARTIFACTS")
	if folder == "" {
		folder = b.t.ArtifactDir()
	}
	check.OK(b.t, os.MkdirAll(folder, 0o755))
	name = strings.ReplaceAll(name, "/", "_") + "-" + b.look.String() + ".png"
	check.OK(b.t, os.WriteFile(filepath.Join(folder, name), picture, 0o600))
}
