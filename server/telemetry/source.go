package telemetry

import "github.com/abidehq/abide/internal/meter"

// rates are the metrics that samples count, by name. Of a histogram it is the number of
// values that counts.
var rates = map[string]rate{
	meter.InstancesStarted.Name: {meter.InstancesStarted, always(func(s *Sample) *float64 { return &s.Started })},
	meter.InstancesEnded.Name: {meter.InstancesEnded, func(s *Sample, status string) *float64 {
		switch status {
		case "completed":
			return &s.Completed
		case "failed":
			return &s.Failed
		default:
			return &s.Cancelled
		}
	}},
	meter.TurnDuration.Name:     {meter.TurnDuration, always(func(s *Sample) *float64 { return &s.Turns })},
	meter.ActivityDuration.Name: {meter.ActivityDuration, always(func(s *Sample) *float64 { return &s.Activities })},
	meter.TimersFired.Name:      {meter.TimersFired, always(timersFired)},
	meter.InstanceLateness.Name: {meter.InstanceLateness, always(timersFired)},
	meter.ActionsEnded.Name: {meter.ActionsEnded, func(s *Sample, status string) *float64 {
		if status == "pending" {
			return nil // it will be run again
		}
		return &s.ActionsEnded
	}},
}

func timersFired(s *Sample) *float64 { return &s.TimersFired }

// lateness are the histograms of how late timers fire.
var lateness = map[string]bool{meter.TimerLateness.Name: true, meter.InstanceLateness.Name: true}
