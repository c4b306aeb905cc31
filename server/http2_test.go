package server_test

import (
	"bufio"
	"context"
	"net"
	"net/http"
	"testing"
	"time"

	"github.com/abidehq/abide/internal/check"
	"github.com/abidehq/abide/internal/rig"
)

// browser opens a stream the way a browser does that talks to a server with TLS: with
// HTTP/2, where each stream has deadlines of its own.
func (b *bubble) browser(path string) (*listener, func()) {
	b.Helper()
	transport := &http.Transport{
		Protocols:   &http.Protocols{},
		DialContext: func(context.Context, string, string) (net.Conn, error) { return b.connect(), nil },
	}
	transport.Protocols.SetUnencryptedHTTP2(true)
	ctx, cancel := context.WithCancel(b.Context())
	req, err := http.NewRequestWithContext(ctx, http.MethodGet, "http://localhost"+path, http.NoBody)
	check.OK(b, err)
	resp, err := (&http.Client{Transport: transport}).Do(req)
	check.OK(b, err)
	if resp.StatusCode != http.StatusOK || resp.ProtoMajor != 2 {
		b.Fatalf("%s: %d over %s", path, resp.StatusCode, resp.Proto)
	}
	return &listener{body: resp.Body, lines: bufio.NewReader(resp.Body)}, func() {
		cancel()
		_ = resp.Body.Close()
		transport.CloseIdleConnections()
	}
}

// A stream on which nothing happens is not one whose client leaves no room.
func TestStreamsOverHTTP2OutliveASilence(t *testing.T) {
	inBubble(t, func(b *bubble) {
		for _, path := range []string{changesPath, "/live?kinds=instances"} {
			l, end := b.browser(path)
			c := b.collect(l)
			rig.Pass(time.Minute)
			select {
			case <-c.done:
				b.Errorf("%s has ended after a silence", path)
			default:
			}
			if _, signs := c.get(); signs < 4 {
				b.Errorf("%s: %d signs of life in a minute", path, signs)
			}
			end()
			<-c.done
		}
	})
}

func TestStreamsOfThePageEndWhenTheServerIsAboutToStop(t *testing.T) {
	inBubble(t, func(b *bubble) {
		l, end := b.browser("/live?kinds=instances")
		defer end()
		c := b.collect(l)
		rig.Pass(time.Minute)
		b.server.Drain()
		rig.Pass(time.Second)
		select {
		case <-c.done:
		default:
			b.Error("the stream does not end")
		}
	})
}
