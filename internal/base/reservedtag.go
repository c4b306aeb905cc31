package base

import "maps"

// Tags of the records of instances that are reserved: programs neither see nor set them.
const (
	// TagParent is the ID of the parent of a child: it is how the children of an instance are listed.
	TagParent = "\x00parent"

	// TagBuild is the build that an instance is pinned to.
	TagBuild = "\x00build"
)

// WithParent returns tags with that of a parent; the tags themselves if there is none. It does not
// change its argument.
func WithParent(tags map[string]string, parent string) map[string]string {
	return withTag(tags, TagParent, parent)
}

// WithBuild returns tags with that of a build; the tags themselves if there is none. It does not change
// its argument.
func WithBuild(tags map[string]string, build string) map[string]string {
	return withTag(tags, TagBuild, build)
}

func withTag(tags map[string]string, name, value string) map[string]string {
	if value == "" {
		return tags
	}
	all := maps.Clone(tags)
	if all == nil {
		all = make(map[string]string, 1)
	}
	all[name] = value
	return all
}

// WithoutReserved returns tags without those that are reserved. It does not change its argument.
func WithoutReserved(tags map[string]string) map[string]string {
	n := 0
	for _, name := range []string{TagParent, TagBuild} {
		if _, ok := tags[name]; ok {
			n++
		}
	}
	switch {
	case n == 0:
		return tags
	case n == len(tags):
		return nil
	}
	rest := maps.Clone(tags)
	delete(rest, TagParent)
	delete(rest, TagBuild)
	return rest
}
