// Package bare starts programs of ours in cells of tier B that have nothing at all: no path of the file system, no
// network, no variable, no other user's rights. A program has two pipes to the daemon, and a sealed image whose digest was
// stamped into the daemon; what it writes to stderr is logged.
//
// The runtime of skills is such a program: a hole in it is a hole in a process that can do nothing. What it needs beyond
// what tier B gives to every program is nothing: memory that can be executed, threads and signals are allowed there.
//
// Its words are those of docs/words.md.
package bare

import "log/slog"

// Config is what a Driver needs.
type Config struct {
	Cell, Digest  string // palyra-cell and the SHA-256 that it must have, in hex
	Cgroup        string // auto, off, or a directory; empty is auto
	StateID, Kind string // of the daemon's state; which of its programs this is
	Name          string // of the program, for people
	Program       string // where it is
	ProgramDigest string // the SHA-256 that it must have, in hex; empty: it was not built
	Remedy        string // where it was not built
	Log           *slog.Logger
}
