package config

import (
	"fmt"
	"strings"
	"testing"
)

// TestMistakes: each names the key, the value, where it came from, and what is allowed.
func TestMistakes(t *testing.T) {
	t.Parallel()
	for _, tt := range []struct {
		name, file string
		env        string
		want       string // FILE stands for the name of the file
	}{
		{name: "unknown key", file: "adr: x", want: "FILE:1: adr: there is no such key; did you mean addr?"},
		{name: "unknown key in a group", file: "tls:\n  certificate: x", want: "FILE:2: tls.certificate: there is no such key; known are: cert, key, client_ca, require_client"},
		{name: "unknown key in a list", file: "sinks:\n- name: a\n  kind: log\n  colour: red", want: "FILE:4: sinks[0].colour: there is no such key"},
		{name: "not YAML", file: "a: [", want: "FILE: it is not YAML: line"},
		{name: "two documents", file: "worker: a\n---\nworker: b", want: "FILE: it has more than one document"},
		{name: "no keys", file: "- a", want: "FILE: it must hold keys and values"},
		{name: "twice", file: "worker: a\nworker: b", want: "FILE:2: worker: it is there twice: first in line 1"},
		{name: "no group", file: "tls: yes", want: `FILE:1: tls: it must hold keys: cert, key`},
		{name: "no value", file: "worker: [a]", want: "FILE:1: worker: it must be one value"},
		{name: "no list", file: "hosts: {a: b}", want: "FILE:1: hosts: it must be a list"},
		{name: "no table", file: "timers: {quotas: 3}", want: "FILE:1: timers.quotas: it must hold names and values"},
		{name: "boolean", file: "page: perhaps", want: `FILE:1: page is "perhaps"; allowed are true and false`},
		{name: "number", file: "actions: {slots: many}", want: `FILE:1: actions.slots is "many"; it must be a whole number`},
		{name: "bounds", file: "actions:\n  slots: 0", want: `FILE:2: actions.slots is "0"; 1 to 100000 is allowed`},
		{name: "lower bound", env: "ABIDE_TIMERS_QUOTA=-1", want: `$ABIDE_TIMERS_QUOTA: timers.quota is "-1"; 0 or more is allowed`},
		{name: "not a number at all", env: "ABIDE_AUTH_RATE=NaN", want: `$ABIDE_AUTH_RATE: auth.rate is "NaN"; it must be a number`},
		{name: "in a table", file: "timers:\n  quotas:\n    north: -2", want: `FILE:3: timers.quotas.north is "-2"; 0 or more is allowed`},
		{name: "duration", env: "ABIDE_DRAIN=soon", want: `$ABIDE_DRAIN: drain is "soon"; it must be a duration, such as 90s`},
		{name: "retention", file: "instances: {retention: 0s}", want: `instances.retention is "0s"; 1s or more is allowed, or forever`},
		{name: "forever", file: "drain: forever", want: `FILE:1: drain is "forever"; it must be a duration`},
		{name: "size", file: "timers: {max_payload: 1GB}", want: `timers.max_payload is "1GB"; it must be a number of bytes, such as 65536, 64KiB or 1MiB`},
		{name: "large size", file: "timers: {max_payload: 1MiB}", want: `timers.max_payload is "1MiB"; 1 to 512KiB is allowed`},
		{name: "word", file: "log: {level: loud}", want: `FILE:1: log.level is "loud"; allowed are debug, info, warn, error`},
		{name: "address", env: "ABIDE_ADDR=here", want: `$ABIDE_ADDR: addr is "here"; it must be a host and a port, such as 127.0.0.1:7171`},
		{name: "port", env: "ABIDE_ADDR=127.0.0.1:99999", want: `$ABIDE_ADDR: addr is "127.0.0.1:99999"; it must be a host and a port`},
		{name: "URL", file: "url: abide.example.com", want: `FILE:1: url is "abide.example.com"; it must be a URL`},
		{name: "URL with a path", file: "url: https://example.com/abide", want: `the path is in prefix`},
		{name: "URL with a query", file: "url: https://example.com?a=b", want: `FILE:1: url is "https://example.com?a=b"; it must be a scheme, a host and a port`},
		{name: "URL with a password", file: "url: https://a:oops-oops@example.com", want: `it must be a scheme, a host and a port`},
		{name: "host with a port", file: "hosts: [a.example, 'b.example:7171']", want: `FILE:1: hosts[1] is "b.example:7171"; it must be a name such as abide.example.com, with no scheme and no port`},
		{name: "variable of no command", env: "ABIDE_CA=x", want: "$ABIDE_CA: there is no such variable"},
		{name: "prefix", file: "prefix: abide/", want: `FILE:1: prefix is "abide/"; it must be a path such as /abide`},
		{name: "exposed", env: "ABIDE_ADDR=0.0.0.0:7171", want: `$ABIDE_ADDR: addr is "0.0.0.0:7171"; every client that reaches it could do everything`},
		{name: "exposed everywhere", env: "ABIDE_ADDR=:7171", want: `every client that reaches it could do everything`},
		{name: "admin", file: "admin_addr: 0.0.0.0:1", want: `FILE:1: admin_addr is "0.0.0.0:1"; profiles and metrics are served there without authentication`},
		{name: "two ports", file: "admin_addr: 127.0.0.1:7171", want: `it needs a port of its own`},
		{name: "half of TLS", file: "tls: {cert: a}", want: "tls: cert and key go together"},
		{name: "clients without TLS", file: "tls: {client_ca: a}", want: `tls.client_ca is "a"; certificates are only asked for with tls.cert`},
		{name: "clients of nobody", file: "tls: {cert: a, key: b, require_client: true}", want: "it needs tls.client_ca"},
		{name: "short token", env: "ABIDE_AUTH_ADMIN_TOKEN=short", want: "$ABIDE_AUTH_ADMIN_TOKEN: auth.admin_token: it has 5 characters; at least 16"},
		{name: "token with a space", env: "ABIDE_AUTH_ADMIN_TOKEN=0123456789 abcdef", want: "auth.admin_token: it has characters that a header cannot have"},
		{name: "missing secret", file: "auth: {admin_token: 'env:NOT_THERE'}", want: "FILE:1: auth.admin_token: the variable NOT_THERE is not set"},
		{name: "missing file", env: "ABIDE_AUTH_ADMIN_TOKEN_FILE=/not/there", want: "auth.admin_token: the file cannot be read"},
		{name: "unknown variable", env: "ABIDE_AUTH_ADMIN_TOKN=x", want: "$ABIDE_AUTH_ADMIN_TOKN: there is no such variable; did you mean ABIDE_AUTH_ADMIN_TOKEN?"},
		{name: "login", file: "auth: {oidc: {issuer: 'https://a.example'}}", want: "auth.oidc.client_id: it is missing; logging in needs"},
		{name: "role", file: "url: https://a.example\nauth: {oidc: {issuer: 'https://a.example', client_id: a, role_claim: g, roles: {king: [a]}}}", want: "auth.oidc.roles.king: there is no such role; allowed are read, operate, worker, admin"},
		{name: "certificate", file: "auth:\n  certificates:\n  - role: admin", want: "FILE:3: auth.certificates[0]: it matches every certificate"},
		{name: "pattern", file: "auth: {certificates: [{role: admin, dns: '*.*'}]}", want: `auth.certificates[0].dns is "*.*"; one * is allowed`},
		{name: "whose certificate", file: "auth: {certificates: [{role: admin, dns: a}]}", want: "they need tls.client_ca"},
		{name: "kind", file: "sinks: [{name: a, kind: pigeon}]", want: `sinks[0].kind is "pigeon"; allowed are webhook, nats, redis, log`},
		{name: "no kind", file: "sinks: [{name: a}]", want: "FILE:1: sinks[0].kind: it is missing; allowed are webhook"},
		{name: "key of another kind", file: "sinks:\n- name: a\n  kind: log\n  url: x", want: "FILE:4: sinks[0].url: the kind log has no such key"},
		{name: "key of a kind", file: "sinks: [{name: a, kind: redis}]", want: "sinks[0].addresses: it is missing; the kind redis needs it"},
		{name: "name of a sink", file: "sinks: [{name: a b, kind: log}]", want: `sinks[0].name is "a b"; 1 to 64 letters`},
		{name: "two sinks", file: "sinks: [{name: a, kind: log}, {name: a, kind: log}]", want: `sinks[1].name is "a"; another sink has that name`},
		{name: "retries", file: "sinks: [{name: a, kind: log, first_retry: 2s, longest_retry: 1s}]", want: "it is more than longest_retry, 1s"},
		{name: "network", file: "sinks: [{name: a, kind: webhook, url: 'https://a', allowed_networks: [10.0.0.1/8]}]", want: `sinks[0].allowed_networks[0] is "10.0.0.1/8"; it must be a network`},
		{name: "two targets", file: "targets: [{name: a, kind: timer}, {name: a, kind: timer}]", want: "another target has that name"},
		{name: "no target", file: "hooks: [{slug: a, target: b, verify: {kind: none}}]", want: `hooks[0].target is "b"; there is no such target; targets has none`},
		{name: "no target, and how to allow it", file: "targets: [{name: c, kind: timer}]\nhooks: [{slug: a, target: b, verify: {kind: none}}]", want: `known are: c; set external to true`},
		{name: "external and here", file: "targets: [{name: b, kind: timer}]\nhooks: [{slug: a, target: b, external: true, verify: {kind: none}}]", want: `hooks[0].external is "true"; target b is in targets`},
		{name: "a hook of another tenant", file: "targets: [{name: b, kind: timer, tenants: [north]}]\nhooks: [{slug: a, target: b, tenant: acme, verify: {kind: none}}]", want: `hooks[0].target is "b"; the target is for other tenants than acme, which the hook is for: add it to targets[0].tenants`},
		{name: "only", file: "targets: [{name: b, kind: timer, only: api}]", want: `targets[0].only is "api"; allowed are hooks`},
		{name: "no verification", file: "targets: [{name: b, kind: timer}]\nhooks: [{slug: a, target: b}]", want: "hooks[0].verify.kind: it is missing; allowed are none"},
		{name: "no secrets", file: "targets: [{name: b, kind: timer}]\nhooks: [{slug: a, target: b, verify: {kind: github}}]", want: "hooks[0].verify.secrets: it is missing; the kind github needs it"},
		{name: "wrong secret", file: "targets: [{name: b, kind: timer}]\nhooks: [{slug: a, target: b, verify: {kind: standard, secrets: [oops-oops]}}]", want: "hooks[0].verify: "},
		{name: "slug", file: "targets: [{name: b, kind: timer}]\nhooks: [{slug: -a, target: b, verify: {kind: none}}]", want: `hooks[0].slug is "-a"; `},
		{name: "two hooks", file: "targets: [{name: b, kind: timer}]\nhooks: [{slug: a, target: b, verify: {kind: none}}, {slug: a, target: b, verify: {kind: none}}]", want: "another hook has that slug"},
	} {
		t.Run(tt.name, func(t *testing.T) {
			t.Parallel()
			file := write(t, tt.file)
			src := Source{File: file}
			if tt.env != "" {
				src.Environ = []string{tt.env}
			}
			want := strings.ReplaceAll(tt.want, "FILE:", file+":")
			got := strings.Join(mistakesOf(t, src), "\n")
			if !strings.Contains(got, want) {
				t.Errorf("the mistakes are\n%s\nwant\n%s", got, want)
			}
			if strings.Contains(got, "oops-oops") {
				t.Error("a secret is shown")
			}
		})
	}
}

// TestAllMistakesAtOnce.
func TestAllMistakesAtOnce(t *testing.T) {
	t.Parallel()
	_, err := Load(Source{
		File:    write(t, "adr: x\nlog: {level: loud}\nsinks: [{name: a, kind: log, url: x}, {}]"),
		Environ: []string{"ABIDE_DRAIN=soon"},
		Flags:   map[string]Flag{"tick": {Name: "--set", Value: "1"}, "sinks": {Name: "--set", Value: "a"}},
	})
	text := fmt.Sprint(err)
	for _, want := range []string{"has 8 mistakes:\n", "adr", "log.level", "sinks[0].url", "sinks[1].name", "sinks[1].kind", "drain", "flag --set: tick", "flag --set: sinks: only the file can set it"} {
		if !strings.Contains(text, want) {
			t.Errorf("%q is not in\n%s", want, text)
		}
	}
}

// TestVariablesOfOthers are no mistakes: those of commands, of actions, of Kubernetes.
func TestVariablesOfOthers(t *testing.T) {
	t.Parallel()
	load(t, Source{Environ: []string{"ABIDE_TOKEN=x", "ABIDE_SLUG=x", "ABIDE_SERVICE_HOST=10.0.0.1", "ABIDE_PORT_7171_TCP=tcp://10.0.0.1:7171", "PATH=/"}})
}
