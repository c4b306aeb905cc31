// Package builds keeps which builds of programs pin instances, and what operators have set for them: the
// share of new instances that a build gets, and that a build is drained. All of it is one record of the store,
// so that every engine learns of a change by waiting for that record.
package builds
