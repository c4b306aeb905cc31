// Package operation does one thing to many instances: all that match a filter are
// cancelled, terminated, suspended, resumed, restarted or deleted.
//
// An [Operation] is a record, and a message that says that there is more to do. Both are put
// in one commit, so that an operation which was started is carried out by any
// process that runs. It goes through the instances in the order in which they were started, up to
// those that were started when the operation was, a page at a time. Each page is a claim of
// its own: what it has done is counted, the place where it ends is noted and the message is
// put back behind those of other operations, in one commit. So a large operation does
// not delay others, and after a crash the next process continues with the page that was
// under way.
//
// All that is done to an instance can be done twice. An instance whose status does not allow
// it is skipped and counted, so after a crash some may count as skipped that were done, and
// some that are deleted may not be counted at all. None is restarted twice: only those are
// that had ended when the operation was started.
//
// An operation that has ended is kept for a week ([Retention]), and then removed.
package operation
