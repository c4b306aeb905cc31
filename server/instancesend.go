package server

import (
	"cmp"
	"context"
	"net/http"

	"github.com/danielgtaylor/huma/v2"

	"github.com/abidehq/abide"
	"github.com/abidehq/abide/server/api"
	"github.com/abidehq/abide/server/auth"
)

// addEnds adds the routes that terminate, restart and delete an instance.
func (s *Server) addEnds() {
	route(s, auth.Operate, huma.Operation{
		OperationID: "terminate-instance", Method: http.MethodPost, Path: instancePath + "/terminate", Summary: "End an instance", Tags: []string{tagInstances},
		Description:   "Its code is not asked. It may be given a result, and its children may end with it. It is durable when the answer arrives, and is done soon after.",
		DefaultStatus: http.StatusNoContent, MaxBodyBytes: maxPayloadBody,
	}, func(ctx context.Context, in *struct {
		Tenant string           `path:"tenant"`
		ID     string           `path:"id"`
		Reason string           `query:"reason" doc:"Why. It can be in the body instead."`
		Body   *api.Termination `doc:"Why and how."`
	}) (*struct{}, error) {
		var how api.Termination
		if in.Body != nil {
			how = *in.Body
		}
		why := cmp.Or(how.Reason, in.Reason)
		if err := checkReason(in.Reason, why, maxBody); err != nil { // the engine has a limit of its own
			return nil, err
		}
		result, err := api.Payload(how.Result)
		if err != nil {
			return nil, newProblem(http.StatusBadRequest, api.CodeInvalid, "invalid request", "result: "+err.Error())
		}
		return nil, s.problem(s.engine.TerminateWith(ctx, ref(in.Tenant, in.ID), abide.Termination{Reason: why, Result: result, Recursive: how.Recursive}))
	})
	route(s, auth.Operate, huma.Operation{
		OperationID: "restart-instance", Method: http.MethodPost, Path: instancePath + "/restart", Summary: "Start an instance once more", Tags: []string{tagInstances},
		Description:   "One that has ended, with the same input. Its old history goes, unless another ID is given. The reason is in the audit log.",
		DefaultStatus: http.StatusNoContent,
	}, func(ctx context.Context, in *struct {
		Tenant string       `path:"tenant"`
		ID     string       `path:"id"`
		Reason string       `query:"reason" doc:"Why. It can be in the body instead."`
		Body   *api.Restart `doc:"Why, and as which instance."`
	}) (*struct{}, error) {
		var how api.Restart
		if in.Body != nil {
			how = *in.Body
		}
		if err := checkReason(in.Reason, cmp.Or(how.Reason, in.Reason), maxBody); err != nil {
			return nil, err
		}
		if how.ID == "" {
			return nil, s.problem(s.engine.Restart(ctx, ref(in.Tenant, in.ID)))
		}
		_, err := s.engine.RestartAs(ctx, ref(in.Tenant, in.ID), how.ID)
		return nil, s.problem(err)
	})
	route(s, auth.Operate, huma.Operation{
		OperationID: "delete-instance", Method: http.MethodDelete, Path: instancePath, Summary: "Delete an instance", Tags: []string{tagInstances},
		Description: "One that has ended, with its history.", DefaultStatus: http.StatusNoContent,
	}, func(ctx context.Context, in *struct {
		Tenant    string `path:"tenant"`
		ID        string `path:"id"`
		Recursive bool   `query:"recursive" doc:"Delete its children that have ended too, and theirs."`
	}) (*struct{}, error) {
		return nil, s.problem(s.engine.DeleteWith(ctx, ref(in.Tenant, in.ID), abide.Deletion{Recursive: in.Recursive}))
	})
}
