// Package target has the targets of actions: what can be done when an action's time has
// come.
//
//   - [Command] runs a program.
//   - [HTTP] sends a request.
//   - [Start] starts an instance of an orchestration.
//   - [Raise] raises an event for an instance.
//   - [Timer] schedules a timer of the action's tenant.
//
// Each is made from configuration, by whoever runs the process. What comes with an action
// fills in placeholders and is the input, and cannot say what is run or who is called.
//
// # Templates
//
// Arguments, URLs, IDs and keys are templates: {slug}, {id}, {tenant} and {attempt} stand
// for those of the action, and {{ and }} for braces. A placeholder that does not exist is
// an error when the target is made.
//
// # Input
//
// The input of a target is the body of the webhook, byte for byte as it was received, or
// the payload of the action, if it was scheduled. Where JSON is needed, a body that is not
// JSON fails the action, and no input at all is null.
package target
