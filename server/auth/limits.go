package auth

import "time"

// Limits of tokens, sessions and the audit log. Each is checked before anything is done,
// and the error names it.
const (
	// MaxName is the largest length of the name of a token, and of a tenant that it is for,
	// in bytes.
	MaxName = 256

	// MaxTenants is how many tenants a token can be for, unless it is for all.
	MaxTenants = 100

	// MaxServe is how many names of orchestrations and activities a token can be for, unless it is for
	// all.
	MaxServe = 100

	// MaxTokens is how many tokens there can be.
	MaxTokens = 10_000

	// MaxRate is the highest rate of requests that can be asked for, in requests per second.
	MaxRate = 1_000_000

	// Burst is how many requests can come at once, after a while without any, before a rate
	// that is lower holds them back.
	Burst = 20

	// MinAdminToken is the least length of [Config.AdminToken], in bytes.
	MinAdminToken = 16

	// MinAdminVariety is how many different characters [Config.AdminToken] has at least: one
	// with fewer is a word that is repeated, and can be guessed.
	MinAdminVariety = 8

	// MaxPage is the largest page of a list, and DefaultPage the one of a list that does not
	// say.
	MaxPage     = 1_000
	DefaultPage = 100

	// CacheLife is how long a process goes by what it knows of a token or a session. A token
	// that is revoked in another process is of no use after that.
	CacheLife = 3 * time.Second

	// UsedEvery is how exact [Token.UsedAt] is.
	UsedEvery = time.Hour

	// ExpiredTokenLife is how long a token is still listed that has expired.
	ExpiredTokenLife = 30 * 24 * time.Hour

	// SessionLife is how long a login is good for, whatever its owner does.
	SessionLife = 12 * time.Hour

	// LoginLife is how long a login at a provider may take.
	LoginLife = 10 * time.Minute

	// LoginBurst is how many logins can be tried from an address at once, and
	// LoginEvery how long each further try takes.
	LoginBurst = 20
	LoginEvery = 3 * time.Second

	// DefaultAuditRetention is how long the audit log goes back, and MinAuditRetention the
	// least that can be asked for.
	DefaultAuditRetention = 30 * 24 * time.Hour
	MinAuditRetention     = 24 * time.Hour

	// MaxAuditWaiting is how many entries of the audit log can wait to be written. With more,
	// what would be noted fails.
	MaxAuditWaiting = 10_000

	// MaxAuditField is how much is kept of the longer fields of an entry, in bytes.
	MaxAuditField = 1024
)

const (
	maxCached     = 10_000 // how many tokens, and sessions, a process knows at a time
	maxCredential = 4096   // the length of a credential that is looked at, in bytes
	maxForm       = 16 << 10
	maxNext       = 2048 // the length of the path to go on to after a login

	sweepEvery = time.Minute
	sweepBatch = 200       // how many records are removed in one commit
	tokenSweep = time.Hour // how often tokens are looked at that have expired

	auditLogSpan  = time.Hour // how much time one log covers at most
	auditLogCount = 4096      // how many entries a log has at most
	auditLogBytes = 1 << 20   // how long a log is before the next one is begun
	auditGroup    = 1000      // how many entries are written in one commit
	auditSteps    = 20        // how many logs are removed in one commit
	auditScan     = 20_000    // how many entries are looked at for a page
	auditOpen     = 50        // what reading another log counts for, in entries
)
