package instances

import (
	"github.com/abidehq/abide"
	"github.com/abidehq/abide/server/api"
)

// wireInstance is an instance as programs read it.
func wireInstance(info abide.Info) api.Instance { return api.FromInfo(&info) }

// WireInstances is a list of instances as programs read it.
func WireInstances(found []abide.Info, next string) api.InstanceList {
	list := api.InstanceList{Instances: make([]api.Instance, len(found)), NextPageToken: next}
	for i := range found {
		list.Instances[i] = api.FromInfo(&found[i])
	}
	return list
}
