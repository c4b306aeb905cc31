package server

import (
	"context"
	"errors"
	"net/http"

	"github.com/danielgtaylor/huma/v2"

	"github.com/abidehq/abide/server/api"
	"github.com/abidehq/abide/server/auth"
)

// authProblems says what errors of the guard become, the first that matches.
var authProblems = []struct {
	is     error
	status int
	code   string
	title  string
}{
	{auth.ErrNotFound, http.StatusNotFound, api.CodeNotFound, "not found"},
	{auth.ErrForbidden, http.StatusForbidden, api.CodeForbidden, "forbidden"},
	{auth.ErrFull, http.StatusConflict, api.CodeQuota, "limit reached"},
	{auth.ErrInvalid, http.StatusBadRequest, api.CodeInvalid, "invalid request"},
}

// authProblem returns an error of the guard as what a client gets, or nil.
func (s *Server) authProblem(err error) error {
	for _, p := range authProblems {
		if errors.Is(err, p.is) {
			return newProblem(p.status, p.code, p.title, err.Error())
		}
	}
	return s.problem(err)
}

// addWhoami adds the route by which a caller learns who it is.
func (s *Server) addWhoami() {
	route(s, auth.Read, huma.Operation{
		OperationID: "whoami", Method: http.MethodGet, Path: "/api/v1/whoami", Summary: "See who you are", Tags: []string{"tokens"},
	}, func(ctx context.Context, _ *struct{}) (*answer[api.Whoami], error) {
		who, _ := auth.Of(ctx)
		return &answer[api.Whoami]{http.StatusOK, api.Whoami{
			Kind: string(who.Kind), Subject: who.Subject, Name: who.Name, Role: string(who.Role), Tenants: who.Tenants,
		}}, nil
	})
}

// addTokens adds the routes of tokens and of the audit log.
func (s *Server) addTokens() {
	const base, tag = tokensPath, "tokens"
	guard := s.cfg.Auth
	route(s, auth.Admin, huma.Operation{
		OperationID: "create-token", Method: http.MethodPost, Path: base, Summary: "Make an API token", Tags: []string{tag},
		DefaultStatus: http.StatusCreated,
		Description: "The answer has the secret, which is kept nowhere and cannot be had again. " +
			"Nobody can make a token that may do more than they may themselves. It is not made with an Idempotency-Key, since answers to those are kept.",
	}, func(ctx context.Context, in *struct {
		Key  string `header:"Idempotency-Key" doc:"Must not be sent."`
		Body api.NewToken
	}) (*struct {
		Status       int
		CacheControl string `header:"Cache-Control"`
		Body         api.CreatedToken
	}, error) {
		if in.Key != "" {
			return nil, newProblem(http.StatusBadRequest, api.CodeInvalid, "invalid request",
				"a token is not made with the header "+headerIdempotencyKey+": the answer has a secret, and would be kept with it")
		}
		t, secret, err := guard.CreateToken(ctx, auth.NewToken{
			Name: in.Body.Name, Role: auth.Role(in.Body.Role), Tenants: in.Body.Tenants, Serve: in.Body.Serve, Expires: in.Body.ExpiresAt, Rate: in.Body.Rate,
		})
		if err != nil {
			return nil, s.authProblem(err)
		}
		return &struct {
			Status       int
			CacheControl string `header:"Cache-Control"`
			Body         api.CreatedToken
		}{http.StatusCreated, "no-store", api.CreatedToken{Token: fromToken(t), Secret: secret}}, nil
	})
	route(s, auth.Admin, huma.Operation{
		OperationID: "list-tokens", Method: http.MethodGet, Path: base, Summary: "List API tokens", Tags: []string{tag},
		Description: "The latest first, of those that may do no more than who asks. A page can have fewer tokens than were asked for, and still have a next one.",
	}, func(ctx context.Context, in *struct {
		PageSize  int    `query:"page_size" minimum:"1" maximum:"1000" default:"100" doc:"How many there are on a page at most."`
		PageToken string `query:"page_token" doc:"The next_page_token of the page before."`
	}) (*answer[api.TokenList], error) {
		page, err := guard.Tokens(ctx, in.PageSize, in.PageToken)
		if err != nil {
			return nil, s.authProblem(err)
		}
		list := api.TokenList{Tokens: make([]api.Token, len(page.Tokens)), NextPageToken: page.Next}
		for i, t := range page.Tokens {
			list.Tokens[i] = fromToken(t)
		}
		return &answer[api.TokenList]{http.StatusOK, list}, nil
	})
	route(s, auth.Admin, huma.Operation{
		OperationID: "revoke-token", Method: http.MethodDelete, Path: base + "/{id}", Summary: "Revoke an API token", Tags: []string{tag},
		DefaultStatus: http.StatusNoContent,
		Description:   "It is of no use from then on, nor are the sessions that were opened with it; in other processes, a few seconds later.",
	}, func(ctx context.Context, in *struct {
		ID string `path:"id"`
	}) (*struct{}, error) {
		return nil, s.authProblem(guard.RevokeToken(ctx, in.ID))
	})
	s.addSessions()
	s.addAudit()
}

// addSessions adds the routes of sessions.
func (s *Server) addSessions() {
	const base, tag = "/api/v1/sessions", "sessions"
	guard := s.cfg.Auth
	route(s, auth.Admin, huma.Operation{
		OperationID: "list-sessions", Method: http.MethodGet, Path: base, Summary: "List the logins of people", Tags: []string{tag},
		Description: "Those that end last first, of those that may do no more than who asks. A page can have fewer sessions than were asked for, and still have a next one.",
	}, func(ctx context.Context, in *struct {
		PageSize  int    `query:"page_size" minimum:"1" maximum:"1000" default:"100" doc:"How many there are on a page at most."`
		PageToken string `query:"page_token" doc:"The next_page_token of the page before."`
		Subject   string `query:"subject" doc:"Of that subject."`
	}) (*answer[api.SessionList], error) {
		page, err := guard.Sessions(ctx, auth.SessionQuery{Subject: in.Subject, Limit: in.PageSize, Cursor: in.PageToken})
		if err != nil {
			return nil, s.authProblem(err)
		}
		return &answer[api.SessionList]{http.StatusOK, FromSessions(page)}, nil
	})
	route(s, auth.Admin, huma.Operation{
		OperationID: "revoke-session", Method: http.MethodDelete, Path: base + "/{id}", Summary: "End a login", Tags: []string{tag},
		DefaultStatus: http.StatusNoContent, Description: "At once in the process that does it, in others a few seconds later.",
	}, func(ctx context.Context, in *struct {
		ID string `path:"id"`
	}) (*struct{}, error) {
		return nil, s.authProblem(guard.RevokeSession(ctx, in.ID))
	})
	route(s, auth.Admin, huma.Operation{
		OperationID: "revoke-sessions", Method: http.MethodDelete, Path: base, Summary: "End all logins of a subject", Tags: []string{tag},
	}, func(ctx context.Context, in *struct {
		Subject string `query:"subject" required:"true" minLength:"1" doc:"Whose logins end."`
	}) (*answer[api.RevokedSessions], error) {
		n, err := guard.RevokeSessions(ctx, in.Subject)
		if err != nil {
			return nil, s.authProblem(err)
		}
		return &answer[api.RevokedSessions]{http.StatusOK, api.RevokedSessions{Revoked: n}}, nil
	})
}

// FromSessions returns a page of sessions in the form that the API has.
func FromSessions(page auth.SessionPage) api.SessionList {
	list := api.SessionList{Sessions: make([]api.Session, len(page.Sessions)), NextPageToken: page.Next}
	for i := range page.Sessions {
		x := &page.Sessions[i]
		list.Sessions[i] = api.Session{
			ID: x.ID, Kind: string(x.Kind), Token: x.Token, Subject: x.Subject, Name: x.Name, Role: string(x.Role), Tenants: x.Tenants,
			CreatedAt: x.CreatedAt, ExpiresAt: x.Expires,
		}
	}
	return list
}

type auditQuery struct {
	PageSize  int    `query:"page_size" minimum:"1" maximum:"1000" default:"100" doc:"How many there are on a page at most."`
	PageToken string `query:"page_token" doc:"The next_page_token of the page before."`
	From      when   `query:"from" doc:"At that time or later."`
	To        when   `query:"to" doc:"Before that time."`
	Subject   string `query:"subject" doc:"By that one: the ID of a token, or the subject of a login or of a certificate."`
	Tenant    string `query:"tenant" doc:"Done to what is that tenant's."`
	Operation string `query:"operation" doc:"Of that operation."`
}

func (s *Server) addAudit() {
	guard := s.cfg.Auth
	route(s, auth.Admin, huma.Operation{
		OperationID: "list-audit", Method: http.MethodGet, Path: "/api/v1/audit", Summary: "Read the audit log", Tags: []string{"audit"},
		Description: "What was done, by whom, the latest first. Who has some tenants only sees what was done to these.",
	}, func(ctx context.Context, in *auditQuery) (*answer[api.AuditList], error) {
		if in.Tenant != "" {
			if err := tenant(ctx, in.Tenant); err != nil {
				return nil, err
			}
		}
		page, err := guard.Audit(ctx, auth.AuditQuery{
			From: in.From.at(s.clock.Now()), To: in.To.at(s.clock.Now()), Subject: in.Subject, Tenant: in.Tenant, Operation: in.Operation, Limit: in.PageSize, Cursor: in.PageToken,
		})
		if err != nil {
			return nil, s.authProblem(err)
		}
		list := api.AuditList{Entries: make([]api.AuditEntry, len(page.Entries)), NextPageToken: page.Next}
		for i, e := range page.Entries {
			list.Entries[i] = api.AuditEntry{
				At: e.At, RequestID: e.RequestID, Subject: e.Subject, Name: e.Name, Kind: string(e.Kind), Remote: e.Remote,
				Operation: e.Operation, Tenant: e.Tenant, Target: e.Target, Detail: e.Detail, Status: e.Status, Error: e.Error,
			}
		}
		return &answer[api.AuditList]{http.StatusOK, list}, nil
	})
}

func fromToken(t auth.Token) api.Token {
	return api.Token{
		ID: t.ID, Name: t.Name, Role: string(t.Role), Tenants: t.Tenants, Serve: t.Serve,
		CreatedAt: t.CreatedAt, CreatedBy: t.CreatedBy, ExpiresAt: t.Expires, UsedAt: t.UsedAt, Rate: t.Rate,
	}
}
