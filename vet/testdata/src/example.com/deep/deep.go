// Package deep is below package lib.
package deep

import "time"

// Second reads the clock.
func Second() int { return time.Now().Second() } // want Second:`clock through deep.Second`
