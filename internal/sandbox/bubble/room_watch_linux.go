package bubble

import (
	"os"
	"strconv"
	"strings"
	"sync"
	"time"

	"palyra"
	"palyra/internal/cell"
)

// The file watching of a room. A run gets an eighth of what its user may have, so that its user, and other runs,
// keep enough; and no more than any program needs. Where no cgroup counts the memory of waiting events (an instance
// holds 16,384 of them, a watch keeps a file's record in memory), the most is small enough not to matter.
const (
	watchShare      = 8
	mostInstances   = 128
	mostWatches     = 64 << 10
	polledInstances = 16
	polledWatches   = 8 << 10
)

// hostWatching is what the host allows a user to watch, or less if this process's own user namespace allows less.
func hostWatching(read func(string) ([]byte, error)) cell.Watching {
	lowest := func(paths ...string) int64 {
		var low int64 = -1
		for _, p := range paths {
			b, err := read(p)
			n, e := strconv.ParseInt(strings.TrimSpace(string(b)), 10, 64)
			if err != nil || e != nil || n < 0 {
				return 0 // a limit that cannot be read cannot be set either
			}
			if low < 0 || n < low {
				low = n
			}
		}
		return low
	}
	return cell.Watching{
		Instances: lowest("/proc/sys/fs/inotify/max_user_instances", "/proc/sys/user/max_inotify_instances"),
		Watches:   lowest("/proc/sys/fs/inotify/max_user_watches", "/proc/sys/user/max_inotify_watches"),
	}
}

// watchingOf is a room's part of what the host allows; the zero value: it may not watch.
func watchingOf(host cell.Watching, polled bool) cell.Watching {
	w := cell.Watching{Instances: min(host.Instances/watchShare, mostInstances), Watches: min(host.Watches/watchShare, mostWatches)}
	if polled {
		w.Instances, w.Watches = min(w.Instances, polledInstances), min(w.Watches, polledWatches)
	}
	if w.Instances <= 0 || w.Watches <= 0 {
		return cell.Watching{}
	}
	return w
}

// watching is what a keeper's room may watch. Once a room could not be bounded here, none may watch at all.
func (b *Backend) watching(polled bool) cell.Watching {
	if b.unwatched.Load() {
		return cell.Watching{}
	}
	return watchingOf(b.host.watching(), polled)
}

// hostLimits remembers what the host allows and shows, for a short time: every plan asks.
type hostLimits struct {
	mu    sync.Mutex
	until time.Time
	last  cell.Watching
	hides map[[2]int64][]string // of /proc, by user and group
}

// askedFor is how long an answer of the host counts.
const askedFor = 5 * time.Second

func (h *hostLimits) watching() cell.Watching {
	h.mu.Lock()
	defer h.mu.Unlock()
	h.ask()
	return h.last
}

// shown are the paths of /proc that a room of a user hides.
func (h *hostLimits) shown(uid, gid int64) []string {
	h.mu.Lock()
	defer h.mu.Unlock()
	h.ask()
	key := [2]int64{uid, gid}
	if h.hides[key] == nil {
		h.hides[key] = shown(uid, gid)
	}
	return h.hides[key]
}

func (h *hostLimits) ask() {
	if now := time.Now(); now.After(h.until) {
		h.last, h.until, h.hides = hostWatching(os.ReadFile), now.Add(askedFor), map[[2]int64][]string{}
	}
}

// watchLimit is the Hold of file watching in an Enforcement.
func watchLimit(w cell.Watching) palyra.Hold {
	if w == (cell.Watching{}) {
		return palyra.HoldRefused
	}
	return palyra.HoldNamespace
}
