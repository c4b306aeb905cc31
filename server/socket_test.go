package server_test

import (
	"context"
	"errors"
	"io/fs"
	"net"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"runtime"
	"strings"
	"testing"
	"time"

	"github.com/abidehq/abide"
	"github.com/abidehq/abide/internal/check"
	"github.com/abidehq/abide/internal/rig"
	"github.com/abidehq/abide/remote"
	"github.com/abidehq/abide/server"
	"github.com/abidehq/abide/server/auth"
	"github.com/abidehq/abide/store"
	"github.com/abidehq/abide/store/memstore"
	"github.com/abidehq/abide/store/pebblestore"
)

// newBeside returns a server below /abide that wants a token, with a socket.
func newBeside(t *testing.T, st store.Store) *server.Server {
	t.Helper()
	engine, err := abide.New(st, abide.Config{Register: []abide.Definition{waitFlow}, Logger: rig.Quiet})
	check.OK(t, err)
	t.Cleanup(func() { _ = engine.Close() })
	guard, err := auth.New(auth.Config{Store: st, AdminToken: "0123456789abcdef0123", Logger: rig.Quiet})
	check.OK(t, err)
	s, err := server.New(server.Config{Prefix: "/abide", Store: st, Engine: engine, Auth: guard, Logger: rig.Quiet, Socket: true})
	check.OK(t, err)
	return s
}

// embedded returns a store in a folder.
func embedded(t *testing.T) (*pebblestore.Store, string) {
	t.Helper()
	dir := filepath.Join(t.TempDir(), "data")
	st, err := pebblestore.Open(t.Context(), dir, pebblestore.Options{Logger: rig.Quiet})
	check.OK(t, err)
	t.Cleanup(func() { _ = st.Close() })
	dir = st.Dir()
	return st, dir
}

// TestSocket: while Run runs, the owner of an embedded store reaches the server beside the store,
// without a token and without its prefix.
func TestSocket(t *testing.T) {
	t.Parallel()
	st, dir := embedded(t)
	s := newBeside(t, st)
	ctx, stop := context.WithCancel(t.Context())
	done := make(chan error, 1)
	go func() { done <- s.Run(ctx) }()
	path := dir + ".sock"
	check.Eventually(t, "it listens", func() bool { _, err := os.Stat(path); return err == nil })
	if info, err := os.Stat(path); err != nil || runtime.GOOS != "windows" && info.Mode().Perm() != 0o600 {
		t.Errorf("the socket is %v, %v", info.Mode(), err)
	}
	client, err := remote.New("unix://" + path)
	check.OK(t, err)
	defer client.Close()
	if _, err := waitFlow.Start(t.Context(), client.Engine(), abide.None{}, abide.ID("a/b")); err != nil {
		t.Fatal(err)
	}
	if info, err := client.Engine().Get(t.Context(), abide.Ref{ID: "a/b"}); err != nil || info.Ref.ID != "a/b" {
		t.Errorf("%+v, %v", info, err)
	}
	if _, err := client.Tokens().List(t.Context(), remote.TokenFilter{}); err != nil {
		t.Errorf("an administrator's call: %v", err)
	}
	elsewhere := httptest.NewRecorder()
	s.ServeHTTP(elsewhere, httptest.NewRequest(http.MethodGet, "/abide/api/v1/instances", nil))
	check.Equal(t, "status without a token elsewhere", elsewhere.Code, http.StatusUnauthorized)

	// A stream does not keep Run from ending.
	through := &http.Client{Transport: &http.Transport{DialContext: func(ctx context.Context, _, _ string) (net.Conn, error) {
		return (&net.Dialer{}).DialContext(ctx, "unix", path)
	}}}
	stream, err := through.Get("http://abide" + changesPath)
	check.OK(t, err)
	defer stream.Body.Close()
	check.Equal(t, "status of a stream", stream.StatusCode, http.StatusOK)
	began := time.Now()
	stop()
	if err := <-done; err != nil {
		t.Error(err)
	}
	if took := time.Since(began); took > 4*time.Second {
		t.Errorf("Run took %v to end", took)
	}
	if _, err := os.Stat(path); !errors.Is(err, fs.ErrNotExist) {
		t.Errorf("the socket is there: %v", err)
	}
}

// TestSocketOfOtherStores: there is none, which is no error.
func TestSocketOfOtherStores(t *testing.T) {
	t.Parallel()
	st := memstore.New(memstore.Options{})
	defer st.Close()
	ctx, stop := context.WithCancel(t.Context())
	done := make(chan error, 1)
	s := newBeside(t, st)
	go func() { done <- s.Run(ctx) }()
	stop()
	check.OK(t, <-done)
}

// TestSocketThatCannotBe: Run returns the error.
func TestSocketThatCannotBe(t *testing.T) {
	t.Parallel()
	st, dir := embedded(t)
	check.OK(t, os.Mkdir(dir+".sock", 0o700))
	if err := newBeside(t, st).Run(t.Context()); err == nil || !strings.Contains(err.Error(), "is not a socket") {
		t.Errorf("Run: %v", err)
	}
}
