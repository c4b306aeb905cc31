package config

import _ "embed" // for the example

//go:embed example.yaml
var example string

// Example returns a file with all keys, and what they mean. All of them are comments, so
// that the file, as it is, says nothing.
func Example() string { return example }
