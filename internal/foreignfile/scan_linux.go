package foreignfile

import (
	"errors"
	"sync"
	"time"

	"golang.org/x/sys/unix"

	"palyra/internal/beneath"
)

const (
	mostAtOnce  = 2_000           // names that the first answer for a directory looks at
	mostNames   = 300_000         // and those that are looked at in the background
	mostWaiting = 16 << 20        // bytes of the paths of directories that are still to be looked into
	mostTrees   = 256             // directories that something is known of
	leastPause  = 1 * time.Minute // between two looks in the background
	shareOfTime = 50              // of which they take this part at most
)

// Scans is what is known of directories.
type Scans struct {
	run func(func()) // has something done in the background

	mu    sync.Mutex
	trees map[tree]*known
}

// tree is a directory and who it belongs to.
type tree struct {
	path     string
	dev, ino uint64
	uid, gid int64
}

type known struct {
	found string // the path of a file of somebody else's; empty: none was seen
	busy  bool   // it is being looked through
	next  time.Time
}

// New returns Scans that know nothing yet and have work done in the background by run.
func New(run func(func())) *Scans { return &Scans{run: run, trees: map[tree]*known{}} }

// Has reports whether a file below a directory is known to be of another owner or group than these.
func (s *Scans) Has(dir string, uid, gid int64) bool {
	top, err := beneath.OpenTree(dir)
	if err != nil {
		return false
	}
	var st unix.Stat_t
	if err := unix.Fstat(top, &st); err != nil {
		_ = unix.Close(top)
		return false
	}
	t := tree{dir, uint64(st.Dev), st.Ino, uid, gid}
	s.mu.Lock()
	defer s.mu.Unlock()
	k := s.trees[t]
	if k == nil {
		k = s.add(t)
		w := walk{tree: t, top: top, most: mostAtOnce}
		k.found = w.first()
		k.next = time.Now().Add(leastPause)
		if w.count < w.most { // all of it was seen
			_ = unix.Close(top)
			return k.found != ""
		}
		k.next = time.Time{}
	}
	if k.found != "" && !t.foreign(top, k.found) {
		k.found, k.next = "", time.Time{}
	}
	if k.found != "" || k.busy || time.Now().Before(k.next) {
		_ = unix.Close(top)
		return k.found != ""
	}
	k.busy = true
	s.run(func() { s.look(t, top, k) })
	return false
}

// add makes a place for what is known of a tree.
func (s *Scans) add(t tree) *known {
	for other := range s.trees {
		if len(s.trees) < mostTrees {
			break
		}
		delete(s.trees, other)
	}
	k := &known{}
	s.trees[t] = k
	return k
}

// look goes through a tree.
func (s *Scans) look(t tree, top int, k *known) {
	defer func() { _ = unix.Close(top) }()
	begun := time.Now()
	w := walk{tree: t, top: top, most: mostNames}
	found := w.first()
	s.mu.Lock()
	defer s.mu.Unlock()
	k.found, k.busy = found, false
	k.next = time.Now().Add(max(leastPause, shareOfTime*time.Since(begun)))
}

// foreign reports whether a path below a tree is there and of somebody else.
func (t tree) foreign(top int, path string) bool {
	st, missing, err := beneath.LookBelow(top, path)
	return err == nil && !missing && t.others(st)
}

func (t tree) others(st *unix.Stat_t) bool { return int64(st.Uid) != t.uid || int64(st.Gid) != t.gid }

// walk goes through a tree, what is near before what is deep.
type walk struct {
	tree
	top, most, count int
	waiting          int // bytes
}

// first is the first path of somebody else's; empty: there is none, or none was reached.
func (w *walk) first() string {
	for dirs := []string{""}; len(dirs) > 0 && w.count < w.most; dirs = dirs[1:] {
		more, found := w.dir(dirs[0])
		if found != "" {
			return found
		}
		w.waiting -= len(dirs[0])
		dirs = append(dirs, more...)
	}
	return ""
}

func (w *walk) dir(rel string) (more []string, found string) {
	fd, err := beneath.OpenIn(w.top, rel, unix.O_RDONLY|unix.O_DIRECTORY)
	if err != nil {
		return nil, ""
	}
	defer func() { _ = unix.Close(fd) }()
	names, err := beneath.NamesOf(fd, w.most)
	if many := (*beneath.ManyError)(nil); errors.As(err, &many) {
		w.count = w.most
		return nil, ""
	}
	for _, n := range names {
		if w.count++; w.count > w.most {
			return nil, ""
		}
		st, missing, err := beneath.LookAt(fd, n)
		if err != nil || missing {
			continue
		}
		path := beneath.Join(rel, n)
		if w.others(&st) {
			return nil, path
		}
		if beneath.IsDir(&st) && w.waiting+len(path) < mostWaiting && len(path) < unix.PathMax {
			w.waiting += len(path)
			more = append(more, path)
		}
	}
	return more, ""
}
