package config

import "time"

// Kinds of sinks.
const (
	SinkWebhook = "webhook"
	SinkNATS    = "nats"
	SinkRedis   = "redis"
	SinkLog     = "log"
)

// Sink is where the events of timers go. Which keys count depends on the kind.
type Sink struct {
	Name    string   `key:"name" required:"true"`
	Kind    string   `key:"kind" required:"true" allowed:"webhook nats redis log"`
	Tenants []string `key:"tenants"`

	// URL is that of the receiver, or of NATS.
	URL Place `key:"url" for:"webhook! nats!"`

	Secrets        []Secret          `key:"secrets" for:"webhook"`
	Mode           string            `key:"mode" allowed:"structured binary" for:"webhook"`
	Source         string            `key:"source" for:"webhook"`
	Headers        map[string]Secret `key:"headers" for:"webhook"`
	Timeout        time.Duration     `key:"timeout" min:"1ms" max:"10m" for:"webhook"`
	Concurrency    int               `key:"concurrency" min:"1" max:"256" for:"webhook"`
	AllowHTTP      bool              `key:"allow_http" for:"webhook"`
	AllowPrivate   bool              `key:"allow_private" for:"webhook"`
	AllowedNetwork []string          `key:"allowed_networks" is:"network" for:"webhook"`

	Prefix string        `key:"prefix" for:"nats"`
	Stream string        `key:"stream" for:"nats redis"`
	Window time.Duration `key:"window" min:"1ms" for:"nats redis"`

	Addresses []string `key:"addresses" is:"address" for:"redis!"`
	Username  string   `key:"username" for:"redis"`
	Password  Secret   `key:"password" for:"redis"`
	TLS       bool     `key:"tls" for:"redis"`
	MaxLen    int      `key:"max_len" min:"1" for:"redis"`

	Attempts int           `key:"attempts" min:"1" max:"10000"`
	First    time.Duration `key:"first_retry" min:"1ms" max:"168h"`
	Cap      time.Duration `key:"longest_retry" min:"1ms" max:"168h"`
}

// Kinds of targets.
const (
	TargetCommand       = "command"
	TargetHTTP          = "http"
	TargetOrchestration = "orchestration"
	TargetEvent         = "event"
	TargetTimer         = "timer"
)

// OnlyHooks is the value of a target's key only.
const OnlyHooks = "hooks"

// Target is what does an action. Which keys count depends on the kind.
type Target struct {
	Name string `key:"name" required:"true"`
	Kind string `key:"kind" required:"true" allowed:"command http orchestration event timer"`

	// Tenants are those whose actions it does. If there are none, they are those of the hooks
	// that use it, or all if no hook does. Only is hooks if nothing but webhooks reaches it.
	Tenants []string `key:"tenants"`
	Only    string   `key:"only" allowed:"hooks"`

	Timeout    time.Duration `key:"timeout" min:"1ms"`
	Attempts   int           `key:"attempts" min:"1" max:"1000"`
	Backoff    time.Duration `key:"backoff" min:"1ms" max:"1h"`
	Idempotent bool          `key:"idempotent"`

	// MaxInFlight is how many of its actions run at the same time; 0 means actions.slots.
	MaxInFlight int `key:"max_in_flight" min:"1"`

	Command []string          `key:"command" for:"command!"`
	Dir     string            `key:"dir" for:"command"`
	Inherit []string          `key:"inherit" for:"command"`
	Env     map[string]Secret `key:"env" for:"command"`
	Grace   time.Duration     `key:"grace" min:"1ms" max:"10m" for:"command"`

	Method         string            `key:"method" allowed:"GET POST PUT PATCH DELETE" for:"http"`
	URL            Place             `key:"url" for:"http!"`
	Headers        map[string]Secret `key:"headers" for:"http"`
	AllowHTTP      bool              `key:"allow_http" for:"http"`
	AllowPrivate   bool              `key:"allow_private" for:"http"`
	AllowedNetwork []string          `key:"allowed_networks" is:"network" for:"http"`

	Orchestration string `key:"orchestration" for:"orchestration!"`
	Version       string `key:"version" for:"orchestration"`
	ID            string `key:"id" for:"orchestration"`

	// Under are limits of the instances, and Priority is their place among what waits for these.
	Under    []Under `key:"under" for:"orchestration"`
	Priority int     `key:"priority" min:"-100" max:"100" for:"orchestration"`

	Event    string `key:"event" for:"event!"`
	Instance string `key:"instance" for:"event!"`
	Whole    bool   `key:"whole" for:"orchestration event"`

	TimerKey string        `key:"key" for:"timer"`
	Delay    time.Duration `key:"delay" min:"0s" for:"timer"`
}

// Under is a limit under which a target starts instances. It has a concurrency, a rate, or both. With a key
// each value of that has a limit of its own.
type Under struct {
	Limit       string        `key:"limit" required:"true"`
	Concurrency int           `key:"concurrency" min:"1" max:"10000"`
	Rate        int           `key:"rate" min:"1" max:"1000000"`
	Per         time.Duration `key:"per" min:"1ms" max:"8784h"`
	Burst       int           `key:"burst" min:"1" max:"1000000"`
	Key         string        `key:"key"`
}

// Ways to verify webhooks.
const (
	VerifyNone     = "none"
	VerifyStandard = "standard"
	VerifyGitHub   = "github"
	VerifyStripe   = "stripe"
	VerifySlack    = "slack"
	VerifyHMAC     = "hmac"
)

// Hook is a place that webhooks are sent to: /hooks/{slug}.
type Hook struct {
	Slug   string `key:"slug" required:"true"`
	Tenant string `key:"tenant" default:"default"`
	Target string `key:"target" required:"true"`

	// External says that another process on the same store serves the target.
	External bool `key:"external"`

	Verify  Verify   `key:"verify"`
	MaxBody Size     `key:"max_body" min:"1" max:"2MiB"`
	Rate    float64  `key:"rate" min:"0"`
	Burst   int      `key:"burst" min:"0"`
	Headers []string `key:"headers"`

	// Events are the types of events that become actions; empty means all.
	Events []string `key:"events"`
}

// Verify says how senders prove who they are. Which keys count depends on the kind.
type Verify struct {
	Kind      string        `key:"kind" required:"true" allowed:"none standard github stripe slack hmac"`
	Secrets   []Secret      `key:"secrets" for:"standard! github! stripe! slack! hmac!"`
	Tolerance time.Duration `key:"tolerance" min:"1s" max:"24h" for:"standard stripe slack hmac"`

	Header          string `key:"header" for:"hmac!"`
	Prefix          string `key:"prefix" for:"hmac"`
	Algorithm       string `key:"algorithm" allowed:"sha256 sha512 sha1" for:"hmac"`
	Encoding        string `key:"encoding" allowed:"hex base64" for:"hmac"`
	TimestampHeader string `key:"timestamp_header" for:"hmac"`
	Template        string `key:"template" for:"hmac"`
	DeliveryHeader  string `key:"delivery_header" for:"hmac"`
}
