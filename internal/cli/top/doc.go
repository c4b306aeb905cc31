// Package top has the command that shows a server or store on the whole terminal, as it
// changes.
package top
