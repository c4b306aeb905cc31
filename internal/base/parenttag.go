package base

import "maps"

// TagParent is a tag of the records of child instances: the ID of the parent. It is how the children
// of an instance are listed. It is reserved: programs neither see nor set it.
const TagParent = "\x00parent"

// WithParent returns tags with that of a parent; the tags themselves if there is none. It does not
// change its argument.
func WithParent(tags map[string]string, parent string) map[string]string {
	if parent == "" {
		return tags
	}
	all := maps.Clone(tags)
	if all == nil {
		all = make(map[string]string, 1)
	}
	all[TagParent] = parent
	return all
}

// WithoutParent returns tags without that of a parent. It does not change its argument.
func WithoutParent(tags map[string]string) map[string]string {
	if _, ok := tags[TagParent]; !ok {
		return tags
	}
	if len(tags) == 1 {
		return nil
	}
	rest := maps.Clone(tags)
	delete(rest, TagParent)
	return rest
}
