// Package cells is what the native tiers of Linux have in common: they start
// palyra-cell, give it a program, follow it, and clean up after it.
//
// Words: a Fleet is a tier's cells with all that they share; a Keeper is one
// running cell, idle or with a program; a Body is the process behind it, as the
// daemon sees it; a Group is the set of cgroup directories made for one keeper; a
// mark is a number that every process of a run carries and cannot put off, so that
// its tree can be found even when its cell is gone.
//
// Promises: only the image whose digest was stamped into the daemon is ever run. A
// keeper serves once. A started program is followed until nothing of its tree is
// left, also when its cell is lost; only then does Wait return. Less than a plan
// was promised is refused (CheckPromise). Recover ends what an earlier daemon of
// the same state left, and nothing else.
//
// It does not decide what a tier allows: which Landlock rules, which sockets and
// which room a program gets is the tier's own. It does not read a program's
// output, which is the Runner's.
package cells
