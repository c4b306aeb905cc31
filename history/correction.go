package history

// Corrections are the payloads of a history that were corrected, see [PayloadCorrected]. Note
// all events of the history, then pass each of them through Apply before it is replayed.
type Corrections map[int32]*Event

// Note adds a correction. It ignores events of other kinds, and corrections of messages: the
// event that such a message brings is in history with its corrected payload.
func (c *Corrections) Note(e *Event) {
	if e.Kind != PayloadCorrected || e.Ref == 0 {
		return
	}
	if *c == nil {
		*c = Corrections{}
	}
	(*c)[e.Ref] = e
}

// Apply gives an event its corrected payload, or marks it as discarded. Of several corrections
// of an event the last one counts.
func (c Corrections) Apply(e *Event) {
	fix := c[e.ID]
	if fix == nil {
		return
	}
	e.Data, e.Discarded = fix.Data, fix.Discarded
}
