package api

import "time"

// NewToken is a request to make an API token.
type NewToken struct {
	Name      string    `json:"name" minLength:"1" maxLength:"256" doc:"What the token is for, or whose it is."`
	Role      string    `json:"role" enum:"read,operate,worker,admin" doc:"What may be done with it. Each role includes the one before."`
	Tenants   []string  `json:"tenants,omitempty" minItems:"1" maxItems:"100" doc:"The tenants that it is for; all of them, if this is not there."`
	Serve     []string  `json:"serve,omitempty" minItems:"1" maxItems:"100" doc:"The orchestrations and activities that a worker may serve with it, of which a name may end with a *; all of them, if this is not there. It takes the role worker."`
	ExpiresAt time.Time `json:"expires_at,omitzero" doc:"When it stops working; never, if this is not there."`
	Rate      float64   `json:"rate,omitempty" minimum:"0" maximum:"1000000" doc:"How many requests per second may be made with it; the rate in the server's configuration, if this is not there."`
}

// Token is what is known of an API token, without the secret.
type Token struct {
	ID        string    `json:"id"`
	Name      string    `json:"name"`
	Role      string    `json:"role" enum:"read,operate,worker,admin"`
	Tenants   []string  `json:"tenants,omitempty" doc:"The tenants that it is for; all of them, if this is not there."`
	Serve     []string  `json:"serve,omitempty" doc:"The orchestrations and activities that a worker may serve with it; all of them, if this is not there."`
	CreatedAt time.Time `json:"created_at"`
	CreatedBy string    `json:"created_by,omitempty" doc:"The subject of who made it."`
	ExpiresAt time.Time `json:"expires_at,omitzero" doc:"When it stops working; never, if this is not there."`
	UsedAt    time.Time `json:"used_at,omitzero" doc:"When it was last used, to the hour."`
	Rate      float64   `json:"rate,omitempty" doc:"How many requests per second may be made with it."`
}

// CreatedToken is a token that was just made.
type CreatedToken struct {
	Token
	Secret string `json:"secret" doc:"What to send as Authorization: Bearer …. It is kept nowhere, and cannot be had again."`
}

// TokenList is a page of tokens.
type TokenList struct {
	Tokens        []Token `json:"tokens"`
	NextPageToken string  `json:"next_page_token,omitempty" doc:"What to ask for the next page with; not there on the last one."`
}

// Session is a login to the page that has not ended.
type Session struct {
	ID        string    `json:"id" doc:"The ID of its record; the cookie has another secret."`
	Kind      string    `json:"kind" enum:"token,session" doc:"How it was opened: with a token, or at the provider."`
	Token     string    `json:"token,omitempty" doc:"The ID of the token that it was opened with."`
	Subject   string    `json:"subject"`
	Name      string    `json:"name"`
	Role      string    `json:"role" enum:"read,operate,worker,admin"`
	Tenants   []string  `json:"tenants,omitempty" doc:"The tenants that it is for; all of them, if this is not there."`
	CreatedAt time.Time `json:"created_at"`
	ExpiresAt time.Time `json:"expires_at"`
}

// SessionList is a page of sessions.
type SessionList struct {
	Sessions      []Session `json:"sessions"`
	NextPageToken string    `json:"next_page_token,omitempty" doc:"What to ask for the next page with; not there on the last one."`
}

// RevokedSessions says how many sessions have ended.
type RevokedSessions struct {
	Revoked int `json:"revoked"`
}

// AuditEntry is an operation that a caller executed or attempted.
type AuditEntry struct {
	At        time.Time `json:"at"`
	RequestID string    `json:"request_id,omitempty"`
	Subject   string    `json:"subject,omitempty" doc:"Who: the ID of a token, or the subject of a login or of a certificate."`
	Name      string    `json:"name,omitempty" doc:"Who, for people."`
	Kind      string    `json:"kind,omitempty" doc:"How they are known: token, session, certificate or local."`
	Remote    string    `json:"remote,omitempty" doc:"The address that it came from."`
	Operation string    `json:"operation" doc:"What was done: the operationId of the route, login or logout; with :intent, what was about to be done."`
	Tenant    string    `json:"tenant,omitempty"`
	Target    string    `json:"target,omitempty" doc:"What it was done to."`
	Detail    string    `json:"detail,omitempty" doc:"What was asked for, without payloads: JSON."`
	Status    int       `json:"status,omitempty" doc:"The HTTP status of the answer."`
	Error     string    `json:"error,omitempty" doc:"Why it failed."`
}

// AuditList is a page of the audit log.
type AuditList struct {
	Entries       []AuditEntry `json:"entries"`
	NextPageToken string       `json:"next_page_token,omitempty" doc:"What to ask for the next page with; not there on the last one. A page can have no entries and still have a next one."`
}

// Whoami is who makes a request.
type Whoami struct {
	Kind    string   `json:"kind" enum:"token,session,certificate,local" doc:"How they are known."`
	Subject string   `json:"subject" doc:"Who it is, the same each time: the ID of a token, or the subject of a login or of a certificate."`
	Name    string   `json:"name" doc:"Who it is, for people."`
	Role    string   `json:"role" enum:"read,operate,worker,admin"`
	Tenants []string `json:"tenants,omitempty" doc:"The tenants whose data they see and change; all of them, if this is not there."`
}
