package server

import (
	"github.com/danielgtaylor/huma/v2"

	"github.com/abidehq/abide/server/auth"
)

// Enter counts a stream as a request for one does, until leave is called. The status is that of
// the refusal, or 0.
func (s *Server) Enter(who auth.Identity, remote string) (leave func(), status int) {
	leave, p := s.live.enter(&who, remote)
	if p != nil {
		return nil, p.Status
	}
	return leave, 0
}

// Document returns the OpenAPI document, for tests that compare it with what the server says.
func (s *Server) Document() *huma.OpenAPI { return s.api.OpenAPI() }

// Example is a request to the API, and its answer.
type Example = example

// DocsExamples returns the examples of the API docs, in an order in which all of them succeed.
func DocsExamples() []Example { return examples() }
