package confine

import (
	"path"
	"strings"
	"sync"
	"time"

	"golang.org/x/sys/unix"

	"palyra/internal/cell"
)

// mounts counts the changes of this process's mounts.
type mounts struct {
	mu   sync.Mutex
	fd   int // of the list, which the kernel marks when it changes; -1: none
	seen int
}

func newMounts() *mounts {
	fd, err := unix.Open("/proc/self/mountinfo", unix.O_RDONLY|unix.O_CLOEXEC, 0)
	if err != nil {
		fd = -1
	}
	return &mounts{fd: fd}
}

// count is another number after every change; false: it is not known.
func (m *mounts) count() (int, bool) {
	m.mu.Lock()
	defer m.mu.Unlock()
	fds := []unix.PollFd{{Fd: int32(m.fd), Events: unix.POLLPRI}}
	if m.fd < 0 {
		return 0, false
	}
	if n, err := unix.Poll(fds, 0); err != nil {
		return 0, false
	} else if n > 0 {
		m.seen++
	}
	return m.seen, true
}

func (m *mounts) close() {
	m.mu.Lock()
	defer m.mu.Unlock()
	if m.fd >= 0 {
		_ = unix.Close(m.fd)
	}
	m.fd = -1
}

// sight is the directories on the way to the files of rules, as they were before these were looked at. While they and the
// mounts are the same, so are the files: a directory's time of change changes with its entries.
type sight struct {
	mounts int
	dirs   []passed
}

// passed is a directory on such a way, or a file of /sys, where times tell nothing.
type passed struct {
	path string
	identity
	changed unix.Timespec
}

// settledFor is how long a directory must not have changed for its time to tell of the next change: the kernel's clock
// for these goes by some milliseconds, and another change could have the same time.
const settledFor = 100 * time.Millisecond

// lookAt looks at the directories of rules; nil: they cannot stand for the files.
func lookAt(m *mounts, rules []cell.Rule) *sight {
	n, ok := m.count()
	if !ok {
		return nil
	}
	s := &sight{mounts: n}
	done := map[string]bool{}
	for _, r := range rules {
		at := path.Dir(r.Path)
		switch {
		case strings.HasPrefix(r.Path, "/proc/"):
			continue
		case strings.HasPrefix(r.Path, "/sys/"):
			at = r.Path
		}
		for ; !done[at]; at = path.Dir(at) {
			done[at] = true
			e, ok := look(at)
			if !ok || time.Since(time.Unix(e.changed.Unix())) < settledFor {
				return nil
			}
			s.dirs = append(s.dirs, e)
		}
	}
	return s
}

func look(at string) (passed, bool) {
	var st unix.Stat_t
	if unix.Stat(at, &st) != nil {
		return passed{}, false
	}
	e := passed{path: at, identity: identity{st.Dev, st.Ino}}
	if !strings.HasPrefix(at, "/sys/") {
		e.changed = st.Ctim
	}
	return e, true
}

// same reports whether nothing has changed for certain.
func (s *sight) same(m *mounts) bool {
	if s == nil {
		return false
	}
	if n, ok := m.count(); !ok || n != s.mounts {
		return false
	}
	for _, e := range s.dirs {
		if now, ok := look(e.path); !ok || now != e {
			return false
		}
	}
	return true
}
