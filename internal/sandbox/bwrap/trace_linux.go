package bwrap

import (
	"slices"
	"time"

	"golang.org/x/sys/unix"
)

// trace is the state of a path when the system was looked at: of the file itself, and of its target
// if it is a link. Every change of either shows in its ctime, as does a new name in a directory.
type trace struct {
	path     string
	own, end stamp // zero: nothing was there
}

// stamp tells apart two files, and one file before and after a change.
type stamp struct {
	fileID
	mode, uid uint32
}

func traceOf(path string) trace {
	t := trace{path: path}
	var st unix.Stat_t
	if unix.Lstat(path, &st) != nil {
		return t
	}
	t.own = stampOf(&st)
	t.end = t.own
	if st.Mode&unix.S_IFMT == unix.S_IFLNK {
		t.end = stamp{}
		if unix.Stat(path, &st) == nil {
			t.end = stampOf(&st)
		}
	}
	return t
}

func stampOf(st *unix.Stat_t) stamp {
	return stamp{fileID: identify(st), mode: st.Mode, uid: st.Uid}
}

// sameTraces reports whether nothing has changed.
func sameTraces(traces []trace) bool {
	return !slices.ContainsFunc(traces, func(t trace) bool { return traceOf(t.path) != t })
}

// settled reports whether the last change of everything was a while before now. The clock of files
// is coarse: a file that was just changed could change again with the same stamp.
func settled(traces []trace, now time.Time) bool {
	const while = time.Second
	for _, t := range traces {
		for _, s := range []stamp{t.own, t.end} {
			if time.Unix(s.sec, s.nsec).After(now.Add(-while)) {
				return false
			}
		}
	}
	return true
}
