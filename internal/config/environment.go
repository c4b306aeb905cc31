package config

import (
	"maps"
	"slices"
	"strings"
)

// othersVariables are variables that are not about a server: those of the other commands,
// and those that a command gets which an action runs.
var othersVariables = []string{
	envFile, "ABIDE_TOKEN", "ABIDE_TOKEN_FILE", "ABIDE_SERVER", "ABIDE_TENANT",
	"ABIDE_ACTION_ID", "ABIDE_SLUG", "ABIDE_ATTEMPT", "ABIDE_TRIGGER", "ABIDE_SCHEDULE", "ABIDE_RUN_AT", "ABIDE_HEADERS",
}

// othersPrefixes begin the names of variables that Kubernetes sets for a service which is
// called abide, and those of tests.
var othersPrefixes = []string{"ABIDE_PORT", "ABIDE_SERVICE_", "ABIDE_TEST_", "ABIDE_CLI_TEST_"}

// environment is what the environment says. An unknown variable is a mistake:
// if it is a secret that is spelled wrong, the door would stay open.
func (l *loader) environment() layer {
	to := layer{}
	known := map[string]bool{}
	var names []string
	for i := range schema {
		at := &schema[i]
		if !at.isText() {
			continue
		}
		name := at.variable()
		known[name] = true
		names = append(names, name)
		value, set := l.env[name]
		where := "$" + name
		if at.isSecret() {
			known[name+"_FILE"] = true
			if file, has := l.env[name+"_FILE"]; has && file != "" {
				if set {
					l.mistake(at.path, "", "$"+name+" and $"+name+"_FILE", "it is set by both; one of them is allowed")
					continue
				}
				text, err := readSecretFile(file)
				if err != nil {
					l.mistake(at.path, "", "$"+name+"_FILE", "the file cannot be read: %v", err)
					continue
				}
				value, set, where = text, true, "$"+name+"_FILE"
			}
		}
		if set && value != "" {
			to.setText(at, value, where)
		}
	}
	l.strangers(known, names)
	return to
}

// strangers finds unknown variables.
func (l *loader) strangers(known map[string]bool, names []string) {
	for _, name := range slices.Sorted(maps.Keys(l.env)) {
		foreign := slices.ContainsFunc(othersPrefixes, func(p string) bool { return strings.HasPrefix(name, p) })
		if known[name] || foreign || slices.Contains(othersVariables, name) {
			continue
		}
		l.mistake("", "", "$"+name, "there is no such variable%s", nearest(name, names))
	}
}
