// Package execute has the commands that propose calls and follow them: exec, check, tools call,
// agent run, run and runs.
//
// An Asker follows one call (client.Follow) and asks its questions at the terminal; an execution is
// a command on its way through the gate, with its input, output and signals; a tape printer shows a
// run. Each has an Asker and an Invocation, and none is built into another.
//
// Promises: only a word that was typed after the question was on the screen answers it; a program's
// output waits until no question is on the screen, and cannot look like a line of ours; a terminal
// that was given to a command is given back however it ends.
package execute
