// Package confine is tier B: a native process under the kernel's own filters, without namespaces.
//
// Words: a keeper is a running palyra-cell of ours, idle or with a program; a group is the set of
// cgroup directories made for one keeper; a mark is a number that every process of a run carries
// and cannot remove, so that its tree can be found even when its cell is gone.
//
// Probe returns what a run is promised and, after the run, Exit what was really applied. Landlock lets it write its
// workspace and its private home and tmp, read and execute the system's programs, and nothing else; seccomp is a
// list of allowed calls, with no network at all; rlimits and, where the daemon may make them, cgroups bound it.
// Where no cgroup can be made the cell counts and kills, and the promise says "polled". Whatever cannot be applied
// makes the start fail: nothing is left out silently.
//
// Landlock knows opening, making and removing, not changing attributes. So a run can still find out
// that a file of its own user exists (stat), and can change mode bits and times of its user's files
// anywhere (chmod, utimes); set-user-id bits, owners, access lists by path and watching directories
// are refused by the filter instead. Tier C has none of these gaps.
//
// The package does not resolve, hash or choose programs and does not read their output: the Runner does.
package confine
