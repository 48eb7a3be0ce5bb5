// Package bubble is tier C on Linux: a native process in a room of its own, with the kernel's filters on top.
//
// Words: bubblewrap builds a room, that is namespaces and a file system of what a run may see, and
// becomes our cell in it as process 1. The cell finishes the room (seals, network, doors) and
// waits. A keeper is such a cell; one that waits is warm. A want is everything that decides what a
// room is like; a warm cell serves any job of the same want, once. A record is the stored state of
// a workspace before a run, so that what the run made can be swept even after the daemon died.
//
// Promises: the run sees the system's programs read-only, its workspace, what its plan mounts, and nothing else of
// the host; its network leads to its doors and nowhere else; it has no capabilities, in any namespace. It cannot
// change sealed paths, and those that it makes are removed before Wait returns, or Wait returns an error. Its whole
// tree ends with process 1, whatever happens to the daemon, to bubblewrap or to the cell. Whatever cannot be
// applied makes the start fail with the reason and the remedy: there is no weaker room.
//
// What an attacker can still do: use up the workspace's disk; see the kernel's version and the
// machine's load and processors; attack the kernel through the calls that the filter lets pass,
// among them the internet protocols, which tier B refuses.
//
// The package does not choose what a room shows or where its doors lead: the plan and the guard do.
//
// Its words are those of docs/words.md.
package bubble
