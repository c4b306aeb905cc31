// Package serve builds abide and starts abide serve, as a process of its own on free ports.
package serve

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strings"
	"syscall"

	"google.golang.org/grpc"
	"google.golang.org/grpc/credentials/insecure"
	"google.golang.org/grpc/metadata"
)

// Build builds abide from this repository into a folder, and returns where it is.
func Build(folder string) (string, error) {
	mod, err := exec.Command("go", "env", "GOMOD").Output()
	if err != nil {
		return "", fmt.Errorf("go env GOMOD: %w", err)
	}
	program := filepath.Join(folder, "abide")
	build := exec.Command("go", "build", "-o", program, "./cmd/abide")
	build.Dir = filepath.Join(filepath.Dir(strings.TrimSpace(string(mod))), "..", "..")
	if out, err := build.CombinedOutput(); err != nil {
		return "", fmt.Errorf("go build: %w\n%s", err, out)
	}
	return program, nil
}

// Server is a process that runs abide serve.
type Server struct {
	Addr string // where workers and clients connect

	cmd   *exec.Cmd
	ended chan struct{} // closed when it has
}

var started = regexp.MustCompile(`server started.* workers=abide://(\S+)`)

// Start starts a server on a store, and returns when it is ready.
func Start(program, store, workerAddr string) (*Server, error) {
	s := &Server{cmd: exec.Command(program, "serve", "--store", store, "--addr", "127.0.0.1:0", "--worker-addr", workerAddr), ended: make(chan struct{})}
	logs, err := s.cmd.StderrPipe()
	if err != nil {
		return nil, err
	}
	if err := s.cmd.Start(); err != nil {
		return nil, err
	}
	ready := make(chan string, 1)
	go func() {
		defer close(s.ended)
		for lines := bufio.NewScanner(logs); lines.Scan(); {
			if m := started.FindStringSubmatch(lines.Text()); m != nil {
				ready <- m[1]
			} else if os.Getenv("ABIDE_LOG") != "" {
				fmt.Fprintln(os.Stderr, lines.Text())
			}
		}
		_ = s.cmd.Wait()
	}()
	select {
	case s.Addr = <-ready:
		return s, nil
	case <-s.ended:
		return nil, errors.New("abide serve has ended before it was ready")
	}
}

// Stop has the server stop, and waits for it.
func (s *Server) Stop() { s.signal(syscall.SIGTERM) }

// Kill ends the server at once.
func (s *Server) Kill() { s.signal(syscall.SIGKILL) }

func (s *Server) signal(sig os.Signal) {
	_ = s.cmd.Process.Signal(sig) // it may have ended
	<-s.ended
}

// Dial connects to a task hub of a server.
func Dial(addr, hub string) (*grpc.ClientConn, error) {
	within := func(ctx context.Context) context.Context {
		return metadata.AppendToOutgoingContext(ctx, "taskhub", hub)
	}
	return grpc.Dial(addr, grpc.WithTransportCredentials(insecure.NewCredentials()),
		grpc.WithUnaryInterceptor(func(ctx context.Context, method string, req, reply any, cc *grpc.ClientConn, call grpc.UnaryInvoker, opts ...grpc.CallOption) error {
			return call(within(ctx), method, req, reply, cc, opts...)
		}),
		grpc.WithStreamInterceptor(func(ctx context.Context, desc *grpc.StreamDesc, cc *grpc.ClientConn, method string, open grpc.Streamer, opts ...grpc.CallOption) (grpc.ClientStream, error) {
			return open(within(ctx), desc, cc, method, opts...)
		}))
}
