package durabletask

import (
	"fmt"
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
	errs := make([]error, n)
	var starts sync.WaitGroup
	for i := range n {
		starts.Go(func() {
			_, errs[i] = client.StartInstance(ctx, &pb.CreateInstanceRequest{InstanceId: fmt.Sprint(i), Name: fmt.Sprintf("name %d", i)})
		})
	}
	starts.Wait()
	for _, err := range errs {
		check.OK(t, err)
	}
	known, version, err := readNames(t.Context(), b.store, "hub")
	check.OK(t, err)
	check.Equal(t, "names", len(known.Orchestrations), n)
	if version > n/2 {
		t.Errorf("%d changes were made for %d names, want those that come together in one", version, n)
	}
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
