package process

import (
	"os"
	"path"
	"slices"
	"time"

	"golang.org/x/sys/unix"
)

// maxKnown bounds the interpreters that are looked at in one directory. A system
// with every row of the table, in several versions, has about a hundred.
const maxKnown = 1024

// aliases are the names that interpreters on the lookup path have for the very same
// file: that of a hard link says nothing about what it is.
func (w *world) aliases(file *unix.Stat_t) []string {
	var names []string
	seen := make([]fileKey, 0, len(w.dirs))
	for _, dir := range w.dirs {
		known, key := w.interpreters(dir)
		if slices.Contains(seen, key) { // /bin is often /usr/bin
			continue
		}
		seen = append(seen, key)
		for _, k := range known {
			if k.link {
				k.look(dir, unix.Stat)
			}
			if k.dev == uint64(file.Dev) && k.ino == file.Ino && !slices.Contains(names, k.name) {
				names = append(names, k.name)
			}
		}
	}
	return names
}

// look finds out which file a name stands for. What cannot be looked at is none, and may be another file the next time.
func (k *knownProgram) look(dir string, stat func(string, *unix.Stat_t) error) {
	var st unix.Stat_t
	if stat(path.Join(dir, k.name), &st) != nil {
		st = unix.Stat_t{Mode: unix.S_IFLNK}
	}
	k.dev, k.ino, k.link = uint64(st.Dev), st.Ino, st.Mode&unix.S_IFMT == unix.S_IFLNK
}

// interpreters lists the names in a directory of the lookup path that the table
// knows. The list is kept while the directory is the same.
func (w *world) interpreters(dir string) (files []knownProgram, key fileKey) {
	var st unix.Stat_t
	if unix.Stat(dir, &st) != nil {
		return nil, fileKey{}
	}
	key = keyOf(&st)
	if files, ok := w.known.get(dir, key); ok {
		return files, key
	}
	files = knownIn(dir)
	if w.now().Sub(time.Unix(0, key.ctime)) > settled {
		w.known.put(dir, key, files)
	}
	return files, key
}

// knownIn reads a directory. One that cannot be read has no programs that could be
// found by it either.
func knownIn(dir string) (files []knownProgram) {
	entries, _ := os.ReadDir(dir)
	for _, e := range entries {
		if ruleFor(e.Name()) != nil && len(files) < maxKnown {
			k := knownProgram{name: e.Name()}
			k.look(dir, unix.Lstat)
			files = append(files, k)
		}
	}
	return files
}
