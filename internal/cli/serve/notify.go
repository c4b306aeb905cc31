package serve

import (
	"context"
	"fmt"
	"net"
	"os"
)

// notify tells systemd, or whoever else waits at NOTIFY_SOCKET, how this process is doing.
// If nobody does, nothing happens.
func notify(ctx context.Context, state string) error {
	address := os.Getenv("NOTIFY_SOCKET")
	if address == "" {
		return nil
	}
	conn, err := (&net.Dialer{}).DialContext(ctx, "unixgram", address)
	if err != nil {
		return fmt.Errorf("notify the service manager: %w", err)
	}
	defer conn.Close()
	if _, err := conn.Write([]byte(state)); err != nil {
		return fmt.Errorf("notify the service manager: %w", err)
	}
	return nil
}
