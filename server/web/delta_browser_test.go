//go:build unix

package web_test

import (
	"context"
	"encoding/json"
	"fmt"
	"net/http"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/chromedp/cdproto/runtime"
	"github.com/chromedp/chromedp"

	"github.com/abidehq/abide"
	"github.com/abidehq/abide/internal/browser"
	"github.com/abidehq/abide/internal/check"
)

// sameAsLoaded is a promise of the IDs of the regions that differ from those of the page as it
// is loaded now, without the words that the script writes.
const sameAsLoaded = `(async function () {
	const text = await (await fetch(location.href)).text();
	const fresh = new DOMParser().parseFromString(text, "text/html");
	const plain = (e) => e.innerHTML.replace(/( data-relative="">)[^<]*/g, "$1").replace(/ (hidden|open)=""/g, "");
	return [...document.querySelectorAll("[data-region]")].filter((r) => plain(r) !== plain(fresh.getElementById(r.id))).map((r) => r.id).join(" ");
})()`

// TestChangesMakeThePageThatIsLoaded: a page that was changed again and again is the one that
// would be loaded, and what was opened stays open.
func TestChangesMakeThePageThatIsLoaded(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	w.startLong(2_000, 40)
	w.startFan(60)
	b := openTab(t, browser.New(t), w, looks[0])
	differs := func() string {
		t.Helper()
		var ids string
		b.Run(chromedp.Evaluate(sameAsLoaded, &ids, func(p *runtime.EvaluateParams) *runtime.EvaluateParams { return p.WithAwaitPromise(true) }))
		return ids
	}
	b.Open(longPage)
	b.Live()
	b.Wait(`performance.getEntriesByName("first-contentful-paint").length`)
	t.Logf("first paint of %s after %s", longPage, b.Text(`performance.getEntriesByName("first-contentful-paint")[0].startTime.toFixed() + " ms, " + performance.getEntriesByType("navigation")[0].decodedBodySize + " bytes"`))
	b.Wait(`document.querySelector("#events li:last-child details[id]")`)
	b.Run(chromedp.Evaluate(`window.opened = document.querySelector("#events li:last-child details[id]").id; document.getElementById(opened).open = true`, nil))
	for range 3 {
		next := stepOf(w.longHistory()) + 1
		check.OK(t, approved.Raise(t.Context(), w.engine, "long-1", json.RawMessage("1")))
		w.untilStep(next)
		b.Shows(fmt.Sprintf("Step step-%d completed", next))
	}
	if !b.Is(`document.getElementById(opened).open`) {
		t.Error("what was opened is closed")
	}
	w.eventually(func() bool { return differs() == "" })

	b.Open("/instances/default/fan-1")
	b.Live()
	for i := range 5 {
		id := fmt.Sprint("fan-1-part-", i*7)
		check.OK(t, approved.Raise(t.Context(), w.engine, id, json.RawMessage("1")))
		w.until(abide.Ref{ID: id}, func(i abide.Info) bool { return i.Status == abide.Completed })
	}
	b.Shows("60 children: 55 running, 5 completed")
	w.eventually(func() bool { return differs() == "" })

	b.Open("/instances?orchestration=part&status=running")
	b.Live()
	check.OK(t, approved.Raise(t.Context(), w.engine, "fan-1-part-3", json.RawMessage("1")))
	b.Wait(`!document.querySelector('a[href$="/fan-1-part-3"]')`)
	w.eventually(func() bool { return differs() == "" })
}

// TestAnOpenPageTakesFewBytesASecond while its instance changes all the time.
func TestAnOpenPageTakesFewBytesASecond(t *testing.T) {
	t.Parallel()
	for name, tt := range map[string]struct {
		start func(w *world) string
		raise func(i int) string // the instance that is raised an event
	}{
		"10,000 events":  {func(w *world) string { w.startLong(10_000, 40); return longPage }, func(int) string { return "long-1" }},
		"1,000 children": {func(w *world) string { w.startFan(1_000); return "/instances/default/fan-1" }, func(i int) string { return fmt.Sprint("fan-1-part-", i) }},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			w := newWorld(t)
			path := tt.start(w)
			var mu sync.Mutex
			var bytes int
			var first, last time.Time
			answers := 0
			inner := w.handler
			w.handler = http.HandlerFunc(func(rw http.ResponseWriter, r *http.Request) {
				c := &countingWriter{ResponseWriter: rw}
				inner.ServeHTTP(c, r)
				if r.Header.Get("Abide-Version") == "" {
					return
				}
				mu.Lock()
				defer mu.Unlock()
				answers++
				if last = time.Now(); answers == 1 {
					first = last
				}
				bytes += c.n
			})
			b := openTab(t, browser.New(t), w, looks[0])
			b.Open(path)
			b.Wait(`performance.getEntriesByName("first-contentful-paint").length`)
			t.Logf("first paint after %s", b.Text(`performance.getEntriesByName("first-contentful-paint")[0].startTime.toFixed() + " ms, " + performance.getEntriesByType("navigation")[0].decodedBodySize + " bytes"`))
			seen := func() int {
				mu.Lock()
				defer mu.Unlock()
				return answers
			}
			for i := range 7 { // ten changes after each answer
				for j := range 10 {
					check.OK(t, approved.Raise(t.Context(), w.engine, tt.raise(10*i+j), json.RawMessage("1")))
				}
				b.until(func() bool { return seen() > i })
			}
			mu.Lock()
			defer mu.Unlock()
			rate := float64(bytes) / (last.Sub(first) + time.Second).Seconds() // the page waits after each, also the last
			t.Logf("%d bytes in %d answers: %.0f a second", bytes, answers, rate)
			if rate > maxChange {
				t.Errorf("%.0f bytes a second, want %d at most", rate, maxChange)
			}
		})
	}
}

// TestTheServerIsAway: the page says so, time stands still, and a dialog keeps what was typed.
func TestTheServerIsAway(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	w.start("nap", "nap-1", "", abide.Running)
	var away atomic.Bool
	open := make(chan struct{})
	inner := w.handler
	w.handler = http.HandlerFunc(func(rw http.ResponseWriter, r *http.Request) {
		if away.Load() {
			panic(http.ErrAbortHandler)
		}
		ctx, cancel := context.WithCancel(r.Context())
		defer cancel()
		if r.URL.Path == "/live" {
			go func() {
				select {
				case <-open:
					cancel()
				case <-ctx.Done():
				}
			}()
		}
		inner.ServeHTTP(rw, r.WithContext(ctx))
	})
	b := openTab(t, browser.New(t), w, looks[0])
	b.Open("/instances/default/nap-1")
	b.Live()
	b.Press("Raise event")
	b.Fill("Name", "approved")
	b.Fill("Payload", "{approved: true}")
	b.Press("Raise")
	b.Wait(`document.querySelector("dialog[open] .problem")?.textContent.includes("that is no JSON")`)
	check.Equal(t, "the payload", b.Text(`document.getElementById("f-data").value`), "{approved: true}")

	away.Store(true)
	close(open)
	b.Wait(`!document.getElementById("away").hidden && /No connection since \d\d:\d\d:\d\d; what you see is from then/.test(document.getElementById("away").textContent)`)
	b.Run(chromedp.Evaluate(`window.before = document.querySelector("time[data-relative]").textContent; window.stood = Date.now()`, nil))
	b.Fill("Payload", `{"approved": true}`)
	b.Press("Raise")
	b.Wait(`document.querySelector("dialog[open] .problem")?.textContent.includes("Not sent. No connection")`)
	check.Equal(t, "the payload", b.Text(`document.getElementById("f-data").value`), `{"approved": true}`)
	b.Wait(`Date.now() > stood + 2100`)
	if !b.Is(`document.querySelector("time[data-relative]").textContent === before`) {
		t.Error("time goes on")
	}

	away.Store(false)
	b.Wait(`document.getElementById("away").hidden`)
	b.Press("Raise")
	b.Shows("Kept: the instance does not wait for an event of that name yet.")
	b.Forgive() // it could not connect
}

// until waits until a condition holds.
func (b *tab) until(condition func() bool) {
	b.t.Helper()
	for end := time.Now().Add(2 * browser.Patience); !condition(); {
		if time.Now().After(end) {
			b.t.Fatal("it never comes true")
		}
		<-time.After(20 * time.Millisecond)
	}
}

// countingWriter counts the bytes of an answer.
type countingWriter struct {
	http.ResponseWriter
	n int
}

func (c *countingWriter) Write(p []byte) (int, error) {
	c.n += len(p)
	return c.ResponseWriter.Write(p)
}

// Unwrap is for flushing.
func (c *countingWriter) Unwrap() http.ResponseWriter { return c.ResponseWriter }
