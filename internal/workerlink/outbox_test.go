package workerlink

import (
	"context"
	"errors"
	"testing"
)

// TestOutboxSplits: what is added while a message is being sent goes out together, and in several messages if it
// is much, in the order in which it was added.
func TestOutboxSplits(t *testing.T) {
	t.Parallel()
	type message struct {
		items []int
		size  int
	}
	o := NewOutbox[message]()
	sizes := []int{0, 100, maxBatch - 100, 1, 0, 3 * maxBatch, 5, maxBatch, 7}
	for i, size := range sizes {
		o.AddSized(size, func(m *message) {
			m.items = append(m.items, i)
			m.size += size
		})
	}
	var sent []message
	errDone := errors.New("done")
	err := o.Run(context.Background(), func(m *message) error {
		sent = append(sent, *m)
		if m.items[len(m.items)-1] == len(sizes)-1 {
			return errDone
		}
		return nil
	})
	if !errors.Is(err, errDone) {
		t.Errorf("the error is %v", err)
	}
	next := 0
	for _, m := range sent {
		if m.size > maxBatch && len(m.items) > 1 {
			t.Errorf("a message has %d bytes", m.size)
		}
		for _, item := range m.items {
			if item != next {
				t.Errorf("item %d comes where %d was added", item, next)
			}
			next++
		}
	}
	if len(sent) != 6 {
		t.Errorf("there are %d messages: %v", len(sent), sent)
	}
	o.Add(func(*message) { t.Error("something is added to an outbox that has ended") })
}
