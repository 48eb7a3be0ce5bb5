package moved

import (
	"encoding/binary"
	"path/filepath"
	"strings"

	"golang.org/x/sys/unix"

	"palyra/internal/subpath"
)

// Bounds of one Watch.
const (
	maxDepth  = 256
	maxPlaces = 8192
)

// events of a directory or link that is not where it was. A link may have several
// names, so its count of names matters as well.
const (
	gone     = unix.IN_MOVE_SELF | unix.IN_DELETE_SELF
	goneLink = gone | unix.IN_ATTRIB
)

// place is a directory or a link, as it was.
type place struct {
	path string
	mode uint32
	dev  uint64
	ino  uint64
	at   unix.Timespec // of its last change, which nobody can set
}

// way is one that is watched.
type way struct {
	places []place
	moved  bool
	blind  bool // not all of it has a watch
}

// Watch is ways that are watched together. It is used by one goroutine at a time.
type Watch struct {
	fd   int // -1: the kernel gave none
	seen map[int32][]int
	ways []*way
	held int
}

// New begins to watch nothing. Close ends it.
func New() *Watch {
	fd, err := unix.InotifyInit1(unix.IN_CLOEXEC | unix.IN_NONBLOCK)
	if err != nil {
		fd = -1
	}
	return &Watch{fd: fd, seen: map[int32][]int{}}
}

// Close ends the watch.
func (w *Watch) Close() {
	if w.fd >= 0 {
		_ = unix.Close(w.fd)
		w.fd = -1
	}
}

// Add watches the way from root to path, which lies below it, with the rights to files
// of the thread that calls. It returns the number by which Moved knows it. Whoever looks
// at the file afterwards can be sure that it stays where it is, or that Moved tells.
func (w *Watch) Add(root, path string) int {
	a, n := &way{}, len(w.ways)
	w.ways = append(w.ways, a)
	rest, ok := subpath.Rel(root, path)
	if !ok {
		a.moved = true // whoever asks this is mistaken, and relies on nothing
		return n
	}
	names := strings.Split(rest, "/")
	if len(names) > maxDepth {
		a.moved = true
		return n
	}
	at := root
	for i := 0; ; i++ {
		if !w.watch(a, n, at, i == len(names)) || i == len(names) {
			return n
		}
		at = filepath.Join(at, names[i])
	}
}

// watch adds one place of a way, and reports whether there is a way on from there. The
// watch comes first: what happens between it and the look is told.
func (w *Watch) watch(a *way, n int, path string, last bool) bool {
	wd, err := -1, error(unix.ENOSPC)
	if w.fd >= 0 && w.held < maxPlaces {
		wd, err = unix.InotifyAddWatch(w.fd, path, unix.IN_DONT_FOLLOW|unix.IN_MASK_ADD|gone)
	}
	var st unix.Stat_t
	if unix.Lstat(path, &st) != nil {
		return false // nothing is there, and no way leads through it
	}
	kind := st.Mode & unix.S_IFMT
	if last && kind != unix.S_IFLNK {
		if err == nil && len(w.seen[int32(wd)]) == 0 {
			_, _ = unix.InotifyRmWatch(w.fd, uint32(wd)) // the file's own times tell
		}
		return false
	}
	if err == nil && kind == unix.S_IFLNK {
		wd, err = unix.InotifyAddWatch(w.fd, path, unix.IN_DONT_FOLLOW|unix.IN_MASK_ADD|goneLink)
	}
	a.places = append(a.places, place{path, kind, uint64(st.Dev), st.Ino, st.Ctim})
	if err != nil {
		a.blind = true
	} else {
		w.held++
		w.seen[int32(wd)] = append(w.seen[int32(wd)], n)
	}
	return kind == unix.S_IFDIR || kind == unix.S_IFLNK
}

// Moved reports whether something of the way was moved since it was added.
func (w *Watch) Moved(n int) bool {
	w.drain()
	a := w.ways[n]
	if !a.moved {
		a.moved = a.wasMoved()
	}
	return a.moved
}

// wasMoved looks at the way itself: at the numbers of its places, and at the times of
// change where no watch would have told.
func (a *way) wasMoved() bool {
	for _, p := range a.places {
		var st unix.Stat_t
		if unix.Lstat(p.path, &st) != nil || st.Mode&unix.S_IFMT != p.mode || uint64(st.Dev) != p.dev || st.Ino != p.ino ||
			a.blind && st.Ctim != p.at {
			return true
		}
	}
	return false
}

// drain takes in what the kernel saw so far.
func (w *Watch) drain() {
	buf := make([]byte, 16<<10)
	for w.fd >= 0 {
		n, err := unix.Read(w.fd, buf)
		if err == unix.EINTR {
			continue
		}
		if err != nil || n <= 0 {
			if err != unix.EAGAIN {
				w.blindAll()
			}
			return
		}
		for b := buf[:n]; len(b) >= unix.SizeofInotifyEvent; {
			wd, mask := int32(binary.NativeEndian.Uint32(b)), binary.NativeEndian.Uint32(b[4:])
			w.heard(wd, mask)
			b = b[min(len(b), unix.SizeofInotifyEvent+int(binary.NativeEndian.Uint32(b[12:]))):]
		}
	}
}

func (w *Watch) heard(wd int32, mask uint32) {
	switch {
	case mask&unix.IN_Q_OVERFLOW != 0:
		w.blindAll()
	case mask&(goneLink|unix.IN_UNMOUNT) != 0:
		for _, n := range w.seen[wd] {
			w.ways[n].moved = true
		}
	}
}

// blindAll makes all ways blind: what their watches saw did not come through.
func (w *Watch) blindAll() {
	for _, a := range w.ways {
		a.blind = true
	}
}
