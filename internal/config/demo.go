package config

import "time"

// DemoStore is the default folder of the demo: not among
// what is real.
const DemoStore = "./abide-demo"

// fromDemo is where values come from that the demo sets.
const fromDemo = "default of the demo"

// settle sets what the demo has otherwise, where nobody has said anything. Things are kept
// for a short time only in a store that is the demo's own.
func (l *Loaded) settle() {
	if !l.Demo || l.where["store"] != fromDefault {
		return
	}
	l.Store, l.where["store"] = NewPlace(DemoStore), fromDemo
	for key, field := range map[string]*time.Duration{
		"instances.retention": &l.Instances.Retention,
		"timers.retention":    &l.Timers.Retention,
		"actions.retention":   &l.Actions.Retention,
	} {
		if l.where[key] == fromDefault {
			*field, l.where[key] = demoRetention, fromDemo
		}
	}
}

// demoRetention is how long ended things are kept in the store of the demo.
const demoRetention = 15 * time.Minute
