// Package timers has the commands about tenant timers.
package timers
