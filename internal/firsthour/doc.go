// Package firsthour plays what a newcomer does in the first hour and what an operator does at three in
// the morning, and checks what they get: an answer, a refusal that says what to do, or the thing done.
//
// The package has tests only. They build the program abide, and the service of examples/saas with
// additions of testdata/lab: the mistakes that newcomers make. TestFirstHour plays the frictions of a
// newcomer through Go, HTTP and the command line, TestOnCall the tasks of an operator on the page, in a
// real browser. Programs run as processes of their own, on the embedded store and on PostgreSQL.
//
// # Comparing trees
//
// ABIDE_TREE names another checkout of this repository to play the script on, such as one of an older
// commit:
//
//	git worktree add /tmp/before 7f68821
//	ABIDE_TREE=/tmp/before go test -count=1 -v ./internal/firsthour
//
// A tree without examples/saas gets that of this tree, with testdata/before in place of what was
// written for an API that it does not have. Nothing is written into the tree: the files are added by
// an overlay of the build. Frictions that the tree has fail there. docs/first-hour.md has the results.
package firsthour
