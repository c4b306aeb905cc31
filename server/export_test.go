package server

import "github.com/danielgtaylor/huma/v2"

// Document returns the OpenAPI document, for tests that compare it with what the server says.
func (s *Server) Document() *huma.OpenAPI { return s.api.OpenAPI() }
