// Package bwrap finds the host's bubblewrap and tells it what room to build: its
// namespaces and what of the host's files is in it. Tier C on Linux, in package
// bubble, starts what it is told here.
//
// Promises: the bubblewrap that was looked at is the one that runs, whoever
// replaces it; it is root's alone and gives nobody rights. A room has the system's
// programs and what of /etc they need, read-only, where only root can change
// them; the workspace, and mounts and files of the plan, opened with the rights of
// the workspace's owner and without following a link; and nothing else of the
// host. What the host lacks is said with the remedy.
//
// The package starts no program of a run and keeps no state of one.
package bwrap
