// Package foreignfile finds out whether files below a directory belong to somebody else: an overlay in a
// room that knows one user cannot change those.
//
// Promises. An answer costs little: the first one looks at a bounded part of the tree, nearest first; the
// rest is looked through in the background, within bounds, and so is all of it again when that is long ago.
// What was found is looked at again before it is said. Links are not followed.
//
// What it does not do. It misses files that changed hands since the last look, and those of a larger tree
// than is looked at.
package foreignfile
