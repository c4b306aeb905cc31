// Package connect connects commands to what they work on: a server, by its URL or socket, or a
// store that is opened in this process. [Home] has the flags that say which; [Backend] is what
// both of them offer.
package connect
