package pebblestore

// indexed is a binary heap whose items hold their index, so that an item can be
// moved or removed when what it is ordered by changes. The first item is the least.
//
// container/heap would need an interface for each type and a boxed item for each
// call; this is on the path of every claim and commit.
type indexed[T any] struct {
	items []T
	less  func(a, b T) bool
	slot  func(T) *int // where the item keeps its index plus one; 0 means not in the heap
}

func (h *indexed[T]) len() int { return len(h.items) }

// push adds an item, or moves it if it is there already.
func (h *indexed[T]) push(x T) {
	p := h.slot(x)
	if *p == 0 {
		h.items = append(h.items, x)
		*p = len(h.items)
	}
	if i := *p - 1; !h.down(i) {
		h.up(i)
	}
}

// remove takes an item out, if it is there.
func (h *indexed[T]) remove(x T) {
	p := h.slot(x)
	i := *p - 1
	if i < 0 {
		return
	}
	last := len(h.items) - 1
	h.swap(i, last)
	var zero T
	h.items[last] = zero
	h.items = h.items[:last]
	*p = 0
	if i < last && !h.down(i) {
		h.up(i)
	}
}

func (h *indexed[T]) swap(i, j int) {
	h.items[i], h.items[j] = h.items[j], h.items[i]
	*h.slot(h.items[i]) = i + 1
	*h.slot(h.items[j]) = j + 1
}

func (h *indexed[T]) up(i int) {
	for i > 0 {
		parent := (i - 1) / 2
		if !h.less(h.items[i], h.items[parent]) {
			return
		}
		h.swap(i, parent)
		i = parent
	}
}

func (h *indexed[T]) down(i int) (moved bool) {
	for {
		child := 2*i + 1
		if child >= len(h.items) {
			return moved
		}
		if right := child + 1; right < len(h.items) && h.less(h.items[right], h.items[child]) {
			child = right
		}
		if !h.less(h.items[child], h.items[i]) {
			return moved
		}
		h.swap(i, child)
		i, moved = child, true
	}
}
