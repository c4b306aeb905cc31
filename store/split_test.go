package store

import (
	"errors"
	"fmt"
	"slices"
	"strconv"
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

// TestSplitTenantsMakesACommitForEachPlace: tenants that are kept together stay so, and what
// cannot be committed does not keep the others of its place from it.
func TestSplitTenantsMakesACommitForEachPlace(t *testing.T) {
	t.Parallel()
	for _, c := range []struct {
		places, items, bad int // bad is one that is refused for another reason, or -1
		commits            int // at most
	}{
		{places: 1, items: 100, bad: -1, commits: 1},
		{places: 4, items: 100, bad: -1, commits: 5},
		{places: 4, items: 2, bad: -1, commits: 3},
		{places: 4, items: 100, bad: 17, commits: 20},
		{places: 4, items: 1, bad: -1, commits: 1},
		{places: 4, items: 0, bad: -1, commits: 0},
	} {
		items := make([]int, c.items)
		for i := range items {
			items[i] = i
		}
		place := func(tenant string) int { n, _ := strconv.Atoi(tenant); return n % c.places }
		var committed []int
		commits := 0
		SplitTenants(items, strconv.Itoa, func(some []int) error {
			commits++
			for _, i := range some {
				switch {
				case place(strconv.Itoa(i)) != place(strconv.Itoa(some[0])):
					return fmt.Errorf("commit: %w", &ApartError{Place: place})
				case i == c.bad:
					return fmt.Errorf("commit: %w", ErrConflict)
				}
			}
			committed = append(committed, some...)
			return nil
		})
		slices.Sort(committed)
		want := slices.DeleteFunc(items, func(i int) bool { return i == c.bad })
		if !slices.Equal(committed, want) || commits > c.commits {
			t.Errorf("%+v: %d of %d are committed, in %d commits", c, len(committed), len(want), commits)
		}
	}
}
