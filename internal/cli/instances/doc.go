// Package instances has the commands about instances, their history, and the operations that
// change many of them.
package instances
