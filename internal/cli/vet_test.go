package cli

import (
	"encoding/json"
	"strings"
	"testing"
)

func TestVetFindsNothing(t *testing.T) {
	code, stdout, stderr := invoke(t, "vet", "errors")
	if code != ExitOK || stdout != "" || stderr != "" {
		t.Errorf("exit code %d\n%s%s", code, stdout, stderr)
	}
}

// TestVetReportsWhatItFinds, and nothing in the examples. All that orchestrations import is
// loaded each time, which takes most of the time: so they are looked at together.
func TestVetReportsWhatItFinds(t *testing.T) {
	code, stdout, stderr := invoke(t, "vet", "-o", "json", "./testdata/clock", "github.com/abidehq/abide/examples/...")
	var findings []vetFinding
	if err := json.Unmarshal([]byte(stdout), &findings); err != nil {
		t.Fatalf("%v in %q", err, stdout)
	}
	if code != ExitFailure || !strings.Contains(stderr, "not deterministic: 1 found") || len(findings) != 1 {
		t.Fatalf("exit code %d, %v, %s", code, findings, stderr)
	}
	if f := findings[0]; f.Category != "clock" || f.Line == 0 || f.File != "testdata/clock/clock.go" {
		t.Errorf("found %+v", f)
	}

	code, stdout, _ = invoke(t, "vet", "./testdata/clock")
	if code != ExitFailure || !strings.HasPrefix(stdout, "testdata/clock/clock.go:") || !strings.Contains(stdout, "[clock]") {
		t.Errorf("exit code %d, printed %q", code, stdout)
	}
}

func TestVetOfWhatIsNotThere(t *testing.T) {
	code, _, stderr := invoke(t, "vet", "./nowhere")
	if code != ExitFailure || !strings.Contains(stderr, "nowhere") {
		t.Errorf("exit code %d, printed %q", code, stderr)
	}
}
