package web

import (
	"bytes"
	"encoding/json"
	"hash/fnv"
	"html/template"
	"net/http"
	"regexp"
	"slices"
	"strconv"
	"sync"
)

// A page that is open asks for itself again whenever something has changed. It names the
// version that it shows, and is sent the difference: the regions that changed, and of lists
// within them only the items that did.
//
// Templates mark where a region begins and ends, where a list begins and ends, and where each
// item begins; an item is one element. The marks are comments, which template code cannot
// contain and data cannot forge, as html/template escapes both. They are taken out of what is
// sent. The server keeps hashes of what it has rendered and not the text, by version; a
// version that it does not know any more is answered with the whole page.
const (
	markRegion = template.HTML("<!--region-->")
	markItems  = template.HTML("<!--items-->")
	markItem   = template.HTML("<!--item-->")
)

// versionHeader names the version of the page that a browser shows.
const versionHeader = "Abide-Version"

// emptyVersion is where the layout has the version of the page.
var emptyVersion = []byte(`data-version=""`)

// region is a part of a page that changes.
type region struct {
	id       string
	text     []byte     // all of it
	skeleton []byte     // without the items of its lists
	lists    [][][]byte // items by list
}

// shape is what is kept of a rendered page.
type shape struct {
	regions []regionShape
}

type regionShape struct {
	id       string
	skeleton uint64
	lists    [][]uint64
}

var (
	// regionID finds the ID in the tag that a region begins with.
	regionID = regexp.MustCompile(`id="([^"]*)"[^<>]*>$`)

	// relativeWords finds the words that the script keeps up to date by itself.
	relativeWords = regexp.MustCompile(`( data-relative>)[^<]*`)
)

// regionsOf returns the regions of a rendered page.
func regionsOf(page []byte) []region {
	parts := bytes.Split(page, []byte(markRegion))
	var list []region
	for i := 1; i < len(parts); i += 2 {
		found := regionID.FindSubmatch(parts[i-1])
		if found == nil {
			continue // not reached: the tag of a region has an ID
		}
		r := region{id: string(found[1]), text: parts[i]}
		for j, part := range bytes.Split(parts[i], []byte(markItems)) {
			if j%2 == 0 {
				r.skeleton = append(r.skeleton, part...)
				continue
			}
			r.lists = append(r.lists, bytes.Split(part, []byte(markItem))[1:])
		}
		list = append(list, r)
	}
	return list
}

// withoutMarks returns a page as it is sent.
func withoutMarks(page []byte) []byte {
	for _, mark := range []template.HTML{markRegion, markItems, markItem} {
		page = bytes.ReplaceAll(page, []byte(mark), nil)
	}
	return page
}

func hashOf(text []byte) uint64 {
	h := fnv.New64a()
	_, _ = h.Write(relativeWords.ReplaceAll(text, []byte("$1"))) // a hash takes everything
	return h.Sum64()
}

// shapeOf returns the hashes of the regions, and the version that they make.
func shapeOf(regions []region) (shape, string) {
	var s shape
	whole := fnv.New64a()
	add := func(h uint64) uint64 {
		_, _ = whole.Write(strconv.AppendUint(nil, h, 36))
		_, _ = whole.Write([]byte{0})
		return h
	}
	for _, r := range regions {
		one := regionShape{id: r.id, skeleton: add(hashOf(r.skeleton))}
		for _, items := range r.lists {
			hashes := make([]uint64, len(items))
			for i, item := range items {
				hashes[i] = add(hashOf(item))
			}
			one.lists = append(one.lists, hashes)
			add(uint64(len(items)))
		}
		s.regions = append(s.regions, one)
	}
	return s, strconv.FormatUint(whole.Sum64(), 36)
}

// difference is what is sent of a page.
type difference struct {
	Version string         `json:"version"`
	Regions []regionChange `json:"regions"`
}

// regionChange is what has changed in a region. Skeleton is nil if only items have; the items
// of the lists that there were stay in it until Lists changes them. Without Lists it is all of
// the region: it has other lists than before, or none.
type regionChange struct {
	ID       string      `json:"id"`
	Skeleton *string     `json:"skeleton,omitempty"`
	Lists    [][]splices `json:"lists,omitempty"`
}

// splices replaces items of a list: Remove of them at At, by the items of HTML. Those of a
// list begin with the last one, so that At counts items of the list as it was.
type splices struct {
	At     int    `json:"at"`
	Remove int    `json:"remove"`
	HTML   string `json:"html,omitempty"`
}

// differ returns how a page differs from what is kept of an older one. It is not ok if they
// have other regions.
func differ(old shape, now shape, regions []region) (changes []regionChange, ok bool) {
	if len(old.regions) != len(now.regions) {
		return nil, false
	}
	changes = []regionChange{}
	for i, r := range regions {
		was, is := old.regions[i], now.regions[i]
		if was.id != is.id {
			return nil, false
		}
		c := regionChange{ID: r.id}
		if len(was.lists) != len(is.lists) {
			text := string(withoutMarks(r.text))
			c.Skeleton = &text
			changes = append(changes, c)
			continue
		}
		changed := was.skeleton != is.skeleton
		if changed {
			text := string(r.skeleton)
			c.Skeleton = &text
		}
		for j := range is.lists {
			list := spliced(was.lists[j], is.lists[j], r.lists[j])
			changed = changed || len(list) > 0
			c.Lists = append(c.Lists, list)
		}
		if changed {
			changes = append(changes, c)
		}
	}
	return changes, true
}

// spliced returns what turns a list into another one, by the longest common subsequence of
// their hashes. Lists have some hundreds of items at most.
func spliced(was, is []uint64, items [][]byte) []splices {
	first := 0
	for first < len(was) && first < len(is) && was[first] == is[first] {
		first++
	}
	a, b := was[first:], is[first:]
	for len(a) > 0 && len(b) > 0 && a[len(a)-1] == b[len(b)-1] {
		a, b = a[:len(a)-1], b[:len(b)-1]
	}
	// common[i][j] is the length of the longest common subsequence of a[i:] and b[j:].
	common := make([][]int, len(a)+1)
	for i := range common {
		common[i] = make([]int, len(b)+1)
	}
	for i := range slices.Backward(a) {
		for j := len(b) - 1; j >= 0; j-- {
			if a[i] == b[j] {
				common[i][j] = common[i+1][j+1] + 1
			} else {
				common[i][j] = max(common[i+1][j], common[i][j+1])
			}
		}
	}
	list := []splices{}
	for i, j := 0, 0; i < len(a) || j < len(b); {
		if i < len(a) && j < len(b) && a[i] == b[j] {
			i, j = i+1, j+1
			continue
		}
		s := splices{At: first + i}
		for i < len(a) || j < len(b) {
			if i < len(a) && j < len(b) && a[i] == b[j] {
				break
			}
			if j == len(b) || i < len(a) && common[i+1][j] >= common[i][j+1] {
				s.Remove++
				i++
				continue
			}
			s.HTML += string(items[first+j])
			j++
		}
		list = append(list, s)
	}
	slices.Reverse(list)
	return list
}

// maxShapes is how many versions of pages are kept; each has at most some hundred hashes.
const maxShapes = 512

// shapes are what is kept of the pages that were rendered last, by version.
type shapes struct {
	mu    sync.Mutex
	kept  map[string]shape
	order []string // the one that was rendered last is the last one
}

// put keeps a shape.
func (c *shapes) put(version string, s shape) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.kept == nil {
		c.kept = map[string]shape{}
	}
	if _, ok := c.kept[version]; ok {
		i := slices.Index(c.order, version)
		c.order = slices.Delete(c.order, i, i+1)
	}
	c.kept[version] = s
	c.order = append(c.order, version)
	if len(c.order) > maxShapes {
		delete(c.kept, c.order[0])
		c.order = slices.Delete(c.order, 0, 1)
	}
}

func (c *shapes) get(version string) (shape, bool) {
	c.mu.Lock()
	defer c.mu.Unlock()
	s, ok := c.kept[version]
	return s, ok
}

// differenceFor returns a rendered page as it is sent: the difference to the version that the
// browser shows if it names one that is known, and else the whole page.
func (s *site) differenceFor(r *http.Request, page []byte) (body []byte, contentType string) {
	regions := regionsOf(page)
	now, version := shapeOf(regions)
	if len(regions) > 0 {
		s.shapes.put(version, now)
	}
	if old, ok := s.shapes.get(r.Header.Get(versionHeader)); ok {
		if changes, ok := differ(old, now, regions); ok {
			var out bytes.Buffer
			e := json.NewEncoder(&out)
			e.SetEscapeHTML(false) // the answer is no page
			if err := e.Encode(difference{Version: version, Regions: changes}); err == nil {
				return out.Bytes(), "application/json"
			}
		}
	}
	page = bytes.Replace(withoutMarks(page), emptyVersion, []byte(`data-version="`+version+`"`), 1)
	return page, "text/html; charset=utf-8"
}
