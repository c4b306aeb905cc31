package durabletask

import (
	"fmt"
	"runtime"
	"sync"
	"testing"

	"github.com/abidehq/abide/internal/check"
	pb "github.com/abidehq/abide/internal/durabletaskpb"
)

// TestStartsOfManyNewNames: starts of names that the hub has not used are all taken, however many there are at once.
func TestStartsOfManyNewNames(t *testing.T) {
	t.Parallel()
	b := newBackend(t)
	client, _ := b.dial()
	ctx := b.in("hub")
	const n = 300
	h := b.hub("hub")
	h.adding <- struct{}{} // a change is under way until all wait for the next
	errs := make([]error, n)
	var starts sync.WaitGroup
	for i := range n {
		starts.Go(func() {
			_, errs[i] = client.StartInstance(ctx, &pb.CreateInstanceRequest{InstanceId: fmt.Sprint(i), Name: fmt.Sprintf("name %d", i)})
		})
	}
	waiting := func() int {
		h.mu.Lock()
		defer h.mu.Unlock()
		return h.wanted.len()
	}
	for waiting() < n && ctx.Err() == nil {
		runtime.Gosched()
	}
	<-h.adding
	starts.Wait()
	for _, err := range errs {
		check.OK(t, err)
	}
	known, version, err := readNames(t.Context(), b.store, "hub")
	check.OK(t, err)
	check.Equal(t, "names", len(known.Orchestrations), n)
	check.Equal(t, "changes", version, 1)
}

// TestPurgeOfARunningInstance: an instance that has not ended is not deleted, and that is no error.
func TestPurgeOfARunningInstance(t *testing.T) {
	t.Parallel()
	b := newBackend(t)
	client, _ := b.dial()
	_, err := client.StartInstance(b.in("hub"), &pb.CreateInstanceRequest{InstanceId: "a", Name: "hello"})
	check.OK(t, err)
	purged, err := client.PurgeInstances(b.in("hub"), &pb.PurgeInstancesRequest{Request: &pb.PurgeInstancesRequest_InstanceId{InstanceId: "a"}})
	check.OK(t, err)
	check.Equal(t, "deleted", purged.GetDeletedInstanceCount(), 0)
	found, err := client.GetInstance(b.in("hub"), &pb.GetInstanceRequest{InstanceId: "a"})
	check.OK(t, err)
	check.Equal(t, "exists", found.GetExists(), true)
}
