// Package child ends programs that the command started, with everything that they started in turn.
//
// It knows process groups where a system has them, and nothing of what the programs are for.
package child
