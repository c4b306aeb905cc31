package web

import (
	"cmp"
	"slices"
	"strings"
	"time"

	"github.com/abidehq/abide"
)

// reasonOf returns the first line of why an instance is suspended or stalled, or ended
// otherwise than by completing. It is empty for others.
func reasonOf(info *abide.Info) string {
	switch info.Status {
	case abide.Suspended, abide.Stalled, abide.Failed, abide.Cancelled, abide.Terminated:
	default:
		return ""
	}
	if info.Reason == "" && info.Err != nil {
		return firstLine(info.Err.Error())
	}
	return firstLine(info.Reason)
}

// reasonKey returns what reasons that differ only in numbers have in common.
func reasonKey(text string) string {
	var b strings.Builder
	digits := false
	for _, c := range text {
		if digit := c >= '0' && c <= '9'; !digit {
			b.WriteRune(c)
			digits = false
		} else if !digits {
			b.WriteByte('#')
			digits = true
		}
	}
	return b.String()
}

// reasonGroup is some instances with the same reason.
type reasonGroup struct {
	Text  string
	Count int
	Href  string
	key   string
}

const (
	maxGrouped = 500 // instances that are read to group them
	maxGroups  = 3   // groups that a card shows
)

// reasonGroups are the reasons of some instances.
type reasonGroups struct {
	Groups []reasonGroup // the largest first
	Others int           // groups that are not shown
	Count  int           // instances
	All    bool          // there are no others: the reading was not cut short
}

// grouped reads the instances of a status that were started last, maxGrouped at most for each
// tenant of the caller, and groups those that ended at a time or later by their reason. The
// address of a group is path with why.
func (s *site) grouped(r *request, status abide.Status, ended time.Time, pairs ...string) (reasonGroups, error) {
	f := abide.Filter{Statuses: []abide.Status{status}, Descending: true, Limit: maxGrouped}
	g := reasonGroups{All: true}
	tenants := []*string{nil}
	if !r.everything() {
		tenants = nil
		for i := range r.who.Tenants {
			tenants = append(tenants, &r.who.Tenants[i])
		}
	}
	for _, f.Tenant = range tenants {
		page, err := s.engine.List(r.ctx(), f)
		if err != nil {
			return g, err
		}
		g.All = g.All && page.Next == ""
		for i := range page.Instances {
			if in := &page.Instances[i]; !in.EndedAt.Before(ended) {
				g.add(reasonOf(in))
			}
		}
	}
	slices.SortStableFunc(g.Groups, func(a, b reasonGroup) int { return cmp.Compare(b.Count, a.Count) })
	g.Others = max(0, len(g.Groups)-maxGroups)
	g.Groups = g.Groups[:len(g.Groups)-g.Others]
	for i := range g.Groups {
		g.Groups[i].Href = s.with("/instances", append(pairs, "why", g.Groups[i].key)...)
	}
	return g, nil
}

// add counts an instance. A group shows the reason of all of its instances, with a mark where
// their numbers differ.
func (g *reasonGroups) add(text string) {
	g.Count++
	key := reasonKey(text)
	i := slices.IndexFunc(g.Groups, func(one reasonGroup) bool { return one.key == key })
	if i < 0 {
		g.Groups = append(g.Groups, reasonGroup{Text: text, Count: 1, key: key})
		return
	}
	g.Groups[i].Count++
	if g.Groups[i].Text != text {
		g.Groups[i].Text = key
	}
}
