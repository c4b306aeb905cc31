package config

import (
	"errors"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"
)

// write makes a file of a configuration, and returns its name.
func write(t *testing.T, text string) string {
	t.Helper()
	name := filepath.Join(t.TempDir(), "abide.yaml")
	if err := os.WriteFile(name, []byte(text), 0o600); err != nil {
		t.Fatal(err)
	}
	return name
}

// load loads a configuration that must be fine.
func load(t *testing.T, src Source) *Loaded {
	t.Helper()
	if src.File == "" {
		src.File = write(t, "")
	}
	loaded, err := Load(src)
	if err != nil {
		t.Fatal(err)
	}
	return loaded
}

// TestNothingSaidIsFine: the defaults are what a newcomer gets.
func TestNothingSaidIsFine(t *testing.T) {
	t.Parallel()
	c := load(t, Source{})
	if c.Addr != "127.0.0.1:7171" || c.Store.Reveal() != "./abide-data" || !c.Page || !c.Socket || c.Insecure || c.Guarded() {
		t.Errorf("the defaults are %+v", c.Config)
	}
	if c.Instances.Retention != 7*24*time.Hour || c.Timers.MaxPayload != 64<<10 || c.Telemetry.OTLP.TraceRatio != 1 {
		t.Errorf("the defaults are %+v", c.Config)
	}
}

// TestAllDefaultsCanBeDecoded: also those in elements of lists, which nobody decodes above.
func TestAllDefaultsCanBeDecoded(t *testing.T) {
	t.Parallel()
	c := load(t, Source{File: write(t, "targets: [{name: a, kind: timer}]\nhooks: [{slug: a, target: a, verify: {kind: none}}]\n")})
	if c.Hooks[0].Tenant != "default" || c.Where("hooks[0].tenant") != fromDefault {
		t.Errorf("the tenant of a hook is %q, from %q", c.Hooks[0].Tenant, c.Where("hooks[0].tenant"))
	}
}

// TestFlagsComeBeforeTheEnvironment, that before the file, and the file before defaults.
func TestFlagsComeBeforeTheEnvironment(t *testing.T) {
	t.Parallel()
	file := write(t, "addr: 127.0.0.1:1\nlog:\n  level: warn\n  format: json\ndrain: 20s\n")
	c := load(t, Source{
		File:    file,
		Environ: []string{"ABIDE_ADDR=127.0.0.1:2", "ABIDE_LOG_LEVEL=error", "ABIDE_HOSTS=a, b,", "ABIDE_DRAIN="},
		Flags:   map[string]Flag{"addr": {Name: "--addr", Value: "127.0.0.1:3"}},
	})
	for key, want := range map[string][2]string{
		"addr":       {c.Addr, "127.0.0.1:3 flag --addr"},
		"log.level":  {c.Log.Level, "error $ABIDE_LOG_LEVEL"},
		"log.format": {c.Log.Format, "json " + file + ":4"},
		"hosts":      {strings.Join(c.Hosts, "+"), "a+b $ABIDE_HOSTS"},
		"drain":      {c.Drain.String(), "20s " + file + ":5"}, // an empty variable says nothing
		"linger":     {c.Linger.String(), "0s default"},
	} {
		if got := want[0] + " " + c.Where(key); got != want[1] {
			t.Errorf("%s is %q, want %q", key, got, want[1])
		}
	}
}

// TestTheFileOfTheEnvironment is read if no flag names one.
func TestTheFileOfTheEnvironment(t *testing.T) {
	t.Parallel()
	file := write(t, "worker: a\n")
	loaded, err := Load(Source{Environ: []string{"ABIDE_CONFIG=" + file}})
	if err != nil || loaded.Worker != "a" || loaded.File != file {
		t.Errorf("got %+v, %v", loaded, err)
	}
	if _, err := Load(Source{Environ: []string{"ABIDE_CONFIG=" + file + "x"}}); err == nil || !strings.Contains(err.Error(), "$ABIDE_CONFIG") {
		t.Errorf("a file that is not there: %v", err)
	}
}

// TestSecretsInFiles: every secret can be in a file, in the environment and in the file of
// the configuration.
func TestSecretsInFiles(t *testing.T) {
	const token = "0123456789abcdef"
	secret := filepath.Join(t.TempDir(), "token")
	if err := os.WriteFile(secret, []byte(token+"\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	t.Setenv("SOME_TOKEN", token)
	for name, src := range map[string]Source{
		"environment":      {Environ: []string{"ABIDE_AUTH_ADMIN_TOKEN=" + token}},
		"file":             {Environ: []string{"ABIDE_AUTH_ADMIN_TOKEN_FILE=" + secret}},
		"reference":        {File: write(t, "auth: {admin_token: 'file:"+secret+"'}")},
		"variable":         {File: write(t, "auth: {admin_token: 'env:SOME_TOKEN'}")},
		"before the other": {File: write(t, "auth: {admin_token: other-other-other}"), Environ: []string{"ABIDE_AUTH_ADMIN_TOKEN_FILE=" + secret}},
	} {
		c := load(t, src)
		if got := c.Auth.AdminToken.Reveal(); got != token {
			t.Errorf("%s: the token is %q", name, got)
		}
		shown, err := c.Print()
		if err != nil || strings.Contains(string(shown), token) {
			t.Errorf("%s: the token is shown, %v:\n%s", name, err, shown)
		}
	}
	_, err := Load(Source{File: write(t, ""), Environ: []string{"ABIDE_AUTH_ADMIN_TOKEN=" + token, "ABIDE_AUTH_ADMIN_TOKEN_FILE=" + secret}})
	if err == nil || !strings.Contains(err.Error(), "one of them is allowed") || strings.Contains(err.Error(), token) {
		t.Errorf("a secret that is there twice: %v", err)
	}
}

// TestTheDemoHasItsOwnStore, and keeps things for a short time there, unless somebody says
// otherwise. In a store that somebody has named, what is real keeps its time.
func TestTheDemoHasItsOwnStore(t *testing.T) {
	t.Parallel()
	demo := Flag{Name: "--demo", Value: "true"}
	c := load(t, Source{Flags: map[string]Flag{"demo": demo}, Environ: []string{"ABIDE_ACTIONS_RETENTION=1h"}})
	if c.Store.Reveal() != DemoStore || c.Instances.Retention != demoRetention || c.Actions.Retention != time.Hour {
		t.Errorf("the demo is in %s and keeps instances for %v, actions for %v", c.Store, c.Instances.Retention, c.Actions.Retention)
	}
	c = load(t, Source{Flags: map[string]Flag{"demo": demo, "store": {Name: "--store", Value: "./real"}}})
	if c.Store.Reveal() != "./real" || c.Instances.Retention != 7*24*time.Hour || c.Timers.Retention != 7*24*time.Hour {
		t.Errorf("the demo in a store with a name keeps instances for %v", c.Instances.Retention)
	}
}

// TestEveryKeyHasAVariableOfItsOwn.
func TestEveryKeyHasAVariableOfItsOwn(t *testing.T) {
	t.Parallel()
	seen := map[string]string{}
	for i := range schema {
		names := []string{schema[i].variable()}
		if schema[i].isSecret() {
			names = append(names, names[0]+"_FILE")
		}
		for _, name := range names {
			if other, twice := seen[name]; twice {
				t.Errorf("%s stands for %s and %s", name, other, schema[i].path)
			}
			seen[name] = schema[i].path
		}
	}
}

// mistakesOf returns what is wrong with a configuration, a line each.
func mistakesOf(t *testing.T, src Source) []string {
	t.Helper()
	_, err := Load(src)
	var mistakes Mistakes
	if err != nil && !errors.As(err, &mistakes) {
		t.Fatalf("the error is %v, which are no mistakes", err)
	}
	var lines []string
	for _, m := range mistakes {
		lines = append(lines, m.Error())
	}
	return lines
}

// TestTenantsOfTargets: those that it names, else those of its hooks, else all.
func TestTenantsOfTargets(t *testing.T) {
	t.Parallel()
	c := load(t, Source{File: write(t, `
targets:
  - {name: own, kind: timer, tenants: [acme, north]}
  - {name: hooked, kind: timer, only: hooks}
  - {name: free, kind: timer}
hooks:
  - {slug: a, tenant: north, target: hooked, verify: {kind: none}}
  - {slug: b, tenant: south, target: hooked, verify: {kind: none}}
  - {slug: c, tenant: south, target: hooked, verify: {kind: none}}
  - {slug: d, tenant: north, target: own, verify: {kind: none}}
  - {slug: e, tenant: north, target: elsewhere, external: true, verify: {kind: none}}
`)})
	for i, want := range [][]string{{"acme", "north"}, {"north", "south"}, nil} {
		if got := c.TenantsOf(&c.Targets[i]); !slices.Equal(got, want) || (got == nil) != (want == nil) {
			t.Errorf("target %s is for %v, want %v", c.Targets[i].Name, got, want)
		}
	}
	if c.Targets[0].Only != "" || c.Targets[1].Only != OnlyHooks {
		t.Errorf("only is %q and %q", c.Targets[0].Only, c.Targets[1].Only)
	}
}

// TestFileOfTheWorkingDirectory is read although nothing names it, and is known to be that.
func TestFileOfTheWorkingDirectory(t *testing.T) {
	t.Chdir(t.TempDir())
	if err := os.WriteFile(DefaultFile, []byte("linger: 3s\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	for name, tt := range map[string]struct {
		src     Source
		unnamed bool
	}{
		"nothing names it":    {Source{}, true},
		"a flag names it":     {Source{File: DefaultFile}, false},
		"a variable names it": {Source{Environ: []string{envFile + "=" + DefaultFile}}, false},
	} {
		loaded, err := Load(tt.src)
		if err != nil || loaded.File != DefaultFile || loaded.Unnamed != tt.unnamed {
			t.Errorf("%s: the file is %q, unnamed %v, %v", name, loaded.File, loaded.Unnamed, err)
		}
	}
}
