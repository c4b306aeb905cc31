package config

import (
	"strings"
	"testing"
)

// TestPlacesShowNoSecrets, wherever in a URL they are.
func TestPlacesShowNoSecrets(t *testing.T) {
	t.Parallel()
	for text, want := range map[string]string{
		"https://hooks.example.com/services/T00SECRET/B11":   "https://hooks.example.com/xxxxx",
		"https://hooks.example.com/":                         "https://hooks.example.com/",
		"https://hooks.example.com":                          "https://hooks.example.com",
		"postgres://abide:12,34@db.internal/production":      "postgres://abide:xxxxx@db.internal/production",
		"postgres://abide@db.internal/production":            "postgres://abide@db.internal/production",
		"nats://token@a:4222,nats://b:4222":                  "nats://xxxxx@a:4222,nats://b:4222",
		"nats://user:pass@a:4222,nats://user:pass@b:4222":    "nats://user:xxxxx@a:4222,nats://user:xxxxx@b:4222",
		"nats://user:pa,ss@a:4222":                           hidden,
		"/var/lib/abide":                                     "/var/lib/abide",
		"redis://:secret@cache.internal:6379/0?prefix=abide": "redis://:xxxxx@cache.internal:6379/0?xxxxx",
	} {
		if got := NewPlace(text).String(); got != want {
			t.Errorf("%s is shown as %s, want %s", text, got, want)
		}
	}
}

// TestMistakesShowNoSecrets that stand on the wrong line, and a flag does not take one.
func TestMistakesShowNoSecrets(t *testing.T) {
	t.Parallel()
	for name, src := range map[string]Source{
		"group":   {File: write(t, "auth: s3cr3t-s3cr3t")},
		"element": {File: write(t, "hooks: [s3cr3t-s3cr3t]")},
		"flag":    {File: write(t, ""), Flags: map[string]Flag{"auth.admin_token": {Name: "--set", Value: "s3cr3t-s3cr3t"}}},
	} {
		_, err := Load(src)
		if err == nil || strings.Contains(err.Error(), "s3cr3t") {
			t.Errorf("%s: %v", name, err)
		}
	}
}
