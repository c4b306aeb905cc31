package config

import "time"

// Config is all that a server can be told. The tags say what each key is called, what it
// is by default, and what is allowed.
type Config struct {
	Store    Place         `key:"store" default:"./abide-data"`
	Addr     string        `key:"addr" default:"127.0.0.1:7171" is:"address"`
	Workers  string        `key:"worker_addr" is:"address or off"`
	TaskHubs string        `key:"durabletask_addr" is:"address"`
	Admin    string        `key:"admin_addr" is:"address"`
	Socket   bool          `key:"socket" default:"true"`
	Prefix   string        `key:"prefix"`
	URL      string        `key:"url" is:"url"`
	Hosts    []string      `key:"hosts"`
	Page     bool          `key:"page" default:"true"`
	Insecure bool          `key:"insecure"`
	Demo     bool          `key:"demo"`
	Drain    time.Duration `key:"drain" default:"15s" min:"1s" max:"1h"`
	Linger   time.Duration `key:"linger" default:"0s" min:"0s" max:"10m"`
	Worker   string        `key:"worker"`

	MaxConnections int `key:"max_connections" default:"20000" min:"1" max:"1000000"`

	Log       Log       `key:"log"`
	TLS       TLS       `key:"tls"`
	Auth      Auth      `key:"auth"`
	Instances Instances `key:"instances"`
	Timers    Timers    `key:"timers"`
	Actions   Actions   `key:"actions"`
	Telemetry Telemetry `key:"telemetry"`

	Sinks   []Sink   `key:"sinks"`
	Targets []Target `key:"targets"`
	Hooks   []Hook   `key:"hooks"`
}

// Log says how to log, to standard error.
type Log struct {
	Level  string `key:"level" default:"info" allowed:"debug info warn error"`
	Format string `key:"format" default:"text" allowed:"text json"`
}

// TLS is for those who connect. The files are read again on SIGHUP.
type TLS struct {
	Cert string `key:"cert"`
	Key  string `key:"key"`

	// ClientCA are the authorities whose certificates authenticate clients. With
	// RequireClient all clients need one.
	ClientCA      string `key:"client_ca"`
	RequireClient bool   `key:"require_client"`
}

// Auth is how clients are authenticated.
type Auth struct {
	// AdminToken opens everything. It is how the first other token is made.
	AdminToken Secret `key:"admin_token"`

	// Required has everybody prove who they are, on loopback too. Without it, a server
	// that listens on loopback accepts every client on the same machine, unless there is an
	// admin token, a login or a rule for certificates.
	Required bool `key:"required"`

	// Rate is how many requests a second each token, person or certificate may make; 0 is
	// any number.
	Rate float64 `key:"rate" default:"0" min:"0" max:"1000000"`

	// Proxies are networks of proxies, whose word on who called them is believed.
	Proxies []string `key:"proxies" is:"network"`

	OIDC         OIDC          `key:"oidc"`
	Certificates []Certificate `key:"certificates"`
	Audit        Audit         `key:"audit"`
}

// OIDC is how people log in to the page.
type OIDC struct {
	Name         string   `key:"name"`
	Issuer       string   `key:"issuer" is:"url"`
	ClientID     string   `key:"client_id"`
	ClientSecret Secret   `key:"client_secret"`
	Scopes       []string `key:"scopes" default:"profile,email"`

	// RoleClaim is the claim that tells the role, and Roles which of its values stand for
	// which.
	RoleClaim string              `key:"role_claim"`
	Roles     map[string][]string `key:"roles"`

	// TenantClaim is the claim that tells the tenants: everybody has all if it is empty. Its
	// values are tenants, or stand for those in Tenants.
	TenantClaim string              `key:"tenant_claim"`
	Tenants     map[string][]string `key:"tenants"`
}

// Certificate is the role of clients with a certificate. A * stands for any text.
type Certificate struct {
	Name       string   `key:"name"`
	CommonName string   `key:"common_name"`
	DNS        string   `key:"dns"`
	URI        string   `key:"uri"`
	Email      string   `key:"email"`
	Role       string   `key:"role" required:"true" allowed:"read operate worker admin"`
	Tenants    []string `key:"tenants"`
	Serve      []string `key:"serve"`
}

// Audit is the log of calls that change something.
type Audit struct {
	Retention time.Duration `key:"retention" default:"30d" min:"24h" forever:"true"`

	// Required refuses changes that cannot be noted: what is about to be done is noted before
	// it is done.
	Required bool `key:"required"`
}

// Instances are those of orchestrations.
type Instances struct {
	Retention     time.Duration `key:"retention" default:"7d" min:"1s" forever:"true"`
	MaxTurns      int           `key:"max_turns" default:"256" min:"1" max:"100000"`
	MaxActivities int           `key:"max_activities" default:"256" min:"1" max:"100000"`

	// Quota is how many open instances a tenant may have, and UnservedQuota how many
	// orchestrations it may start that no worker serves; 0 is any number.
	Quota         int `key:"quota" default:"0" min:"0" max:"99999999"`
	UnservedQuota int `key:"unserved_quota" default:"1000" min:"0"`

	// WorkerQuota is how many workers over the network may be connected that are limited to a tenant; 0 is any number.
	WorkerQuota int `key:"worker_quota" default:"1000" min:"0" max:"100000"`
}

// Timers are those of tenants.
type Timers struct {
	Retention  time.Duration  `key:"retention" default:"7d" min:"1m" forever:"true"`
	Quota      int            `key:"quota" default:"0" min:"0"`
	Quotas     map[string]int `key:"quotas" min:"0"`
	MaxPayload Size           `key:"max_payload" default:"64KiB" min:"1" max:"512KiB"`
	Commands   Commands       `key:"commands"`
}

// Commands come from NATS, and schedule and cancel timers.
type Commands struct {
	URL         Place  `key:"url"`
	Prefix      string `key:"prefix" default:"abide"`
	Stream      string `key:"stream"`
	Consumer    string `key:"consumer" default:"abide"`
	Concurrency int    `key:"concurrency" default:"32" min:"1" max:"10000"`
}

// Actions are what the tick loop does.
type Actions struct {
	TickRate  time.Duration `key:"tick_rate" default:"1s" min:"10ms" max:"24h"`
	Slots     int           `key:"slots" default:"16" min:"1" max:"100000"`
	Retention time.Duration `key:"retention" default:"7d" min:"1s" forever:"true"`
	Output    Size          `key:"output" default:"16KiB" min:"0" max:"1MiB"`
}

// Telemetry says where metrics and traces go, besides /metrics.
type Telemetry struct {
	Service    string            `key:"service" default:"abide"`
	Attributes map[string]string `key:"attributes"`
	OTLP       OTLP              `key:"otlp"`
}

// OTLP is a collector of OpenTelemetry.
type OTLP struct {
	Endpoint   string            `key:"endpoint" is:"url"`
	Headers    map[string]Secret `key:"headers"`
	Metrics    bool              `key:"metrics" default:"true"`
	Interval   time.Duration     `key:"interval" default:"1m" min:"1s" max:"1h"`
	TraceRatio float64           `key:"trace_ratio" default:"1" min:"0" max:"1"`
}
