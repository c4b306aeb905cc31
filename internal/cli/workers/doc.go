// Package workers has the commands about processes and the orchestrations that they serve.
package workers
