// Package tokens has the commands about access: tokens, sessions and the audit log.
package tokens
