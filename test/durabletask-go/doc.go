// Package durabletaskgo runs the published client and worker of microsoft/durabletask-go against abide serve. It is a
// module of its own, so that Abide does not depend on that project.
package durabletaskgo
