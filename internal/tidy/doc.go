// Package tidy is the architecture and the style of the project as a test: what a
// reviewer would have to say again and again, said by a machine.
//
// Its rules are in files of their own, each beside the table of what it allows:
//
//   - Imports go down: which package may import which is the table layers.
//   - The wall clock is read through internal/base, so that tests own the time;
//     who may read it directly is the table realTime, with a reason for each.
//   - Randomness comes from a source that is passed in, so that a seed repeats it.
//   - What is exported has a comment, and so has every package of some size.
//   - Files stay short enough to be read.
//   - Words that stand for two things, or for work that was put off, are not used.
//   - The programs in the README are the ones that are compiled.
//
// Each rule has a test of its own with code that breaks it, so that a rule which
// no longer finds anything is found out.
package tidy
