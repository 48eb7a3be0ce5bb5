// Package seatbelt is tier C on macOS: a native process under a sandbox profile that is written for
// one run and applied by sandbox-exec.
//
// Words: a profile is the text, in Apple's sandbox language, that says what a run may do; everything it does not
// name is denied. A place is what a run has on disk besides its workspace: a private home, a private tmp, a
// directory for a copy of its program. A name says which paths are sealed, in the grammar of package seal; a mark
// is a path that was sealed before the run; a pin is a directory on the way to one, which must not be moved.
//
// Promises: a run reads the system's programs, its workspace, its place and what its plan mounts, and nothing else
// of the disk; it writes its workspace, home, tmp and the caches of its plan. Its only way out is TCP to the one
// port of loopback at which the guard's proxy answers clients with the run's token. It signals, and sees, only
// processes of its own. Sealed paths cannot be written, moved or made by name, and one that is made by moving a
// directory is removed before Wait returns. Whatever cannot be applied makes the start fail: nothing is left out
// silently. Every text that comes from outside is quoted, or refused.
//
// What does not hold here, and is missing from what Probe promises: macOS has no namespaces. A run has no network
// of its own, so a program that ignores proxies reaches nothing, and servers of its own cannot be reached. No mount
// shows a path elsewhere; only the private home replaces the room's. Memory is not limited. The tree of processes
// is followed by polling, many times a second; one that leaves its parents and its group between two polls is not
// found. The end of the daemon does not end a run: the next daemon does (Recover).
//
// UNPROVEN HERE: no part of this has run on macOS. The profile, the command line, the environment, the sealed names
// and the search for processes, which are text and data, are tested; the rest has only been compiled.
package seatbelt
