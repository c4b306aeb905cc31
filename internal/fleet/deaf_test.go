package fleet

import (
	"encoding/binary"
	"io"
	"net"
	"sync"
	"testing"

	"github.com/abidehq/abide/internal/check"
)

// deaf starts a relay to a database that passes on everything but notifications, as some
// connection poolers do, and returns its address. It ends with the test.
func deaf(t *testing.T, target string) string {
	t.Helper()
	l, err := net.Listen("tcp", "127.0.0.1:0")
	check.OK(t, err)
	var all sync.WaitGroup
	t.Cleanup(func() {
		_ = l.Close() // nothing was written
		all.Wait()
	})
	all.Go(func() {
		for {
			client, err := l.Accept()
			if err != nil {
				return // the test is over
			}
			server, err := net.Dial("tcp", target)
			if err != nil {
				_ = client.Close() // as if nobody had answered
				continue
			}
			all.Go(func() {
				_, _ = io.Copy(server, client) // however it ends, both end
				_ = server.Close()
			})
			all.Go(func() {
				_ = copyButNotifications(client, server) // likewise
				_ = client.Close()
			})
		}
	})
	return l.Addr().String()
}

// copyButNotifications passes on what a server says, message by message: a letter, a
// length that counts itself, and the rest. The letter of a notification is A.
func copyButNotifications(to io.Writer, from io.Reader) error {
	for {
		var head [5]byte
		if _, err := io.ReadFull(from, head[:]); err != nil {
			return err
		}
		message := make([]byte, 1+binary.BigEndian.Uint32(head[1:]))
		copy(message, head[:])
		if _, err := io.ReadFull(from, message[len(head):]); err != nil {
			return err
		}
		if head[0] == 'A' {
			continue
		}
		if _, err := to.Write(message); err != nil {
			return err
		}
	}
}
