package server_test

import (
	"bufio"
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/abidehq/abide"
	"github.com/abidehq/abide/internal/check"
	"github.com/abidehq/abide/internal/rig"
)

const changesPath = "/api/v1/instances/stream"

// said returns what a change is about.
func said(t *testing.T, ev sent) string {
	t.Helper()
	if ev.name != "change" {
		return ev.name
	}
	var c struct{ Tenant, ID, Orchestration, Status string }
	if err := json.Unmarshal([]byte(ev.data), &c); err != nil {
		t.Fatalf("%+v: %v", ev, err)
	}
	return c.Tenant + "/" + c.ID + " " + c.Orchestration + " " + c.Status
}

func TestChangesGoOnWhereAConnectionWasCut(t *testing.T) {
	t.Parallel()
	h := newHall(t)
	l := listen(t, h, changesPath)
	h.started("wait", "default", "a", abide.Running)
	got := []string{said(t, l.event(t))}
	_ = l.body.Close() // in the middle
	h.started("fail", "acme", "b", abide.Failed)
	for _, resume := range []func() *listener{
		func() *listener { return listen(t, h, changesPath, "Last-Event-ID: "+l.last) },
		func() *listener { return listen(t, h, changesPath+"?after="+l.last) },
		func() *listener { return listen(t, h, changesPath+"?after=nonsense", "Last-Event-ID: "+l.last) },
	} {
		next := resume()
		seen := strings.Join(got, ", ")
		for !strings.HasSuffix(seen, "acme/b fail failed") {
			seen += ", " + said(t, next.event(t))
		}
		_ = next.body.Close()
		// Changes that follow each other quickly may come as one.
		for _, quick := range []string{"default/a wait pending, ", "default/a wait running, ", "acme/b fail pending, "} {
			seen = strings.Replace(seen, quick, "", 1)
		}
		check.Equal(t, "seen", seen, "acme/b fail failed")
	}
}

func TestMissedChangesAreSaidToBe(t *testing.T) {
	t.Parallel()
	h := newHall(t)
	l := listen(t, h, changesPath, "Last-Event-ID: another-1")
	if ev := l.event(t); ev.name != "missed" || ev.data != "{}" || l.last != "" {
		t.Errorf("%+v, and the place to come back to is %q", ev, l.last)
	}
	h.started("wait", "acme", "a", abide.Running)
	if got := said(t, l.event(t)); !strings.HasPrefix(got, "acme/a wait") {
		t.Errorf("after that: %s", got)
	}
}

func TestStreamsAreLimited(t *testing.T) {
	t.Parallel()
	h := newHall(t)
	all := listen(t, h, changesPath)
	streams := map[string]*listener{}
	for _, tt := range []struct{ query, who string }{
		{"?tenant=acme", "read:*"}, {"?tenant=default", "read:*"}, {"?orchestration=fail&orchestration=wait", "read:*"}, {"?status=failed,stalled", "read:*"},
		{"", "read:acme,other"}, {"", "read:default"}, {"?tenant=acme&status=completed", "read:acme"},
	} {
		streams[tt.query+" "+tt.who] = listen(t, h, changesPath+tt.query, who+": "+tt.who)
	}
	// The last one is for all.
	h.started("wait", "default", "w", abide.Running)
	h.started("fail", "acme", "f", abide.Failed)
	h.started("echo", "other", "e", abide.Completed)
	for _, tenant := range []string{"default", "acme", "other"} {
		h.started("echo", tenant, "z", abide.Completed)
		h.want(http.StatusNoContent, "DELETE /api/v1/instances/"+tenant+"/z", "")
	}
	for l, want := range map[string]string{
		"?tenant=acme read:*":                           "acme/f acme/z",
		"?tenant=default read:*":                        "default/w default/z",
		"?orchestration=fail&orchestration=wait read:*": "default/w acme/f default/z acme/z other/z",
		"?status=failed,stalled read:*":                 "acme/f default/z acme/z other/z",
		" read:acme,other":                              "acme/f other/e acme/z other/z",
		" read:default":                                 "default/w default/z",
		"?tenant=acme&status=completed read:acme":       "acme/z",
	} {
		gone := want[strings.LastIndex(want, " ")+1:]
		var seen []string
		for {
			ev := streams[l].event(t)
			what, _, _ := strings.Cut(said(t, ev), " ")
			if len(seen) == 0 || seen[len(seen)-1] != what {
				seen = append(seen, what)
			}
			if what == gone && strings.Contains(ev.data, `"deleted":true`) {
				break
			}
		}
		if got := strings.Join(seen, " "); got != want {
			t.Errorf("%s: %s, want %s", l, got, want)
		}
	}
	if ev := all.event(t); !strings.Contains(ev.data, `"tenant":"default","id":"w","orchestration":"wait"`) || ev.id == "" {
		t.Errorf("%+v", ev)
	}
}

// TestAThousandClients get the same change.
func TestAThousandClients(t *testing.T) {
	t.Parallel()
	const clients = 1000
	h := newHall(t)
	var ready, done sync.WaitGroup
	var mu sync.Mutex
	frames := map[string]int{}
	for range clients {
		ready.Add(1)
		done.Go(func() {
			var once sync.Once
			defer once.Do(ready.Done)
			resp := h.send(t.Context(), "GET "+changesPath+"?status=failed", "")
			defer resp.Body.Close()
			l := &listener{lines: bufio.NewReader(resp.Body)}
			if _, ok := l.next(); !ok {
				return
			}
			once.Do(ready.Done)
			for {
				ev, ok := l.next()
				if !ok {
					return
				}
				if ev.name != "" {
					mu.Lock()
					frames[fmt.Sprint(ev)]++
					mu.Unlock()
					return
				}
			}
		})
	}
	ready.Wait()
	h.started("fail", "acme", "f", abide.Failed)
	done.Wait()
	check.Equal(t, "different events", len(frames), 1)
	for ev, n := range frames {
		if n != clients || !strings.Contains(ev, `"id":"f"`) {
			t.Errorf("%d clients got %s", n, ev)
		}
	}
}

// TestASlowClientIsDroppedAndHoldsUpNobody: one that does not read, or whose machine is
// gone without a word, with and without anything to send to it.
func TestASlowClientIsDroppedAndHoldsUpNobody(t *testing.T) {
	for _, busy := range []bool{true, false} {
		t.Run(fmt.Sprint("busy ", busy), func(t *testing.T) {
			inBubble(t, func(b *bubble) {
				l, conn := b.stream(changesPath)
				defer conn.Close()
				fast := b.collect(l)
				slow := b.dial(changesPath)
				defer slow.Close()
				resp, err := http.ReadResponse(bufio.NewReader(slow), nil) // and no more
				if err != nil || resp.StatusCode != http.StatusOK {
					b.Fatal(resp, err)
				}
				rig.Pass(time.Second)
				if busy {
					for i := range 100 {
						b.start("wait", fmt.Sprint("i", i))
					}
					rig.Pass(time.Second)
					if events, _ := fast.get(); len(events) < 100 {
						b.Errorf("the fast one has %d events while the slow one is there", len(events))
					}
				}
				rig.Pass(time.Minute)
				// The connection is closed: what is left in it can be read, and then it ends.
				gone := make(chan error, 1)
				go func() {
					_, err := bufio.NewReader(slow).ReadString(0)
					gone <- err
				}()
				rig.Pass(time.Second)
				select {
				case <-gone:
				default:
					b.Error("the slow one is still served")
				}
				b.start("fail", "last")
				rig.Pass(time.Second)
				events, _ := fast.get()
				if n := len(events); n == 0 || !strings.Contains(events[n-1].data, `"last"`) {
					b.Error("the fast one is served no more")
				}
			})
		})
	}
}

// TestStreamsBeat: every 15 seconds, so that nobody takes them for dead, and say how far
// the client has come although there was nothing in it for it.
func TestStreamsBeat(t *testing.T) {
	inBubble(t, func(b *bubble) {
		l, conn := b.stream(changesPath + "?status=failed")
		defer conn.Close()
		c := b.collect(l)
		rig.Pass(time.Minute + time.Second)
		if _, comments := c.get(); comments != 4 {
			b.Errorf("%d beats in a minute", comments)
		}
		b.start("wait", "w")
		rig.Pass(time.Minute)
		last := c.last()
		if events, _ := c.get(); len(events) != 0 || last == "" {
			b.Errorf("%d events, and the place to come back to is %q", len(events), last)
		}
		b.start("fail", "f")
		rig.Pass(time.Second)
		again, conn2 := b.stream(changesPath, "Last-Event-ID: "+last)
		defer conn2.Close()
		if got := said(b.T, again.event(b.T)); !strings.HasPrefix(got, "default/f") {
			b.Errorf("after the place: %s", got)
		}
	})
}

// TestStreamsEnd: after a while, so that a token is looked at again, and when the server is
// about to stop. So do waits.
func TestStreamsEnd(t *testing.T) {
	inBubble(t, func(b *bubble) {
		b.start("wait", "w")
		rig.Pass(time.Second)
		begin := time.Now()
		var ends []*collected
		for _, path := range []string{changesPath, "/api/v1/instances/default/w/history/stream"} {
			l, conn := b.stream(path)
			b.Cleanup(func() { _ = conn.Close() })
			ends = append(ends, b.collect(l))
		}
		rig.Pass(11 * time.Minute)
		for _, c := range ends {
			c.mu.Lock()
			check.Equal(b, "the stream went on for", c.ended.Sub(begin), 10*time.Minute)
			c.mu.Unlock()
		}
		l, conn := b.stream(changesPath)
		defer conn.Close()
		open := b.collect(l)
		polls := map[string]status{}
		for _, path := range []string{"w?wait=60s&after=99", "w/result?wait=60s", "none?wait=60s"} {
			polls[path] = newPoll(b, "/api/v1/instances/default/"+path)
		}
		rig.Pass(time.Second)
		begin = time.Now()
		b.server.Drain()
		rig.Pass(time.Second)
		<-open.done
		for path, want := range map[string]int{"w?wait=60s&after=99": 200, "w/result?wait=60s": 202, "none?wait=60s": 404} {
			select {
			case code := <-polls[path]:
				if code != want {
					b.Errorf("%s: %d, want %d", path, code, want)
				}
			default:
				b.Errorf("%s still waits", path)
			}
		}
		if code := <-newPoll(b, "/api/v1/instances/default/w?wait=60s&after=99"); code != http.StatusOK || time.Since(begin) > 2*time.Second {
			b.Errorf("a wait that comes later: %d after %v", code, time.Since(begin))
		}
	})
}

// status is where the status of an answer comes.
type status chan int

func newPoll(b *bubble, path string) status {
	b.Helper()
	conn := b.dial(path)
	b.Cleanup(func() { _ = conn.Close() })
	c := make(status, 1)
	go func() {
		defer conn.Close()
		resp, err := http.ReadResponse(bufio.NewReader(conn), nil)
		if err != nil {
			c <- 0
			return
		}
		defer resp.Body.Close()
		c <- resp.StatusCode
	}()
	return c
}

// TestAStartWaitsLongerThanItsBodyMayTake: the time that a body has to arrive is not the
// time that its answer may take.
func TestAStartWaitsLongerThanItsBodyMayTake(t *testing.T) {
	inBubble(t, func(b *bubble) {
		near := b.connect()
		defer near.Close()
		body := `{"orchestration":"wait","id":"w"}`
		_, err := fmt.Fprintf(near, "POST /api/v1/instances?wait=50s HTTP/1.1\r\nHost: localhost\r\nContent-Type: application/json\r\nContent-Length: %d\r\n\r\n%s", len(body), body)
		check.OK(b, err)
		answer := make(chan string, 1)
		go func() {
			resp, err := http.ReadResponse(bufio.NewReader(near), nil)
			if err != nil {
				answer <- err.Error()
				return
			}
			defer resp.Body.Close()
			data, _ := io.ReadAll(resp.Body) // what is missing is found below
			answer <- fmt.Sprint(resp.StatusCode, " ", string(data))
		}()
		rig.Pass(40 * time.Second)
		check.OK(b, abide.NewEvent[string]("go").Raise(b.Context(), b.engine, "w", "on"))
		if got := <-answer; !strings.HasPrefix(got, "201 ") || !strings.Contains(got, `"result":"on"`) {
			b.Error(got)
		}
	})
}
