package server_test

import (
	"os"
	"regexp"
	"strings"
	"testing"

	"github.com/abidehq/abide/internal/check"
)

var documentedCommands = regexp.MustCompile("(?s)```sh\n(.*?)```")

// TestTheCommandsOfTheDocumentRun: those of docs/api.md succeed, one after the other.
func TestTheCommandsOfTheDocumentRun(t *testing.T) {
	t.Parallel()
	text, err := os.ReadFile("../docs/api.md")
	check.OK(t, err)
	w := newOrders(t, false)
	ran := 0
	for _, block := range documentedCommands.FindAllStringSubmatch(string(text), -1) {
		for command := range strings.Lines(block[1]) {
			command = strings.TrimSpace(strings.ReplaceAll(command, "http://127.0.0.1:7171", w.base))
			if got := w.run(command); got.status < 200 || got.status >= 300 {
				t.Errorf("%s: %d %s", command, got.status, got.body)
			}
			ran++
		}
	}
	if ran < 10 {
		t.Errorf("%d commands ran", ran)
	}
}
