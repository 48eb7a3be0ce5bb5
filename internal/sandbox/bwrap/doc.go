// Package bwrap finds the host's bubblewrap and tells it which room to build: its namespaces and
// the host's files in it. Tier C on Linux, in package bubble, starts the result.
//
// Promises: the bubblewrap that was checked is the one that runs, whoever replaces it; only root
// can change it, and it gives nobody rights. A room has the system's programs and the parts of /etc
// that they need, read-only, where only root can change them; the workspace, and mounts and files
// of the plan, opened with the rights of the workspace's owner and without following a link; and
// nothing else of the host. What the host lacks is reported with the remedy.
//
// The package starts no program of a run and keeps no state of one.
package bwrap
