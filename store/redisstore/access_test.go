package redisstore

import (
	"crypto/tls"
	"crypto/x509"
	"errors"
	"io"
	"net"
	"net/http/httptest"
	"sync"
	"testing"
	"time"

	"github.com/abidehq/abide/internal/testenv"
	"github.com/abidehq/abide/store"
)

// TestTheRightsThatTheDocsNameAreEnough: a user with these and no others can do all that a
// store does.
func TestTheRightsThatTheDocsNameAreEnough(t *testing.T) {
	t.Parallel()
	server := testenv.Redis(t)
	must(t, server, append([]string{"ACL", "SETUSER", "abide", "on", ">secret", "~{abide}*", "&{abide}hints"}, commandsOfDocs...)...)
	rightsAreEnough(t, Options{Addresses: []string{server.Addr}, Prefix: "abide", Username: "abide", Password: "secret"})
}

// TestTheRightsThatTheDocsNameAreEnoughInACluster is the same with several segments.
func TestTheRightsThatTheDocsNameAreEnoughInACluster(t *testing.T) {
	t.Parallel()
	cluster := testenv.SharedRedisCluster(t)
	prefix := newPrefix()
	rights := append([]string{"ACL", "SETUSER", prefix, "on", ">secret", "~{" + prefix + "}*", "~{" + prefix + "/*", "&{" + prefix + "}hints"}, commandsOfDocs...)
	for _, node := range cluster.Nodes {
		must(t, node, append(rights, "+cluster|slots", "+cluster|shards")...)
	}
	rightsAreEnough(t, Options{Addresses: cluster.Addrs(), Prefix: prefix, Username: prefix, Password: "secret", Replicas: 1})
}

var commandsOfDocs = []string{
	"+@read", "+@write", "+@scripting", "+@pubsub", "+@connection", "+info", "+role", "+time", "+wait", "+config|get",
}

func rightsAreEnough(t *testing.T, o Options) {
	t.Helper()
	o.poll = never
	s := open(t, o)
	result := waitsFor(t, s, request("turns", time.Hour))
	eventually(t, "hints are heard", s.listening.Load)
	put(t, s, message("turns", "order-1", "a"))
	claims := result()
	if _, err := s.Renew(t.Context(), time.Minute, []store.Lease{claims[0].Lease()}); err != nil {
		t.Error(err)
	}
	if err := s.Release(t.Context(), store.Release{Lease: claims[0].Lease()}); err != nil {
		t.Error(err)
	}
	req := request("turns", 0)
	req.MaxAttempts = 1
	if got := claim(t, s, req); len(got) != 0 {
		t.Errorf("claimed %d keys, want none", len(got))
	}
	page, err := s.List(t.Context(), store.Query{Kind: store.KindQuarantine, Names: []string{"turns"}})
	if err != nil || len(page.Records) != 1 {
		t.Errorf("listed %d records, error %v", len(page.Records), err)
	}
	p, err := s.Export(t.Context(), "")
	if err == nil {
		err = s.Import(t.Context(), p)
	}
	if err != nil {
		t.Error(err)
	}
	release, err := s.Exclude(t.Context())
	if err == nil {
		err = release()
	}
	if err != nil {
		t.Error(err)
	}
	verifies(t, s)
}

func TestAServerCanBeTalkedToThroughTLS(t *testing.T) {
	t.Parallel()
	addr, config := encrypt(t, testenv.SharedRedis(t).Addr)
	s := open(t, Options{Addresses: []string{addr}, TLS: config, poll: never})
	result := waitsFor(t, s, request("turns", time.Hour))
	eventually(t, "hints are heard", s.listening.Load)
	put(t, s, message("turns", "order-1", "a"))
	if claims := result(); len(claims) != 1 {
		t.Errorf("claimed %d keys, want one", len(claims))
	}
	if _, err := store.Open(t.Context(), "rediss://"+addr); err == nil {
		t.Error("a certificate that nobody has signed is trusted")
	}
}

// encrypt starts a server for TLS in front of another one, and returns its address and how
// to trust it.
func encrypt(t *testing.T, addr string) (string, *tls.Config) {
	t.Helper()
	certified := httptest.NewTLSServer(nil) // it has a certificate
	t.Cleanup(certified.Close)
	l, err := tls.Listen("tcp", "127.0.0.1:0", certified.TLS)
	if err != nil {
		t.Fatal(err)
	}
	var conns sync.WaitGroup
	conns.Go(func() {
		for {
			in, err := l.Accept()
			if err != nil {
				return
			}
			conns.Go(func() { join(in, addr) })
		}
	})
	t.Cleanup(func() {
		_ = l.Close() // nothing was written
		conns.Wait()
	})
	pool := x509.NewCertPool()
	pool.AddCert(certified.Certificate())
	return l.Addr().String(), &tls.Config{MinVersion: tls.VersionTLS12, RootCAs: pool}
}

func join(in net.Conn, addr string) {
	defer in.Close()
	out, err := net.Dial("tcp", addr)
	if err != nil {
		return
	}
	defer out.Close()
	done := make(chan error, 2)
	go func() { _, err := io.Copy(out, in); done <- errors.Join(err, out.Close()) }()
	go func() { _, err := io.Copy(in, out); done <- errors.Join(err, in.Close()) }()
	<-done
	<-done
}
