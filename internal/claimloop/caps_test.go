package claimloop_test

import (
	"context"
	"fmt"
	"testing"
	"testing/synctest"
	"time"

	"github.com/abidehq/abide/internal/check"
	"github.com/abidehq/abide/internal/claimloop"
	"github.com/abidehq/abide/store"
)

// backlog is a store with tasks that are ready, by route. It keeps what was asked of it.
type backlog struct {
	store.Store
	ready map[string]int
	asked []string
}

func (b *backlog) Claim(ctx context.Context, req store.ClaimRequest) (claims []store.Claim, err error) {
	b.asked = append(b.asked, fmt.Sprint(req.Routes, req.Max, req.Wait > 0))
	for _, route := range req.Routes {
		for ; b.ready[route] > 0 && len(claims) < req.Max; b.ready[route]-- {
			claims = append(claims, store.Claim{Route: route})
		}
	}
	if len(claims) == 0 && req.Wait > 0 {
		<-ctx.Done()
		return nil, ctx.Err()
	}
	return claims, nil
}

// TestClaimsBelowCaps: a claim that waits is for all names below their caps. After one that was full, larger ones
// follow for those that may have more. What has ended interrupts a claim that waits without its name.
func TestClaimsBelowCaps(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		b := &backlog{ready: map[string]int{"free": 300, "one": 5, "six": 1}}
		c := claimloop.NewCaps(map[string]int{"one": 1, "six": 6})
		claim := func(asked ...string) {
			t.Helper()
			b.asked = nil
			_, err := c.On(b).Claim(t.Context(), store.ClaimRequest{Routes: []string{"free", "one", "six"}, Max: 128, Wait: time.Hour})
			check.OK(t, err)
			check.Equal(t, "claims", b.asked, asked)
		}
		for range 2 {
			claim("[free one six] 1 true")
			claim("[free six] 4 false")
			claim("[free] 128 false")
		}
		claim("[free one six] 1 true")
		claim("[free six] 4 false")
		claim("[free] 128 false") // which are not all that it asked for
		claim("[free one six] 1 true")
		check.Equal(t, "ready", b.ready, map[string]int{"free": 0, "one": 4, "six": 1})
		claim("[free six] 4 false")
		go func() {
			synctest.Wait()
			c.Give("six") // which is not at its cap
			synctest.Wait()
			check.Equal(t, "claims", len(b.asked), 1)
			c.Give("one")
		}()
		claim("[free six] 4 true", "[free one six] 1 true")
		check.Equal(t, "ready", b.ready, map[string]int{"free": 0, "one": 3, "six": 0})
	})
}
