package web

import (
	"slices"
	"time"
)

const (
	// foldAbove is how many rows are shown one by one. Where there are more, equal ones are in
	// a group.
	foldAbove = 40

	// maxAlone is how many rows of a state that matters stay out of the groups.
	maxAlone = 15
)

// chip selects the rows of a state.
type chip struct {
	Label string
	Show  string
	Count int
	On    bool
}

// shown are the states that chips select.
var shown = []string{"running", "failed"}

// chipsOf returns the chips of some bars, and none if there are few of them.
func chipsOf(bars []*bar, show string) []chip {
	count := map[string]int{}
	for _, b := range bars {
		count[b.State]++
	}
	return stateChips(len(bars), count, show)
}

// stateChips returns a chip for all, and one for each state of shown that there is.
func stateChips(total int, count map[string]int, show string) []chip {
	if total <= foldAbove && show == "" {
		return nil
	}
	list := []chip{{Label: "all", Count: total, On: show == ""}}
	for _, state := range shown {
		if count[state] > 0 || show == state {
			list = append(list, chip{Label: state, Show: state, Count: count[state], On: show == state})
		}
	}
	return list
}

// chosen returns the bars of a state, or all.
func chosen(bars []*bar, show string) []*bar {
	if show == "" {
		return bars
	}
	return slices.DeleteFunc(slices.Clone(bars), func(b *bar) bool { return b.State != show })
}

// rank is where bars of a state stand in a long list: what runs or has failed comes first.
func rank(state string) int {
	switch state {
	case "running", "pending", "suspended", "stalled":
		return 0
	case "failed":
		return 1
	default:
		return 2
	}
}

// folded puts equal bars of a long list into groups: those of one kind, name and state. Of
// what runs or has failed, some stay alone.
func folded(bars []*bar) []*bar {
	if len(bars) <= foldAbove {
		return bars
	}
	alone := map[string]int{}
	groups := map[[3]string]*bar{}
	var list []*bar
	for _, b := range bars {
		if rank(b.State) < 2 && alone[b.State] < maxAlone {
			alone[b.State]++
			list = append(list, b)
			continue
		}
		key := [3]string{b.Kind, b.group, b.State}
		g := groups[key]
		if g == nil {
			groups[key] = b
			list = append(list, b)
			continue
		}
		g.join(b)
	}
	slices.SortStableFunc(list, func(a, b *bar) int { return rank(a.State) - rank(b.State) })
	for _, g := range groups {
		if g.Count > 0 {
			g.Label, g.Href, g.failed = g.group+" × "+number(g.Count), "", 0
			g.Words = ""
		}
	}
	return list
}

// join adds a bar to a group.
func (b *bar) join(other *bar) {
	b.Count = max(b.Count, 1) + 1
	if other.start.Before(b.start) {
		b.start = other.start
	}
	if other.end.IsZero() || !b.end.IsZero() && other.end.After(b.end) {
		b.end = other.end
	}
}

// openSteps is how often the bars of what is not over grow while the axis stays the same.
const openSteps = 50

// newest returns n bars of a folded list: what runs or has failed, and the last of the others.
func newest(bars []*bar, n int) []*bar {
	if len(bars) <= n {
		return bars
	}
	first := slices.IndexFunc(bars, func(b *bar) bool { return rank(b.State) == 2 })
	if first < 0 || first > n {
		return bars[:n]
	}
	return append(slices.Clone(bars[:first]), bars[len(bars)-(n-first):]...)
}

// steady returns an axis that contains from and end and stays the same for a while, so that
// few bars move when time passes: its ends are multiples of a unit after the beginning.
func steady(began, from, end time.Time) (time.Time, time.Time) {
	unit := time.Duration(roundUp(max(end.Sub(from), 10*time.Second).Seconds()/5) * float64(time.Second))
	first := from.Sub(began).Truncate(unit)
	last := end.Sub(began).Truncate(unit) + unit
	return began.Add(first), began.Add(last)
}
