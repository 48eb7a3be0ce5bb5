// Package cells is the common part of the native tiers of Linux: they start palyra-cell, give it a
// program, follow it, and clean up after it.
//
// Words: a Fleet is the cells of a tier with everything that they share; a Keeper is one running
// cell, idle or with a program; a Body is the process behind it, as the daemon sees it; a Group is
// the set of cgroup directories made for one keeper; a mark is a number that every process of a run
// carries and cannot remove, so that its tree can be found even when its cell is gone.
//
// Promises: only the image whose digest was stamped into the daemon is ever run. A keeper serves
// once. A started program is followed until nothing of its tree is left, also when its cell is
// lost; only then does Wait return. Less than the promise of a plan is refused (CheckPromise).
// Recover ends what an earlier daemon of the same state left, and nothing else.
//
// It does not decide what a tier allows: the tier chooses the Landlock rules, the sockets and the
// room of a program. It does not read a program's output, which is the Runner's.
//
// Its words are those of docs/words.md.
package cells
