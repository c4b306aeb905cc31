// Package storage measures a store as the engine uses it. There are two workloads:
//
//   - commit: claimers claim instances, and committers commit a turn for each: finish the
//     claim, append three entries, put the record, put the message that makes the next turn.
//     commits_per_s covers claim and commit; latency_… is that of Commit alone, claim_… that
//     of Claim calls that returned something without waiting.
//   - claim: one message at a time is put and claimed, in a queue that may hold millions of
//     messages that are not visible yet (pending). With consumed it is measured twice, the
//     first time (…_before) before so many messages went through the queue. claim_misses
//     counts claims that returned nothing although a message was visible.
//
// Everything has names that follow from their number. So a store that was loaded once can be
// measured many times, and loading it again is harmless.
//
// With --raw the same turns also run on the engine below the store, in turns with it, which
// shows what the store adds (raw_…). A cpu_ratio of 1.5 means that the store takes half as
// much CPU again as its engine, a throughput_ratio of 0.8 that it does four fifths as many
// commits; medians are over the rounds. The machine may be noisy, so the ratios say more
// than the absolute figures.
package storage
