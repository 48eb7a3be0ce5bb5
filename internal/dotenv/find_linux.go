package dotenv

import (
	"bytes"
	"context"
	"crypto/sha256"
	"errors"
	"io"
	"os"
	"path"
	"slices"
	"strconv"
	"time"

	"golang.org/x/sys/unix"

	"palyra/internal/beneath"
	"palyra/internal/dirents"
)

// supported says whether files can be masked on this system.
const supported = true

// SearchDir is where a Finder looks.
type SearchDir struct {
	Top   int    // an open directory
	Path  string // what it is called: links to there lead into it
	Place string // equal for the same directory, which is remembered by it; empty: it is not
}

// Find returns the paths below a directory of the files that are masked, sorted: those whose names count, what links of such names
// lead to in the directory, by whatever way, and every other name of either (hard links). It follows no other link, and passes by what
// packages and repositories keep for themselves. It sees what its caller may see. The error is a BoundError where nobody can tell.
func (f *Finder) Find(ctx context.Context, w SearchDir, n Names) ([]string, error) {
	files, _, err := f.find(ctx, w, n)
	return files, err
}

// find is Find, with the links in the directory by which files are found.
func (f *Finder) find(ctx context.Context, w SearchDir, n Names) (files, links []string, err error) {
	l := look{ctx: ctx, top: w.Top, names: n, was: f.get(w.Place), now: map[string]node{}, began: time.Now()}
	if err := unix.Fstat(w.Top, &l.topStat); err != nil {
		return nil, nil, &BoundError{Why: "it cannot be looked through: " + err.Error()}
	}
	l.keeps = w.Place != "" && timed(w.Top)
	if err := l.walk(); err != nil {
		return nil, nil, err
	}
	f.put(w.Place, l.now)
	files, err = l.files(w.Path)
	return files, l.links, err
}

// Now finds out what is masked in a workspace, by its path.
func (m *Masks) Now(ctx context.Context, workspace string) (out MaskedNow, err error) {
	out = MaskedNow{names: m.Names, sums: map[[sha256.Size]byte]bool{}}
	err = m.findIn(ctx, workspace, func(top int, files, _ []string) {
		out.paths = files
		for _, rel := range files {
			if text, ok := readFile(top, rel); ok && len(text) > 0 {
				out.sums[sha256.Sum256(text)] = true
			}
		}
	})
	return out, err
}

// Links finds the links of a workspace without which a masked file would be an ordinary one.
func (m *Masks) Links(ctx context.Context, workspace string) (out []string, err error) {
	err = m.findIn(ctx, workspace, func(_ int, _, links []string) { out = slices.Compact(slices.Sorted(slices.Values(links))) })
	return out, err
}

// findIn looks through a workspace, by its path.
func (m *Masks) findIn(ctx context.Context, workspace string, f func(top int, files, links []string)) error {
	top, err := unix.Open(workspace, unix.O_PATH|unix.O_DIRECTORY|unix.O_CLOEXEC, 0)
	if err != nil {
		return &BoundError{Why: "it cannot be looked through: " + err.Error()}
	}
	defer func() { _ = unix.Close(top) }()
	files, links, err := m.finder.find(ctx, SearchDir{Top: top, Path: workspace, Place: workspace}, m.Names)
	if err == nil {
		f(top, files, links)
	}
	return err
}

// look finds the files that are masked, and which they are.
func (m *Masks) look(ctx context.Context, dir SearchDir) ([]Found, error) {
	paths, err := m.Find(ctx, dir)
	if err != nil {
		return nil, err
	}
	out := make([]Found, 0, len(paths))
	for _, rel := range paths {
		var st unix.Stat_t
		if unix.Fstatat(dir.Top, rel, &st, unix.AT_SYMLINK_NOFOLLOW) != nil {
			return nil, ErrMoved
		}
		out = append(out, Found{rel, uint64(st.Dev), st.Ino})
	}
	return out, nil
}

// look is one look through a directory.
type look struct {
	ctx     context.Context
	top     int
	topStat unix.Stat_t
	names   Names
	was     map[string]node
	now     map[string]node
	began   time.Time
	keeps   bool // directories' times can be relied on, on the file system of the top
	counted []string
	links   []string // by which files are found
	entries int
	buf     []byte
}

// timed reports whether a file system changes a directory's ctime with every entry.
func timed(fd int) bool {
	var st unix.Statfs_t
	if unix.Fstatfs(fd, &st) != nil {
		return false
	}
	return slices.Contains([]int64{
		unix.EXT4_SUPER_MAGIC, unix.XFS_SUPER_MAGIC, unix.BTRFS_SUPER_MAGIC, unix.TMPFS_MAGIC, unix.F2FS_SUPER_MAGIC, unix.OVERLAYFS_SUPER_MAGIC,
	}, int64(st.Type))
}

// walk goes through all directories, the first above the next.
func (l *look) walk() error {
	todo := []string{""}
	for seen := 0; len(todo) > 0; seen++ {
		rel := todo[len(todo)-1]
		todo = todo[:len(todo)-1]
		if seen%64 == 0 && l.ctx.Err() != nil {
			return l.ctx.Err()
		}
		if seen >= maxDirs || l.entries > maxEntries || len(l.counted) > 4*MaxFiles {
			return &BoundError{Why: "it has too many directories, or too many files like .env"}
		}
		n, err := l.dir(rel)
		if err != nil {
			return err
		}
		for _, name := range n.dirs {
			todo = append(todo, beneath.Join(rel, name))
		}
		for _, name := range n.counted {
			l.counted = append(l.counted, beneath.Join(rel, name))
		}
	}
	return nil
}

// dir reads a directory, or remembers it. One that is gone is empty.
func (l *look) dir(rel string) (node, error) {
	if len(rel) > maxPath {
		return node{}, &BoundError{Path: rel, Why: "its path is too long"}
	}
	var st unix.Stat_t
	err := unix.Fstatat(l.top, path.Join(".", rel), &st, unix.AT_SYMLINK_NOFOLLOW)
	if gone(err) || err == nil && !beneath.IsDir(&st) {
		return node{}, nil
	}
	if err == nil {
		if was, ok := l.was[rel]; ok && was.stamp == stampOf(&st) && uint64(st.Dev) == uint64(l.topStat.Dev) {
			l.now[rel] = was
			return was, nil
		}
	}
	n, err := l.list(rel)
	switch {
	case gone(err):
		return node{}, nil
	case errors.Is(err, unix.EACCES):
		return l.closed(rel, &st)
	case err != nil:
		return node{}, &BoundError{Path: rel, Why: "it cannot be looked through: " + err.Error()}
	}
	return n, nil
}

// openIn opens something below a directory, on whatever is mounted there, and follows no link.
func openIn(top int, rel string, flags int) (int, error) {
	return beneath.OpenAt2(top, path.Join(".", rel), flags|unix.O_NOFOLLOW,
		unix.RESOLVE_BENEATH|unix.RESOLVE_NO_SYMLINKS|unix.RESOLVE_NO_MAGICLINKS)
}

func gone(err error) bool {
	return errors.Is(err, unix.ENOENT) || errors.Is(err, unix.ENOTDIR) || errors.Is(err, unix.ELOOP)
}

func stampOf(st *unix.Stat_t) stamp {
	return stamp{uint64(st.Dev), st.Ino, st.Mtim.Sec, st.Mtim.Nsec, st.Ctim.Sec, st.Ctim.Nsec}
}

// settles is how long a directory rests before its times are relied on: it could change twice within one tick of a clock.
const settles = 2 * time.Second

func (l *look) list(rel string) (n node, err error) {
	fd, err := openIn(l.top, rel, unix.O_RDONLY|unix.O_DIRECTORY|unix.O_NONBLOCK)
	if err != nil {
		return n, err
	}
	defer func() { _ = unix.Close(fd) }()
	var st unix.Stat_t
	if err := unix.Fstat(fd, &st); err != nil {
		return n, err
	}
	n.stamp = stampOf(&st) // before it is read: what comes meanwhile gives it another
	if l.buf == nil {
		l.buf = make([]byte, 32<<10)
	}
	err = dirents.List(fd, l.buf, func(name []byte, typ byte) error {
		l.entries++
		if typ == unix.DT_UNKNOWN {
			var e unix.Stat_t
			if unix.Fstatat(fd, string(name), &e, unix.AT_SYMLINK_NOFOLLOW) != nil {
				return nil
			}
			typ = byte(e.Mode & unix.S_IFMT >> 12) // the types of entries are those of modes
		}
		switch {
		case typ == unix.DT_DIR && !passed[string(name)]:
			n.dirs = append(n.dirs, string(name))
		case (typ == unix.DT_REG || typ == unix.DT_LNK) && l.names.Count(string(name)):
			n.counted = append(n.counted, string(name))
		}
		return nil
	})
	changed := time.Unix(n.stamp.ctime, n.stamp.ctimeNsec)
	if err == nil && l.keeps && n.stamp.dev == uint64(l.topStat.Dev) && changed.Add(settles).Before(l.began) {
		l.now[rel] = n
	}
	return n, err
}

// probed are names that are tried in a directory that can be entered and not listed.
var probed = []string{".env", ".env.local", ".env.production", ".env.development", ".env.staging", ".env.test", "prod.env", "dev.env"}

// closed is a directory that cannot be listed. Whoever it belongs to could open it.
func (l *look) closed(rel string, st *unix.Stat_t) (n node, err error) {
	var top unix.Stat_t
	if err := unix.Fstat(l.top, &top); err != nil || top.Uid == st.Uid {
		return n, &BoundError{Path: rel, Why: "its owner may not list it"}
	}
	for _, name := range probed {
		var e unix.Stat_t
		if unix.Fstatat(l.top, beneath.Join(rel, name), &e, unix.AT_SYMLINK_NOFOLLOW) == nil {
			n.counted = append(n.counted, name)
		}
	}
	return n, nil
}

// fileID is which file it is, whatever it is called.
type fileID struct{ dev, ino uint64 }

func idOf(st *unix.Stat_t) fileID { return fileID{uint64(st.Dev), st.Ino} }

// files are the paths to mask.
func (l *look) files(workspace string) ([]string, error) {
	found := map[string]bool{}
	shared := map[fileID]uint64{} // files with several names, and how many of these are still to be found
	links := follower{look: l, workspace: workspace}
	for _, rel := range l.counted {
		t, err := links.follow(rel)
		switch {
		case err != nil:
			return nil, err
		case !t.isFile() || t.rel == "" && !links.mayBeInside(t):
			continue
		case t.rel != "":
			found[t.rel] = true
			if t.st.Nlink > 1 {
				shared[idOf(&t.st)] = uint64(t.st.Nlink)
			}
		default:
			shared[idOf(&t.st)] = uint64(t.st.Nlink) + 1 // none of its names is found yet
		}
		l.links = append(l.links, t.links...)
	}
	for real := range found {
		var st unix.Stat_t
		if unix.Fstatat(l.top, real, &st, unix.AT_SYMLINK_NOFOLLOW) == nil {
			if left, ok := shared[idOf(&st)]; ok {
				shared[idOf(&st)] = left - 1
			}
		}
	}
	for id, left := range shared {
		if left == 0 {
			delete(shared, id)
		}
	}
	if len(shared) > 0 {
		if err := l.others("", 0, shared, found); err != nil {
			return nil, err
		}
	}
	if len(found) > MaxFiles {
		return nil, &BoundError{Why: "it has too many files like .env"}
	}
	out := make([]string, 0, len(found))
	for rel := range found {
		out = append(out, rel)
	}
	slices.Sort(out)
	return out, nil
}

// maxDepth is how deep other names of files are looked for.
const maxDepth = 256

// others adds the other names of files, wherever they lie: packages and repositories are looked through for these.
func (l *look) others(rel string, depth int, shared map[fileID]uint64, found map[string]bool) error {
	if err := l.ctx.Err(); err != nil {
		return err
	}
	fd, err := openIn(l.top, rel, unix.O_RDONLY|unix.O_DIRECTORY|unix.O_NONBLOCK)
	if err != nil {
		return nil // as it was looked through before, or nobody can list it
	}
	defer func() { _ = unix.Close(fd) }()
	var dirs []string
	err = dirents.List(fd, make([]byte, 8<<10), func(name []byte, typ byte) error {
		if l.entries++; l.entries > maxEntries || depth > maxDepth {
			return &BoundError{Path: rel, Why: "a file like .env has names beyond what is looked through"}
		}
		if typ == unix.DT_DIR {
			dirs = append(dirs, string(name))
			return nil
		}
		var st unix.Stat_t
		if typ != unix.DT_REG && typ != unix.DT_UNKNOWN || unix.Fstatat(fd, string(name), &st, unix.AT_SYMLINK_NOFOLLOW) != nil {
			return nil
		}
		if _, ok := shared[idOf(&st)]; ok {
			found[beneath.Join(rel, string(name))] = true
		}
		if beneath.IsDir(&st) {
			dirs = append(dirs, string(name))
		}
		return nil
	})
	for _, name := range dirs {
		if err == nil {
			err = l.others(beneath.Join(rel, name), depth+1, shared, found)
		}
	}
	return err
}

// Copy reads a file below a directory and masks it; same: there is nothing to mask in it. One that its caller may not read, or that
// is no file any more, has a copy that shows nothing.
func (m Masker) Copy(top int, rel string) (text []byte, same bool) {
	own, ok := readFile(top, rel)
	if !ok {
		return Unread(), false
	}
	text = m.Mask(rel, own)
	return text, bytes.Equal(text, own)
}

// readFile reads a file below a directory, as far as it is masked.
func readFile(top int, rel string) ([]byte, bool) {
	at, err := openIn(top, rel, unix.O_PATH)
	if err != nil {
		return nil, false
	}
	defer func() { _ = unix.Close(at) }()
	var st unix.Stat_t
	if unix.Fstat(at, &st) != nil || st.Mode&unix.S_IFMT != unix.S_IFREG { // opening a device or a pipe can do harm
		return nil, false
	}
	f, err := os.Open("/proc/self/fd/" + strconv.Itoa(at))
	if err != nil {
		return nil, false
	}
	defer func() { _ = f.Close() }()
	own, err := io.ReadAll(io.LimitReader(f, MaxFile+1))
	return own, err == nil
}
