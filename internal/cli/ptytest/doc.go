// Package ptytest puts a program at a terminal of its own and plays the person before it, for tests. Every wait has
// an end: what does not come in time fails the test with all that was on the screen.
package ptytest
