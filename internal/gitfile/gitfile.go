// Package gitfile reads files that git keeps in a repository, from their bytes and without running git: its
// configuration, the state of a rebase, the index. Running git in a directory that a stranger could write to would
// obey that very configuration.
//
// The readers are strict and bounded, and know git's documented formats only. Where
// one cannot make sense of its input it says so, and the caller assumes the worst.
package gitfile

import "errors"

// Own is the name by which git finds a work tree's repository: a directory, or a file that says where it is.
const Own = ".git"

// MaxFile bounds what is read of one file.
const MaxFile = 1 << 20

// ErrFormat is in the chain of every error about input that is not what git writes,
// ErrLimit in that of one about more than a reader takes, though git may take it.
var (
	ErrFormat = errors.New("gitfile: not in git's format")
	ErrLimit  = errors.New("gitfile: too much")
)
