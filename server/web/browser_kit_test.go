//go:build unix

package web_test

import (
	"context"
	_ "embed"
	"fmt"
	"net/http/httptest"
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

	"github.com/abidehq/abide/internal/check"
	"github.com/abidehq/abide/internal/testenv"
)

// look is how somebody looks at the page.
type look struct {
	theme string // light or dark
	width int64
}

func (l look) String() string { return fmt.Sprintf("%s-%d", l.theme, l.width) }

// looks are all that are tested.
var looks = []look{{"light", 1280}, {"dark", 1280}, {"light", 390}, {"dark", 390}}

// tab is a tab of a real browser, which looks at a world.
type tab struct {
	*world
	t    *testing.T
	ctx  context.Context
	base string
	look look

	mu       sync.Mutex
	problems []string
}

// openTab opens a tab of a browser. What the browser complains about fails the test.
func openTab(t *testing.T, browser context.Context, w *world, l look) *tab {
	t.Helper()
	server := httptest.NewServer(w.handler)
	t.Cleanup(server.Close)
	ctx, cancel := chromedp.NewContext(browser)
	t.Cleanup(cancel)
	b := &tab{world: w, t: t, ctx: ctx, base: server.URL, look: l}
	chromedp.ListenTarget(ctx, b.listen)
	// The tab lasts as long as the context that it is opened with.
	check.OK(t, chromedp.Run(ctx))
	b.run(
		runtime.Enable(), log.Enable(),
		emulation.SetEmulatedMedia().WithFeatures([]*emulation.MediaFeature{
			{Name: "prefers-color-scheme", Value: l.theme}, {Name: "prefers-reduced-motion", Value: "reduce"},
		}),
		chromedp.EmulateViewport(l.width, 900),
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

// silent: the library complains about events that it does not know, which are no business
// of the page.
var silent = chromedp.WithErrorf(func(string, ...any) {})

// newBrowser starts a browser for a test and all of its tabs.
func newBrowser(t *testing.T) context.Context {
	t.Helper()
	ctx, cancel := chromedp.NewRemoteAllocator(context.Background(), testenv.Chromium(t), chromedp.NoModifyURL)
	t.Cleanup(cancel)
	ctx, cancel = chromedp.NewContext(ctx, silent)
	t.Cleanup(cancel)
	check.OK(t, chromedp.Run(ctx))
	return ctx
}

// listen collects errors of the console, of scripts and of the content security policy.
func (b *tab) listen(event any) {
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

// patience is how long a browser may take on a machine that is busy.
const patience = 30 * time.Second

func (b *tab) run(actions ...chromedp.Action) {
	b.t.Helper()
	ctx, cancel := context.WithTimeout(b.ctx, patience)
	defer cancel()
	if err := chromedp.Run(ctx, actions...); err != nil {
		b.shoot("failed")
		b.t.Fatalf("the browser: %v", err)
	}
}

// open goes to a page.
func (b *tab) open(path string) {
	b.t.Helper()
	b.run(chromedp.Navigate(b.base + path))
}

// is evaluates a condition in the page. While a page is being left there is nothing to
// evaluate it in, which counts as no.
func (b *tab) is(condition string) bool {
	var yes bool
	ctx, cancel := context.WithTimeout(b.ctx, patience)
	defer cancel()
	err := chromedp.Run(ctx, chromedp.Evaluate("!!("+condition+")", &yes))
	return err == nil && yes
}

// wait waits until a condition holds in the page.
func (b *tab) wait(condition string) {
	b.t.Helper()
	for end := time.Now().Add(patience); time.Now().Before(end); {
		if b.is(condition) {
			return
		}
		<-time.After(20 * time.Millisecond)
	}
	b.shoot("failed")
	b.t.Fatalf("this never comes true: %s", condition)
}

// shows waits until the page shows a text.
func (b *tab) shows(text string) {
	b.t.Helper()
	b.wait(fmt.Sprintf("document.body.innerText.includes(%q)", text))
}

// press clicks what has a label, in the open dialog if there is one.
func (b *tab) press(label string) {
	b.t.Helper()
	find := fmt.Sprintf(`[...(document.querySelector("dialog[open]") || document).querySelectorAll("a, button")]
		.find(e => (e.getAttribute("aria-label") || e.textContent.trim()) === %q && e.checkVisibility())`, label)
	b.wait(find)
	b.run(chromedp.Evaluate(find+".click()", nil))
}

// fill fills in a field by its label, as a person does.
func (b *tab) fill(label, value string) {
	b.t.Helper()
	find := fmt.Sprintf(`[...document.querySelectorAll("dialog[open] label")].find(e => e.textContent.replace("*", "").trim() === %q)`, label)
	b.wait(find)
	var id string
	b.run(chromedp.Evaluate(find+".control.id", &id))
	b.run(chromedp.Evaluate(fmt.Sprintf("document.getElementById(%q).select?.()", id), nil), chromedp.SendKeys("#"+id, value, chromedp.ByQuery))
}

// key presses a key that is also a character, as a keyboard does: if the page takes the
// key, the character is not typed.
func (b *tab) key(key string) {
	b.t.Helper()
	b.run(input.DispatchKeyEvent(input.KeyDown).WithKey(key).WithText(key), input.DispatchKeyEvent(input.KeyUp).WithKey(key))
}

// text evaluates something to a text.
func (b *tab) text(expression string) string {
	b.t.Helper()
	var text string
	b.run(chromedp.Evaluate(expression, &text))
	return text
}

// shoot takes a picture of the whole page.
func (b *tab) shoot(name string) {
	var picture []byte
	ctx, cancel := context.WithTimeout(b.ctx, patience)
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

//go:embed testdata/check.js
var checkScript string

// check fails the test for everything about the page that keeps somebody from using it.
func (b *tab) check(name string) {
	b.t.Helper()
	var findings []string
	b.run(chromedp.Evaluate(checkScript, &findings))
	for _, f := range findings {
		b.t.Errorf("%s (%v): %s", name, b.look, f)
	}
}
