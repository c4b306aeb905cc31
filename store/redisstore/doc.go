// Package redisstore is the store on a Redis server, or on one that speaks its language,
// such as Valkey. It is opened as redis://host:port/db, and through TLS as rediss://.
//
// Every call is one script, which the server runs alone and as a whole: the script of a
// commit checks everything before it changes anything, because a script that fails is not
// undone. Commits of a process that come while others are under way gather, and are one
// script, which does one after another and says of each what became of it: see call. The server writes what a script did to its append-only file as one transaction,
// and answers after it has synced the file, if it is set up so; Open refuses one that is
// not, unless it is told otherwise. docs/redis.md says what is lost in which failure.
//
// # What is stored
//
// The names of all that is stored begin with the prefix in braces, {abide}, so that a
// cluster has it in one slot. A letter follows, then names, each with its length before it
// unless it is the last. A lane is a queue and a route. Numbers are big-endian.
//
//	meta            hash: format, owner and owned (see Exclude), state: the latest time, the
//	                last message's number, the turn, how often records changed
//	p               sorted set: who has the store open, by when they were last heard of
//	k + key         string: the head
//	n + key         hash: number, attempts and size of the body of each of several messages,
//	                by its ID
//	o + key         sorted set: number and ID of several messages, by when they are visible
//	e + key         list: the entries of its log
//	b               hash: put at, time to live and body of each of several messages, by its
//	                number
//	l, x            sorted sets: leases by their end; messages of keys without a route by
//	                when they expire
//	z + lane, tenant   sorted set: the keys to claim, by their first message
//	t + lane        sorted set: tenants, by when they have something to claim
//	y + lane        sorted set: tenants that have something now, by turn
//	w + queue       sorted set: routes, by when they have something to claim
//	u + queue       sorted set: tenants that were served last, by turn
//	v + lane        sorted set: all messages of a lane, for Stats
//	lanes           set: the lanes that have messages
//	r + record      string: version, time, status, name, tags and body
//	j + kind, status           sorted set: records by time
//	i + kind, tenant, status   sorted set: the same, of one tenant
//	s + kind        set: the statuses that records have
//
// A head is the route; length, first entry and tag of the log; number of messages; place in
// the lane; attempts of the single message, and that; and while there is a lease its token,
// its end and the messages that it is of, which are empty for the single one: see packHead. Most keys have one message at most. If that is small, it is in the head: when it is
// visible, its number, put at, time to live, ID and body. It becomes one of several when
// another comes, or when it is to move. What a server does for a script costs by the
// command, so heads are strings: one command reads those of all keys of a group, another
// writes them, and each sorted set is added to once and removed from once. What a commit
// puts for somebody who waits in the same process is leased before it gets to a lane.
//
// A key that is leased, and one without a route, is in no lane, so a claim steps over
// nothing: it takes the tenant whose turn it is and the first key of its lane. The times in
// t and w may be too early, which costs a look, and are never too late.
//
// # Waiting
//
// A Claim that finds nothing learns when there will be something, and waits until then or
// until it is told that there is something before. Commits of the same process tell it, or
// claim for it in the same script: see want. While commits are under way a Claim does not
// look by itself, but goes with the next ones: see ride. An Await is told by commits of the
// same process what the record is. Those of other processes publish a hint. Hints
// may be lost, so whoever waits looks every few seconds too: see group.
package redisstore
