package connect

import (
	"testing"
)

// A token does not go over the network in the clear without a word.
func TestInTheClear(t *testing.T) {
	t.Parallel()
	for address, want := range map[string]bool{
		"http://127.0.0.1:7171":    false,
		"http://[::1]:7171":        false,
		"http://localhost:7171":    false,
		"https://abide.example":    false,
		"http://abide.example":     true,
		"http://192.0.2.7:7171/x":  true,
		"unix:///run/abide.socket": false,
	} {
		if got := inTheClear(address); got != want {
			t.Errorf("%s: %v", address, got)
		}
	}
}
