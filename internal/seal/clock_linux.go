package seal

import (
	"time"

	"golang.org/x/sys/unix"
)

// fileClock is the time that the kernel would give to a file that changes now, or an earlier one.
// It is not the time of day: on a virtual machine that was paused, that goes on while this clock
// stands, and a directory could change twice under one stamp that looks old.
func fileClock() stamp {
	var now unix.Timespec
	if unix.ClockGettime(unix.CLOCK_REALTIME_COARSE, &now) != nil {
		return stamp{} // without a clock nothing counts as settled
	}
	return stamp{now.Sec, uint32(now.Nsec)}
}

// settled reports whether any change of a directory after the walk began is certain to give it a
// later stamp than at.
func (w *walker) settled(at stamp) bool {
	if !w.t.sure {
		return false
	}
	wait := slack
	if w.t.firm && at.nsec != 0 { // such a file system counts nanoseconds
		wait = tick
	}
	if w.limits.settle != 0 {
		wait = time.Duration(w.limits.settle) * time.Second
	}
	return at.before(w.start, wait)
}

// before reports whether s was more than d before o.
func (s stamp) before(o stamp, d time.Duration) bool {
	at := time.Unix(s.sec, int64(s.nsec)).Add(d)
	return at.Before(time.Unix(o.sec, int64(o.nsec)))
}
