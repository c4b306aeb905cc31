package api

// Reason is why something is done to an instance, an action or a schedule.
type Reason struct {
	Reason string `json:"reason" doc:"Why."`
}
