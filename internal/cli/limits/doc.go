// Package limits has the commands about limits: how many activities and instances may be under way, and how many may begin in
// a period.
package limits
