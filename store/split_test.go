package store

import (
	"errors"
	"fmt"
	"slices"
	"testing"
)

// splitCommits runs Split on n numbers of which some are bad, and returns those that were
// committed and how many commits there were.
func splitCommits(n int, bad []int, reason error) (committed []int, commits int) {
	items := make([]int, n)
	for i := range items {
		items[i] = i
	}
	Split(items, func(items []int) error {
		commits++
		if slices.ContainsFunc(items, func(i int) bool { return slices.Contains(bad, i) }) {
			return fmt.Errorf("commit: %w", reason)
		}
		committed = append(committed, items...)
		return nil
	})
	return committed, commits
}

func TestSplitIsOneCommitIfItCanBe(t *testing.T) {
	t.Parallel()
	for _, n := range []int{0, 1, 2, 1000} {
		committed, commits := splitCommits(n, nil, nil)
		if len(committed) != n || commits != min(n, 1) {
			t.Errorf("of %d, %d are committed in %d commits", n, len(committed), commits)
		}
	}
}

// TestSplitLeavesOutWhatCannotBe: all others are committed, in their order, and it is found
// in a number of commits that grows with the logarithm.
func TestSplitLeavesOutWhatCannotBe(t *testing.T) {
	t.Parallel()
	for _, reason := range []error{ErrClaimLost, ErrConflict, ErrTooLarge} {
		for _, bad := range [][]int{{0}, {999}, {500}, {0, 499, 500, 999}, {3, 4}} {
			committed, commits := splitCommits(1000, bad, reason)
			if len(committed) != 1000-len(bad) || !slices.IsSorted(committed) {
				t.Errorf("with %v bad, %d are committed", bad, len(committed))
			}
			if most := 1 + 2*10*len(bad); commits > most {
				t.Errorf("with %v bad there are %d commits, want %d at most", bad, commits, most)
			}
		}
	}
	if committed, commits := splitCommits(4, []int{0, 1, 2, 3}, ErrConflict); len(committed) != 0 || commits != 7 {
		t.Errorf("of nothing but bad ones %v are committed in %d commits", committed, commits)
	}
}

// TestSplitStopsAtOtherErrors: halves would meet them too.
func TestSplitStopsAtOtherErrors(t *testing.T) {
	t.Parallel()
	for _, reason := range []error{ErrFull, ErrClosed, ErrFailed, ErrInvalid, errors.New("a lost connection")} {
		if committed, commits := splitCommits(10, []int{5}, reason); len(committed) != 0 || commits != 1 {
			t.Errorf("after %v, %d are committed in %d commits", reason, len(committed), commits)
		}
	}
}
