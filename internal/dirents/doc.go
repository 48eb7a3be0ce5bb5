// Package dirents lists directories of any size by descriptor, without an
// allocation for each name: what a walk through somebody's whole tree needs, and
// the standard library, which sorts and copies, does not give. It is for Linux.
package dirents
