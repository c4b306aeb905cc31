package abide

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/abidehq/abide/history"
	"github.com/abidehq/abide/internal/engine"
)

// explainTimeout is how long the error of a wait may take to find its cause.
const explainTimeout = time.Second

// explainWait adds to the error of a wait that was given up what the instance waits for and no live
// worker runs. A cause that cannot be found is left out.
func (c *Client) explainWait(ctx context.Context, ref Ref, err error) error {
	if ctx.Err() == nil || !errors.Is(err, ctx.Err()) && !errors.Is(err, context.DeadlineExceeded) {
		return err
	}
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), explainTimeout)
	defer cancel()
	missing := c.missingWorkers(ctx, ref)
	if len(missing) == 0 {
		return err
	}
	return fmt.Errorf("%w; no live worker serves %s, for which %v waits", err, strings.Join(missing, ", "), ref)
}

// missingWorkers returns what an instance waits for and no live worker runs.
func (c *Client) missingWorkers(ctx context.Context, ref Ref) []string {
	unserved, err := c.Unserved(ctx)
	if err != nil || len(unserved) == 0 {
		return nil
	}
	info, err := c.Get(ctx, ref)
	if err != nil || info.Status.Ended() {
		return nil
	}
	is := func(route string, activity bool) bool {
		return slices.ContainsFunc(unserved, func(u Unserved) bool { return u.Route == route && u.Activity == activity && !u.Target && u.Build == "" })
	}
	var missing []string
	route := engine.Route(info.Orchestration, info.Version)
	pinned := func(u Unserved) bool { return u.Route == route && u.Build == info.Build && !u.Activity && !u.Target }
	switch {
	case !slices.ContainsFunc(unserved, pinned):
	case info.Build != "":
		missing = append(missing, fmt.Sprintf("orchestration %q of build %q", route, info.Build))
	default:
		missing = append(missing, fmt.Sprintf("orchestration %q", route))
	}
	waits, err := c.Waits(ctx, ref)
	if err != nil {
		return missing
	}
	for _, w := range waits {
		text := ""
		switch {
		case w.Kind == history.ActivityScheduled && is(w.Name, true):
			text = fmt.Sprintf("activity %q", w.Name)
		case w.Kind == history.ChildStarted && is(w.Name, false):
			text = fmt.Sprintf("orchestration %q", w.Name)
		}
		if text != "" && !slices.Contains(missing, text) {
			missing = append(missing, text)
		}
	}
	return missing
}
