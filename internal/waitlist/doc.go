// Package waitlist turns "nothing is ready" into a blocked call. It is the one place in
// which a store keeps the Claim calls that wait for a ready key, and the Await calls that
// wait for a record to change.
//
// A store has a non-blocking attempt: lease what is ready now, or read the record as it is
// now. A call whose attempt finds nothing joins a list here. The store then reports events
// (this topic has become ready, this record has changed, this time has come), and the list
// decides on whose behalf the attempt is repeated. The list itself performs no I/O, starts
// no goroutine and holds no lock of its own: it is a state machine inside the store, guarded
// by the store's mutex. An attempt may run under that mutex, as in memstore and pebblestore,
// or outside of it, as in redisstore, where it is a round trip to a server.
//
// # Terms
//
//	waiter        one Claim call
//	subscription  the waiters with the same queue, routes and tenants. They are
//	              interchangeable: what one of them does not find, no other finds either
//	topic         a source of ready keys, usually one route of one queue. The store owns
//	              it; a subscription is attached to one or more topics
//	attempt       one run of the store's non-blocking claim on behalf of one waiter
//	reader        one Await call
//
// # States of a waiter
//
//	       Next, Reserve, Begin
//	idle ------------------------> busy ----- Done: found, or error -----> finished
//	 ^  |                         |  |  |                                     ^
//	 |  |                         |  |  +--- abandoned ---> finished, busy ---+
//	 |  |   Done: nothing found,  |  |                      (Done reports that the
//	 +--|------- Cancel ----------+  |                      result has no caller)
//	    |                            |
//	    +--- Wait over and an attempt since then found nothing; context ended; closed
//
// A waiter is finished exactly once: then its channel is closed, and its result and error
// are not changed any more.
//
// # Invariants
//
//  1. A waiter is idle only if an attempt on behalf of its subscription has found nothing
//     since the topics of that subscription last became ready, or if the subscription is
//     marked. So a store that calls Serve, or starts what Next returns, after every event
//     loses no wake-up. An event during an attempt marks the subscription, because the
//     answer of that attempt may be older than the event.
//  2. One event leads to one attempt for each subscription, not for each waiter. Only an
//     attempt that found something and says that there is more leads to the next one. An
//     attempt that found nothing ends the chain. So ten thousand waiters cost as much as one.
//  3. Waiters are served in the order in which they came: Next returns the first idle
//     waiter of all marked subscriptions. A waiter whose attempt found nothing gets its
//     former place back.
//  4. A wait that is over ends with "nothing" only after an attempt that began after its
//     end: nothing means that nothing was ready, not that a race was lost.
//  5. idle + busy waiters of a subscription > 0. The last one to leave detaches the
//     subscription from its topics, so that the list costs nothing for what is not waited
//     for.
//
// # Who wakes whom
//
//	commit, release, hint ---> Topic.Ready -+
//	alarm (next due time)  ---> Topic.Ready -+-> subscription marked -> Next -> attempt -> Done
//	Wait over ---------------> list timer  -+        ^                                    |
//	                                                 +---- found, and there may be more --+
//
// # Locks
//
// All methods need the store's mutex, except Wait, which must be called without it: it
// locks the mutex given to New when a wait is over or its context has ended. The serve
// function given to New is called with the mutex held; it may unlock it for a while, since
// the list is consistent whenever it calls out.
//
// # What was tried instead
//
// Every store had a list of its own. Three of them went through all waiters of a queue
// after each commit, so that the cost of a commit grew with the number of idle workers; the
// fourth grouped waiters by routes, which is what became the subscription. A condition
// variable, or a channel that is closed on every commit, is simpler, and wakes every waiter
// for every message. Leaving the attempt to the goroutine of the woken call needs a second
// lock of the mutex for each claim, and a context switch before the key is leased; an
// attempt on the waiter's behalf needs neither.
//
// internal/rows has its own queues of waiters: there a group of commits leases what it puts
// to waiters before it is written, and what is known about due times is shared between
// subscriptions that overlap.
package waitlist
