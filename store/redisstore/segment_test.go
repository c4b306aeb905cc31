package redisstore

import (
	"fmt"
	"strings"
	"testing"

	"github.com/abidehq/abide/internal/testenv"
)

// TestTheSegmentsOfTenantsNeverChange: the hash and the tags are part of the format.
func TestTheSegmentsOfTenantsNeverChange(t *testing.T) {
	t.Parallel()
	for tenant, want := range map[string]int{"": 17, "acme": 12, "globex": 17, "tenant-1": 19, "\x00\xff": 7} {
		if got := segmentIndex(tenant, DefaultSegments); got != want {
			t.Errorf("tenant %q is in segment %d, want %d", tenant, got, want)
		}
	}
	for i, want := range map[int]string{0: "abide", 1: "abide/1.61", 17: "abide/17.61", 23: "abide/23.48"} {
		if got := segmentTag("abide", i, DefaultSegments); got != want {
			t.Errorf("segment %d has the tag %s, want %s", i, got, want)
		}
	}
}

// TestSegmentsAreSpreadOverTheSlots: each has a part of the slots of its own, except the first,
// and the slots are those that Redis has for the tags.
func TestSegmentsAreSpreadOverTheSlots(t *testing.T) {
	t.Parallel()
	server := testenv.SharedRedisCluster(t).Nodes[0]
	for _, n := range []int{1, 3, DefaultSegments, MaxSegments} {
		segments := newSegments("abide", n)
		for i, seg := range segments {
			slot := slotOf(strings.Trim(seg.prefix, "{}"))
			if i > 0 && slot*n/clusterSlots != i {
				t.Errorf("segment %d of %d is in slot %d", i, n, slot)
			}
			if i%16 == 1 || i == 0 {
				if want := slotOfKey(t, server, seg.prefix+"meta"); slot != want {
					t.Errorf("%s is in slot %d, want %d", seg.prefix, slot, want)
				}
			}
		}
	}
}

// TestTenantsAreSpreadOverSegments: the hash favours none.
func TestTenantsAreSpreadOverSegments(t *testing.T) {
	t.Parallel()
	const each = 1000
	counts := make([]int, DefaultSegments)
	for i := range each * DefaultSegments {
		counts[segmentIndex(fmt.Sprintf("tenant-%d", i), DefaultSegments)]++
	}
	for i, n := range counts {
		if n < each*8/10 || n > each*12/10 {
			t.Errorf("segment %d has %d of %d tenants, want about %d", i, n, each*DefaultSegments, each)
		}
	}
}
