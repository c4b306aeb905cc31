package history

import (
	"encoding/json"
	"fmt"
	"time"

	"google.golang.org/protobuf/encoding/protowire"
)

// Limit is a limit under which an activity or an instance runs, with the rule that its code declares. The rule
// that counts is that of the limit's record, which an operator may have changed.
type Limit struct {
	// Name is the name of the limit. If it is Keyed, each value of Key has a limit of its own.
	Name  string
	Keyed bool
	Key   string

	// Concurrency is how many may be under way at the same time, 0 for any number.
	Concurrency int32

	// Rate is how many may begin in each Per, 0 for any number; Burst of them may begin at once.
	Rate  int32
	Per   time.Duration
	Burst int32
}

// limitJSON is a [Limit] in JSON: the period is written as people write it.
type limitJSON struct {
	Name        string `json:"name"`
	Keyed       bool   `json:"keyed,omitempty"`
	Key         string `json:"key,omitempty"`
	Concurrency int32  `json:"concurrency,omitempty"`
	Rate        int32  `json:"rate,omitempty"`
	Per         string `json:"per,omitempty"`
	Burst       int32  `json:"burst,omitempty"`
}

// MarshalJSON writes the period as 1m30s.
func (l Limit) MarshalJSON() ([]byte, error) {
	out := limitJSON{Name: l.Name, Keyed: l.Keyed, Key: l.Key, Concurrency: l.Concurrency, Rate: l.Rate, Burst: l.Burst}
	if l.Per != 0 {
		out.Per = l.Per.String()
	}
	return json.Marshal(out)
}

// UnmarshalJSON is the inverse of MarshalJSON.
func (l *Limit) UnmarshalJSON(data []byte) error {
	var in limitJSON
	if err := json.Unmarshal(data, &in); err != nil {
		return err
	}
	*l = Limit{Name: in.Name, Keyed: in.Keyed, Key: in.Key, Concurrency: in.Concurrency, Rate: in.Rate, Burst: in.Burst}
	if in.Per == "" {
		return nil
	}
	per, err := time.ParseDuration(in.Per)
	if err != nil {
		return fmt.Errorf("limit.per: %w", err)
	}
	l.Per = per
	return nil
}

func appendLimits(b []byte, field protowire.Number, limits []Limit) []byte {
	for i := range limits {
		b = appendMessage(b, field, &limits[i], appendLimit)
	}
	return b
}

func appendLimit(b []byte, l *Limit) []byte {
	b = appendString(b, 1, l.Name)
	b = appendInt(b, 2, int64(protowire.EncodeBool(l.Keyed)))
	b = appendString(b, 3, l.Key)
	b = appendInt(b, 4, int64(l.Concurrency))
	b = appendInt(b, 5, int64(l.Rate))
	b = appendMillis(b, 6, l.Per)
	return appendInt(b, 7, int64(l.Burst))
}

func parseLimit(f *field) (l Limit) {
	f.message(func(f *field) {
		switch f.number {
		case 1:
			l.Name = string(f.bytes())
		case 2:
			l.Keyed = f.int64() != 0
		case 3:
			l.Key = string(f.bytes())
		case 4:
			l.Concurrency = f.int32()
		case 5:
			l.Rate = f.int32()
		case 6:
			l.Per = f.millis()
		case 7:
			l.Burst = f.int32()
		}
	})
	return l
}
