// Package entities has the commands about entities.
package entities
