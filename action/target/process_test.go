//go:build unix

package target

import (
	"context"
	"testing"

	"github.com/abidehq/abide/internal/base"
	"github.com/abidehq/abide/internal/check"
)

// TestEndedBefore: a context that ends when the command has ended already makes no failure
// of a success, and what the command left behind is told to end.
func TestEndedBefore(t *testing.T) {
	t.Parallel()
	p, err := start("/bin/sh", []string{"sh", "-c", "sleep 60 & exit 0"}, nil, "", nil)
	check.OK(t, err)
	<-p.exited
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	if p.wait(ctx, base.System{}, MaxGrace) {
		t.Error("it counts as interrupted")
	}
	if code, how := p.result(); code != 0 {
		t.Error(how)
	}
}
