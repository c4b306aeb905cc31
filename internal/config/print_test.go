package config

import (
	"fmt"
	"os"
	"strings"
	"testing"

	"go.yaml.in/yaml/v3"
)

// TestTheExampleIsThatOfThePackage: who installs one finds what the command prints.
func TestTheExampleIsThatOfThePackage(t *testing.T) {
	t.Parallel()
	data, err := os.ReadFile("../../packaging/abide.yaml")
	if err != nil {
		t.Fatal(err)
	}
	if string(data) != Example() {
		t.Error("packaging/abide.yaml is not what abide config example prints")
	}
	load(t, Source{File: write(t, Example())})
}

// uncommented returns the example with all keys in force.
func uncommented() string {
	var b strings.Builder
	for line := range strings.Lines(Example()) {
		if rest, is := strings.CutPrefix(line, "#"); is && !strings.HasPrefix(rest, " ") || strings.HasPrefix(line, "#  ") && !strings.HasPrefix(line, "#   abide config") {
			b.WriteString(strings.TrimPrefix(rest, "#"))
		}
	}
	return b.String()
}

// TestTheExampleHasAllKeys, and they are allowed.
func TestTheExampleHasAllKeys(t *testing.T) {
	for _, name := range []string{"OIDC_SECRET", "OTLP_TOKEN", "BILLING_TOKEN", "REDIS_PASSWORD", "API_TOKEN", "NOTIFY_TOKEN", "ORDERS_SECRET"} {
		t.Setenv(name, "a-secret-of-some-length")
	}
	t.Setenv("BILLING_SECRET", "whsec_MDEyMzQ1Njc4OTAxMjM0NTY3ODkwMTIzNDU2Nzg5MDE=")
	text := uncommented()
	secret := write(t, "a-secret-of-some-length")
	for _, name := range []string{"/etc/abide/admin-token", "/etc/abide/github-secret"} {
		text = strings.ReplaceAll(text, name, secret)
	}
	if got := mistakesOf(t, Source{File: write(t, text)}); len(got) > 0 {
		t.Fatalf("the example has mistakes:\n%s\nin\n%s", strings.Join(got, "\n"), text)
	}
	var root yaml.Node
	if err := yaml.Unmarshal([]byte(text), &root); err != nil {
		t.Fatal(err)
	}
	has := map[string]bool{}
	collect(root.Content[0], "", has)
	for i := range schema {
		if !has[schema[i].path] {
			t.Errorf("the example does not show %s", schema[i].path)
		}
	}
	for _, keys := range elements() {
		if !has[keys] {
			t.Errorf("the example does not show %s", keys)
		}
	}
}

// collect notes the paths of all keys; an element of a list has [].
func collect(n *yaml.Node, path string, has map[string]bool) {
	switch n.Kind {
	case yaml.MappingNode:
		for i := 0; i+1 < len(n.Content); i += 2 {
			below := strings.TrimPrefix(path+"."+n.Content[i].Value, ".")
			has[below] = true
			collect(n.Content[i+1], below, has)
		}
	case yaml.SequenceNode:
		for _, e := range n.Content {
			collect(e, path+"[]", has)
		}
	}
}

// elements returns the keys of what is in lists.
func elements() []string {
	var all []string
	for i := range schema {
		t := schema[i].field.Type
		if t.Kind().String() != "slice" || !isGroup(t.Elem()) {
			continue
		}
		for _, l := range leavesOf(t.Elem(), schema[i].path+"[].", nil) {
			all = append(all, l.path)
		}
	}
	return all
}

// TestPrintedIsReadAgain: what is printed is a file that says the same, apart from secrets.
func TestPrintedIsReadAgain(t *testing.T) {
	t.Parallel()
	file := write(t, `
addr: "[::1]:7171"
worker: "true"
timers: {quotas: {north: 5, "7": 1}, retention: forever}
targets: [{name: hi, kind: command, command: [echo, "{slug}"], timeout: 90s}]
sinks:
- {name: a, kind: webhook, url: "https://user:secret@example.com/x?key=secret", secrets: [whsec_MDEyMzQ1Njc4OTAxMjM0NTY3ODkwMTIzNDU2Nzg5MDE=]}
`)
	first := load(t, Source{File: file})
	text, err := first.Print()
	if err != nil {
		t.Fatal(err)
	}
	if strings.Contains(string(text), "secret@") || strings.Contains(string(text), "key=secret") || strings.Contains(string(text), "whsec_") {
		t.Errorf("a secret is shown:\n%s", text)
	}
	for _, want := range []string{"worker: \"true\" # " + file + ":3\n", "retention: forever # ", "page: true # default\n", "timeout: 1m30s", "\"7\": 1"} {
		if !strings.Contains(string(text), want) {
			t.Errorf("%q is not in\n%s", want, text)
		}
	}
	again := load(t, Source{File: write(t, string(text))})
	if again.Addr != first.Addr || again.Worker != "true" || fmt.Sprint(again.Timers) != fmt.Sprint(first.Timers) || fmt.Sprint(again.Targets) != fmt.Sprint(first.Targets) {
		t.Errorf("it was read as\n%+v\nand was\n%+v", again.Config, first.Config)
	}
}

// TestSecretsDoNotPrint, in no format, wherever they are.
func TestSecretsDoNotPrint(t *testing.T) {
	t.Parallel()
	c := Config{Store: NewPlace("postgres://abide:hush@db/abide?sslkey=hush")}
	c.Auth.AdminToken = NewSecret("hush")
	c.Timers.Commands.URL = NewPlace("nats://hush@127.0.0.1:4222,nats://a:hush@b:1")
	for _, format := range []string{"%v", "%+v", "%#v", "%s", "%q"} {
		if text := fmt.Sprintf(format, c); strings.Contains(text, "hush") {
			t.Errorf("%s shows %s", format, text)
		}
	}
}
