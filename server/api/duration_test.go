package api_test

import (
	"testing"
	"time"

	"github.com/abidehq/abide/server/api"
)

func TestDurations(t *testing.T) {
	t.Parallel()
	for text, want := range map[string]time.Duration{"30": 30 * time.Second, "1.5": 1500 * time.Millisecond, "15m": 15 * time.Minute, "-2h": -2 * time.Hour, "0": 0} {
		if got, err := api.ParseDuration(text); err != nil || got != want {
			t.Errorf("%q: %v, %v", text, got, err)
		}
	}
	for _, text := range []string{"", "soon", "nan", "inf", "1e10", "-1e10", "5 m"} {
		if got, err := api.ParseDuration(text); err == nil {
			t.Errorf("%q is %v", text, got)
		}
	}
}
