package workerlink

import "github.com/abidehq/abide/internal/engine"

// EncodeIfExists returns what a start does about an ID that exists. A server that does not know the statuses
// in which an instance is replaced refuses the start of one that exists.
func EncodeIfExists(s *engine.Start) int32 {
	if s.Replaceable != nil {
		return int32(engine.Reject)
	}
	return int32(s.IfExists)
}

// EncodeStatuses returns statuses as they travel.
func EncodeStatuses(list []engine.Status) []string {
	out := make([]string, len(list))
	for i, s := range list {
		out[i] = string(s)
	}
	return out
}

// decodeStatuses returns statuses that have travelled, nil if there are none.
func decodeStatuses(list []string) (out []engine.Status) {
	for _, s := range list {
		out = append(out, engine.Status(s))
	}
	return out
}
