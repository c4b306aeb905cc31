package engine

// Status is the state of an instance:
//
//	pending ──▶ running ──▶ completed, failed, cancelled
//	   │           │  ▲
//	   │   suspend,│  │resume        terminate: from any
//	   │   stall   ▼  │              state that is not an end
//	   └────▶ suspended, stalled ──▶ terminated
//
// Suspended and stalled instances are parked: they keep the status to go back to (Info.Before) and their
// messages. Continued is the status of an execution that was succeeded by the next one; the instance is
// running.
type Status string

// States of an instance.
const (
	Pending    Status = "pending"    // it was started, and its code has not begun
	Running    Status = "running"    // its code has begun
	Suspended  Status = "suspended"  // stopped by a request, until it is resumed
	Stalled    Status = "stalled"    // its code cannot go on; it does when resumed after a fix
	Completed  Status = "completed"  // it has a result
	Failed     Status = "failed"     // its code returned an error
	Cancelled  Status = "cancelled"  // it came to an end because it was asked to
	Terminated Status = "terminated" // it was ended without being asked
	Continued  Status = "continued"  // of an execution: it went on as the next one
)

// Statuses are all of them.
var Statuses = []Status{Pending, Running, Suspended, Stalled, Completed, Failed, Cancelled, Terminated, Continued}

// Ended reports whether nothing will happen any more.
func (s Status) Ended() bool {
	switch s {
	case Completed, Failed, Cancelled, Terminated, Continued:
		return true
	default:
		return false
	}
}

// parked reports whether messages are to wait.
func (s Status) parked() bool { return s == Suspended || s == Stalled }
