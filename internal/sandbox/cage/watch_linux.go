package cage

import (
	"encoding/binary"
	"errors"
	"io/fs"
	"os"
	"path"
	"path/filepath"
	"slices"
	"strconv"
	"sync"
	"time"

	"golang.org/x/sys/unix"

	"palyra/internal/subpath"
)

// The events that tell that something is read, or changed.
const (
	changes = unix.IN_CREATE | unix.IN_DELETE | unix.IN_MOVED_FROM | unix.IN_MOVED_TO | unix.IN_MODIFY | unix.IN_ATTRIB
	events  = unix.IN_OPEN | changes
)

// mostDirs is how many directories of a workspace are watched. Where there are more, nobody knows which were needed.
const mostDirs = 4096

// Watch notes what a run in a cage opens of what the cage names.
type Watch struct {
	fd      int
	file    *os.File // the same
	watched map[int32]watched
	done    chan struct{} // closed when nothing is read any more

	mu   sync.Mutex // guards the fields below
	seen map[string]bool
	lost bool
}

// watched is what a watch is of.
type watched struct {
	program string
	rel     string // of the workspace
	dir     bool
}

// Observe begins to note. The workspace is at a path or, as the room has it on its stage, below root. What cannot be watched
// counts as needed, and so do files of the workspace that are covered in the room: nobody sees who opens those.
func Observe(c *Cage, workspace string, root *os.File, covered []string) *Watch {
	w := &Watch{fd: -1, watched: map[int32]watched{}, done: make(chan struct{}), seen: map[string]bool{}}
	fd, err := unix.InotifyInit1(unix.IN_CLOEXEC | unix.IN_NONBLOCK)
	if err != nil {
		w.lost = true
		close(w.done)
		return w
	}
	w.fd, w.file = fd, os.NewFile(uintptr(fd), "watch")
	for _, p := range c.Programs {
		w.add(p, watched{program: p}, unix.IN_OPEN)
	}
	w.paths(c, workspace, root)
	w.cover(c, workspace, covered)
	go w.read()
	return w
}

// paths watches what the cage names of the workspace. All directories are found before the first is watched: to look for
// them opens them.
func (w *Watch) paths(c *Cage, workspace string, root *os.File) {
	at := workspace
	if root != nil {
		at = "/proc/self/fd/" + strconv.Itoa(int(root.Fd()))
	}
	var all []watched
	for _, p := range slices.Concat(c.Read, c.Write) {
		rel, ok := subpath.Rel(workspace, p)
		if !ok {
			continue
		}
		top := filepath.Join(at, rel)
		if rel == "." {
			top = at + "/." // through the descriptor
		}
		err := filepath.WalkDir(top, func(name string, e fs.DirEntry, err error) error {
			below, ok := subpath.Rel(at, name)
			switch {
			case errors.Is(err, fs.ErrNotExist):
				return nil
			case err != nil && e != nil && e.IsDir(): // closed to us, and perhaps not to the run
				return err
			case err != nil || !ok || !e.IsDir() && name != top:
				return err
			case len(all) >= mostDirs:
				return errMany
			}
			all = append(all, watched{rel: below, dir: e.IsDir()})
			return nil
		})
		w.lost = w.lost || err != nil
	}
	for _, one := range all {
		w.add(filepath.Join(at, one.rel)+tail(one), one, events)
	}
}

// cover notes covered files that the cage shows.
func (w *Watch) cover(c *Cage, workspace string, covered []string) {
	for _, name := range covered {
		rel, ok := subpath.Rel(workspace, name)
		if ok && slices.ContainsFunc(slices.Concat(c.Read, c.Write), func(p string) bool { return subpath.Within(p, name) }) {
			w.note(watched{rel: path.Dir(rel), dir: true}, path.Base(rel), unix.IN_OPEN)
		}
	}
}

// tail has the workspace itself looked at, and not the link to it in /proc.
func tail(w watched) string {
	if w.dir {
		return "/."
	}
	return ""
}

var errMany = errors.New("cage: more directories than are watched")

func (w *Watch) add(name string, of watched, mask uint32) {
	wd, err := unix.InotifyAddWatch(w.fd, name, mask)
	if err != nil {
		w.lost = w.lost || !errors.Is(err, unix.ENOENT)
		return
	}
	w.watched[int32(wd)] = of
}

// read takes events in until End.
func (w *Watch) read() {
	defer close(w.done)
	buf := make([]byte, 64<<10)
	for {
		n, err := w.file.Read(buf)
		if err != nil {
			return
		}
		w.take(buf[:n])
	}
}

// take notes events.
func (w *Watch) take(b []byte) {
	w.mu.Lock()
	defer w.mu.Unlock()
	for len(b) >= unix.SizeofInotifyEvent {
		order := binary.NativeEndian // wd, mask, cookie, length
		wd, mask, end := int32(order.Uint32(b)), order.Uint32(b[4:]), unix.SizeofInotifyEvent+int(order.Uint32(b[12:]))
		if end > len(b) {
			w.lost = true
			return
		}
		name := unix.ByteSliceToString(b[unix.SizeofInotifyEvent:end])
		b = b[end:]
		if mask&unix.IN_Q_OVERFLOW != 0 {
			w.lost = true
			continue
		}
		if of, ok := w.watched[wd]; ok {
			w.note(of, name, mask)
		}
	}
}

// note puts down what an event tells: of a file in a directory the directory, since its neighbours are of its kind, but of the
// workspace's own files each.
func (w *Watch) note(of watched, name string, mask uint32) {
	file := of.rel
	switch {
	case of.program != "":
		w.seen["programs:"+of.program] = true
		return
	case of.rel == "." && name != "":
		file = name
	case name != "" && mask&unix.IN_ISDIR != 0: // the directory in it that was opened is watched itself, but for a new one
		file = path.Join(of.rel, name)
	}
	switch {
	case mask&(unix.IN_CREATE|unix.IN_DELETE|unix.IN_MOVED_FROM|unix.IN_MOVED_TO) != 0:
		w.seen["write:"+of.rel] = true
	case mask&changes != 0:
		w.seen["write:"+file] = true
	case mask&unix.IN_OPEN != 0:
		w.seen["read:"+file] = true
	}
}

// End stops, and returns what was needed, as KIND:WHAT; known: nothing else was.
func (w *Watch) End() (terms []string, known bool) {
	if w.file != nil {
		_ = w.file.SetReadDeadline(time.Unix(1, 0)) // inotify can be polled
		<-w.done
		buf := make([]byte, 64<<10)
		for {
			n, err := unix.Read(w.fd, buf)
			if errors.Is(err, unix.EINTR) {
				continue
			}
			if err != nil || n <= 0 {
				break
			}
			w.take(buf[:n])
		}
		_ = w.file.Close()
	}
	for t := range w.seen {
		terms = append(terms, t)
	}
	slices.Sort(terms)
	return terms, !w.lost
}
