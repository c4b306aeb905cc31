//go:build unix

package testenv

import (
	"bufio"
	"fmt"
	"net"
	"testing"
	"time"

	"github.com/abidehq/abide/internal/check"
)

// ask sends one command, and returns the first line of the answer.
func ask(t *testing.T, addr, command string) (string, error) {
	t.Helper()
	conn, err := net.DialTimeout("tcp", addr, patience)
	if err != nil {
		return "", err
	}
	defer conn.Close()
	check.OK(t, conn.SetDeadline(time.Now().Add(patience)))
	fmt.Fprint(conn, command+"\r\n")
	return bufio.NewReader(conn).ReadString('\n')
}

func TestRedisKeepsItsDataThroughStopAndKill(t *testing.T) {
	t.Parallel()
	server := Redis(t)
	for i, end := range []func(){server.Stop, server.Kill} {
		if got, err := ask(t, server.Addr, "INCR starts"); err != nil || got != fmt.Sprintf(":%d\r\n", i+1) {
			t.Fatalf("after %d starts: %q, %v", i+1, got, err)
		}
		end()
		if got, err := ask(t, server.Addr, "PING"); err == nil {
			t.Fatalf("a server that was ended answers %q", got)
		}
		server.Start()
	}
}

func TestRedisHangsUntilItIsResumed(t *testing.T) {
	t.Parallel()
	server := Redis(t)
	resume := server.Hang()
	answer := make(chan error, 1)
	asking := make(chan struct{})
	go func() {
		close(asking)
		_, err := ask(t, server.Addr, "PING")
		answer <- err
	}()
	<-asking
	select {
	case <-answer:
		t.Fatal("a server that hangs answers")
	case <-time.After(100 * time.Millisecond):
	}
	resume()
	if err := <-answer; err != nil {
		t.Errorf("a server that was resumed: %v", err)
	}
}
