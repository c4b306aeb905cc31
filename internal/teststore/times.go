package teststore

import (
	"container/heap"
	"slices"
)

// times is a heap of times in milliseconds, the earliest first.
type times struct {
	list timeHeap
	has  map[int64]bool // many things happen at the same time, and it is noted once
}

// add notes a time.
func (t *times) add(ms int64) {
	if t.has[ms] {
		return
	}
	if t.has == nil {
		t.has = map[int64]bool{}
	}
	t.has[ms] = true
	heap.Push(&t.list, ms)
}

// first returns the earliest time.
func (t *times) first() (ms int64, ok bool) {
	if len(t.list) == 0 {
		return 0, false
	}
	return t.list[0], true
}

// dropTo forgets the times up to now, and reports whether there were any.
func (t *times) dropTo(now int64) (some bool) {
	for len(t.list) > 0 && t.list[0] <= now {
		delete(t.has, t.list[0])
		heap.Pop(&t.list)
		some = true
	}
	return some
}

// timeHeap makes a list a heap.
type timeHeap []int64

func (h timeHeap) Len() int           { return len(h) }
func (h timeHeap) Less(i, j int) bool { return h[i] < h[j] }
func (h timeHeap) Swap(i, j int)      { h[i], h[j] = h[j], h[i] }
func (h *timeHeap) Push(x any)        { *h = append(*h, x.(int64)) }
func (h *timeHeap) Pop() any {
	last := (*h)[len(*h)-1]
	*h = slices.Delete(*h, len(*h)-1, len(*h))
	return last
}
