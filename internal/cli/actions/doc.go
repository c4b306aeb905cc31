// Package actions has the commands about actions and schedules.
package actions
