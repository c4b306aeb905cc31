package daemon

import (
	"context"
	"net/url"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/abidehq/abide"
	"github.com/abidehq/abide/internal/check"

	_ "github.com/abidehq/abide/remote"
)

var greet = abide.NewOrchestration("greet", func(_ abide.Context, name string) (string, error) { return "hello " + name, nil })

// worker opens a worker of a daemon.
func (r *running) worker(t *testing.T, query url.Values) error {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), 5*time.Second)
	defer cancel()
	e, err := abide.Open(ctx, abide.Config{Store: r.serving.Workers + "?" + query.Encode(), Register: []abide.Definition{greet}, Logger: discard()})
	if err != nil {
		return err
	}
	defer e.Close()
	run, err := greet.Start(ctx, e, "worker")
	check.OK(t, err)
	result, err := run.Result(ctx)
	check.OK(t, err)
	check.Equal(t, "result", result, "hello worker")
	return nil
}

// TestWorkersOfADaemon: a daemon on loopback takes workers, and says where; one that is told not to takes none.
func TestWorkersOfADaemon(t *testing.T) {
	t.Parallel()
	r := start(t, configure(t, ""), nil)
	check.OK(t, r.worker(t, nil))
	off := start(t, configure(t, "worker_addr: off\n"), nil)
	check.Equal(t, "address for workers", off.serving.Workers, "")
}

// TestWorkersWithTLS: workers verify the daemon, and the daemon verifies workers, by certificates.
func TestWorkersWithTLS(t *testing.T) {
	t.Parallel()
	a, other := newAuthority(t), newAuthority(t)
	a.issue("server", "server")
	rules := "auth: {certificates: [{common_name: shipping, role: worker}, {common_name: billing, role: read}]}\n"
	r := start(t, configure(t, a.text(", client_ca: DIR/ca.pem")+rules), nil)
	with := func(trusted, issuer *authority, file string) url.Values {
		v := url.Values{"ca": {filepath.Join(trusted.dir, "ca.pem")}}
		if file != "" {
			v.Set("cert", filepath.Join(issuer.dir, file+".crt"))
			v.Set("key", filepath.Join(issuer.dir, file+".key"))
		}
		return v
	}
	a.issue("shipping", "shipping")
	a.issue("billing", "billing")
	other.issue("shipping", "shipping")
	a.expired = true
	a.issue("shipping", "expired")
	check.OK(t, r.worker(t, with(a, a, "shipping")))
	for name, c := range map[string]struct {
		query url.Values
		want  string
	}{
		"no certificate":       {with(a, nil, ""), "says not who makes it"},
		"role":                 {with(a, a, "billing"), "the role read may not run code"},
		"foreign certificate":  {with(a, other, "shipping"), "tls"},
		"expired certificate":  {with(a, a, "expired"), "tls"},
		"foreign authority":    {with(other, a, "shipping"), "certificate"},
		"without TLS":          {url.Values{"tls": {"off"}}, "no connection"},
		"other name of server": {url.Values{"ca": {filepath.Join(a.dir, "ca.pem")}, "servername": {"elsewhere"}}, "certificate"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			if err := r.worker(t, c.query); err == nil || !strings.Contains(err.Error(), c.want) {
				t.Errorf("the error is %v, want one that says %q", err, c.want)
			}
		})
	}
}

// TestExpiredServer: a worker does not talk to a daemon whose certificate has expired.
func TestExpiredServer(t *testing.T) {
	t.Parallel()
	a := newAuthority(t)
	a.expired = true
	a.issue("server", "server")
	r := start(t, configure(t, a.text("")), nil)
	err := r.worker(t, url.Values{"ca": {filepath.Join(a.dir, "ca.pem")}})
	if err == nil || !strings.Contains(err.Error(), "expired") {
		t.Errorf("the error is %v", err)
	}
}
