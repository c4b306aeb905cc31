// Package quarantine has the commands about messages in quarantine.
package quarantine
