// Package socket is the Unix socket beside an embedded store.
//
// One process at a time can open the store. It listens at the socket, so that other processes of
// the same user, such as the command line, reach what is in the store through it. The permissions
// of the socket allow its owner alone: a connection needs no other proof.
package socket

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"net"
	"os"
	"path/filepath"
	"strings"
	"time"

	"github.com/abidehq/abide/store"
)

// maxSocket is the longest path of a socket that all systems take, in bytes.
const maxSocket = 100

// Beside returns the path of the socket beside the store in a folder.
func Beside(dir string) string { return dir + ".sock" }

// addressBeside returns the file with the path of the socket, if [Beside] is too long for one.
func addressBeside(dir string) string { return dir + ".addr" }

// Socket is the listener of a process that has a store open.
type Socket struct {
	net.Listener
	Path    string // of the socket
	private string // the folder that was made for it, or empty
	address string // the file that says where it is, or empty
}

// Listen listens at the socket of the store in a folder, which this process has open. It removes
// the socket of a process that died, and returns an error that matches [store.ErrInUse] if another
// process answers there.
func Listen(ctx context.Context, dir string) (*Socket, error) {
	old, err := Find(dir)
	switch {
	case errors.Is(err, fs.ErrNotExist):
	case err != nil:
		return nil, fmt.Errorf("listen beside the store: %w", err)
	case Answers(ctx, old):
		return nil, fmt.Errorf("another process listens at %s: %w", old, store.ErrInUse)
	default:
		if err := removeOld(dir, old); err != nil {
			return nil, err
		}
	}
	s := &Socket{Path: Beside(dir)}
	if len(s.Path) > maxSocket {
		if s.private, err = os.MkdirTemp("", "abide-"); err != nil {
			return nil, fmt.Errorf("make a folder for the socket: %w", err)
		}
		s.Path = filepath.Join(s.private, "sock")
	}
	config := net.ListenConfig{Control: onlyOwner}
	if s.Listener, err = config.Listen(ctx, "unix", s.Path); err != nil {
		return nil, errors.Join(fmt.Errorf("listen beside the store: %w", err), s.removeFiles())
	}
	if err = os.Chmod(s.Path, 0o600); err == nil && s.private != "" {
		s.address = addressBeside(dir)
		err = os.WriteFile(s.address, []byte(s.Path+"\n"), 0o600)
	}
	if err != nil {
		return nil, errors.Join(fmt.Errorf("listen beside the store: %w", err), s.Close())
	}
	return s, nil
}

// Close stops listening and removes the socket.
func (s *Socket) Close() error {
	err := s.Listener.Close()
	if errors.Is(err, net.ErrClosed) {
		err = nil // the server has closed it
	}
	return errors.Join(err, s.removeFiles())
}

func (s *Socket) removeFiles() error {
	var errs []error
	for _, name := range []string{s.address, s.private} {
		if name != "" {
			errs = append(errs, ignoreMissing(os.Remove(name)))
		}
	}
	return errors.Join(errs...)
}

// Find returns where the process should listen that has the store in a folder open.
func Find(dir string) (string, error) {
	text, err := os.ReadFile(addressBeside(dir))
	if err == nil {
		return strings.TrimSpace(string(text)), nil
	}
	path := Beside(dir)
	info, err := os.Lstat(path)
	switch {
	case err != nil:
		return path, err
	case info.Mode().Type() != fs.ModeSocket:
		return path, fmt.Errorf("%s is not a socket", path)
	default:
		return path, nil
	}
}

// Answers reports whether a process listens at a socket.
func Answers(ctx context.Context, path string) bool {
	dialer := net.Dialer{Timeout: time.Second}
	conn, err := dialer.DialContext(ctx, "unix", path)
	if err != nil {
		return false
	}
	_ = conn.Close()
	return true
}

// removeOld removes the socket that a dead process has left.
func removeOld(dir, path string) error {
	errs := []error{ignoreMissing(os.Remove(addressBeside(dir)))}
	if path == Beside(dir) {
		errs = append(errs, ignoreMissing(os.Remove(path)))
	} else if folder := filepath.Dir(path); strings.HasPrefix(filepath.Base(folder), "abide-") {
		_ = os.Remove(path)
		_ = os.Remove(folder) // only if there is nothing else in it
	}
	if err := errors.Join(errs...); err != nil {
		return fmt.Errorf("remove the socket of a process that is gone: %w", err)
	}
	return nil
}

func ignoreMissing(err error) error {
	if errors.Is(err, fs.ErrNotExist) {
		return nil
	}
	return err
}
