// Package execute is the commands that propose calls and follow them: exec, check,
// tools call, agent run, run and runs.
//
// An Asker follows one call (client.Follow) and puts its questions to the person at the
// terminal; an execution is a command on its way through the gate, with what it reads,
// prints and is signalled; a tape tells a run. Each has an Asker and an Invocation, and
// none is built into another.
//
// Promises: nothing answers a question but a word that was typed after the question was on
// the screen; what a program prints waits until no question stands there, and cannot pass
// for a line of ours; a terminal that was given to a command is given back however it ends.
package execute
