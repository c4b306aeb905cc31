package pgstore

import "testing"

// TestUnverifiedServers: a URL without sslmode is warned of if the server is on another machine.
func TestUnverifiedServers(t *testing.T) {
	t.Setenv("PGSSLMODE", "")
	for url, want := range map[string]bool{
		"postgres://abide@db.internal/x":                     true,
		"postgres://abide@10.0.0.7:5432/x":                   true,
		"postgres://abide@localhost,db.internal/x":           true,
		"postgres://abide@db.internal/x?sslmode=disable":     false, // as was asked for
		"postgres://abide@db.internal/x?sslmode=verify-full": false,
		"postgres://abide@localhost/x":                       false,
		"postgres://abide@127.0.0.1/x":                       false,
		"postgres://abide@[::1]/x":                           false,
		"postgres:///x?host=/var/run/postgresql":             false,
	} {
		c, err := parse(url)
		if err != nil {
			t.Errorf("%s: %v", url, err)
			continue
		}
		if c.unverified != want {
			t.Errorf("%s: unverified is %v, want %v", url, c.unverified, want)
		}
	}
	t.Setenv("PGSSLMODE", "require")
	if c, err := parse("postgres://abide@db.internal/x"); err != nil || c.unverified {
		t.Errorf("with PGSSLMODE: %v, %v", c, err)
	}
}
