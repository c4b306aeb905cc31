package durabletask

import (
	"encoding/json"

	"google.golang.org/protobuf/types/known/structpb"
	"google.golang.org/protobuf/types/known/wrapperspb"

	"github.com/abidehq/abide/history"
	pb "github.com/abidehq/abide/internal/durabletaskpb"
)

// details is what a failure has besides its type, message and cause, as JSON in its details.
type details struct {
	StackTrace string         `json:"stack_trace,omitempty"`
	Properties map[string]any `json:"properties,omitempty"`

	// Retriable is true for the failure of an activity that the SDK may try again. For the engine it is
	// final, whose business retries are not.
	Retriable bool `json:"retriable,omitempty"`
}

// failureOf returns the failure that an SDK describes, nil for none.
func failureOf(f *pb.TaskFailureDetails) *history.Failure {
	if f == nil {
		return nil
	}
	failure := &history.Failure{Type: f.GetErrorType(), Message: f.GetErrorMessage(), Final: f.GetIsNonRetriable(), Cause: failureOf(f.GetInnerFailure())}
	d := details{StackTrace: f.GetStackTrace().GetValue()}
	for name, value := range f.GetProperties() {
		if d.Properties == nil {
			d.Properties = map[string]any{}
		}
		d.Properties[name] = value.AsInterface()
	}
	if d.StackTrace != "" || d.Properties != nil {
		failure.Details, _ = json.Marshal(d) // values of a struct always have JSON, but for numbers that are none
	}
	return failure
}

// activityFailure returns the failure of an activity.
func activityFailure(f *pb.TaskFailureDetails) *history.Failure {
	failure := failureOf(f)
	if failure == nil || failure.Final {
		return failure
	}
	failure.Final = true
	var d details
	_ = json.Unmarshal(failure.Details, &d) // they are its own, or none
	d.Retriable = true
	failure.Details, _ = json.Marshal(d)
	return failure
}

// describe returns a failure as an SDK understands it, nil for none.
func describe(f *history.Failure) *pb.TaskFailureDetails {
	if f == nil {
		return nil
	}
	out := &pb.TaskFailureDetails{ErrorType: f.Type, ErrorMessage: f.Message, IsNonRetriable: f.Final, InnerFailure: describe(f.Cause)}
	var d details
	if json.Unmarshal(f.Details, &d) != nil { // of code in Go, which has details of its own
		return out
	}
	out.IsNonRetriable = f.Final && !d.Retriable
	if d.StackTrace != "" {
		out.StackTrace = wrapperspb.String(d.StackTrace)
	}
	for name, value := range d.Properties {
		v, err := structpb.NewValue(value)
		if err != nil {
			continue
		}
		if out.Properties == nil {
			out.Properties = map[string]*structpb.Value{}
		}
		out.Properties[name] = v
	}
	return out
}
