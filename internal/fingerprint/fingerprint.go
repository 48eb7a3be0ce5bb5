// Package fingerprint remembers what a look at the file system saw, and tells later whether the same look would see the
// same again, without reading anything.
//
// Words: a Print is the answers of one look, each with the path that was asked about; it holds while every one of the
// paths still gives its answer.
//
// Promises. What follows from the answers alone still follows while the Print holds. A file and a link answer with
// device, inode, mode, owner, group, size and both times: nobody sets the time of change, so a file that was replaced,
// or written and given its old times, does not pass. A directory that was only passed answers without size and times:
// they say that some name in it changed, and each name that was asked about answers for itself, as missing too.
// A directory whose names were read answers with its times. A path that gave two answers within one look never holds.
//
// What it does not do. It knows nothing of content: somebody who can write a file can change it through a mapping, and
// no time changes until that is written back. Whoever read such a file says so with Unsure, and the Print never holds.
// Two changes within one tick of the kernel's clock leave the same times, so what changed shortly before the look does
// not count as Settled.
package fingerprint

import "time"

// settled is how long before a look the last change must have been.
const settled = 2 * time.Second
