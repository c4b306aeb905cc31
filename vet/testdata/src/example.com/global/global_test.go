package global

import "testing"

// What a test does to a variable is not done in production.
func TestFaked(t *testing.T) { faked = 2 }
