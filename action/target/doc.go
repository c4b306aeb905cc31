// Package target provides targets of actions.
//
//   - [Command] runs a program.
//   - [HTTP] sends a request.
//   - [Start] starts an instance of an orchestration.
//   - [Raise] raises an event for an instance.
//   - [Timer] schedules a timer of the action's tenant.
//
// Targets are configured by the operator of the process. An action supplies the values of
// placeholders and the input; it cannot choose what is run or which address is called.
//
// # Templates
//
// Arguments, URLs, IDs and keys are templates: {slug}, {id}, {tenant} and {attempt} stand
// for those of the action, {date} and {time} for the time that it was planned for, in UTC
// (2026-11-15 and 2026-11-15T02:30:00Z), and {{ and }} for braces. A placeholder that does not exist is
// an error when the target is made.
//
// # Input
//
// The input of a target is the body of the webhook, byte for byte as it was received, or
// the payload of the action, if it was scheduled. Where JSON is needed, a body that is not
// JSON fails the action, and no input at all is null.
package target
