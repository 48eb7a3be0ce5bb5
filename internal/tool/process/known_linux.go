package process

import (
	"os"
	"path"
	"slices"
	"time"

	"golang.org/x/sys/unix"
)

// maxKnown is the most interpreters of one directory that are looked at. A system with every row of
// the table, in several versions, has about a hundred.
const maxKnown = 1024

// aliases returns the names of interpreters on the lookup path that are this very file: the name of
// a hard link does not tell what the file is.
func (w *world) aliases(file *unix.Stat_t) []string {
	var names []string
	seen := make([]fileKey, 0, len(w.dirs))
	for _, dir := range w.dirs {
		known, key := w.interpreters(dir)
		if slices.Contains(seen, key) { // /bin is often a link to /usr/bin
			continue
		}
		seen = append(seen, key)
		for _, k := range known {
			if k.link {
				k.look(dir, w.target)
			}
			if k.dev == uint64(file.Dev) && k.ino == file.Ino && !slices.Contains(names, k.name) {
				names = append(names, k.name)
			}
		}
	}
	return names
}

// target is unix.Stat, noted.
func (w *world) target(name string, st *unix.Stat_t) error {
	err := unix.Stat(name, st)
	w.print.Target(name, st, err)
	return err
}

// look finds out which file a name stands for. A name that cannot be looked at stands for no file,
// and may be another one the next time.
func (k *knownProgram) look(dir string, stat func(string, *unix.Stat_t) error) {
	var st unix.Stat_t
	if stat(path.Join(dir, k.name), &st) != nil {
		st = unix.Stat_t{Mode: unix.S_IFLNK}
	}
	k.dev, k.ino, k.link = uint64(st.Dev), st.Ino, st.Mode&unix.S_IFMT == unix.S_IFLNK
}

// interpreters lists the names in a directory of the lookup path that the table knows. The list is
// cached until the directory changes.
func (w *world) interpreters(dir string) (files []knownProgram, key fileKey) {
	var st unix.Stat_t
	err := unix.Stat(dir, &st)
	if w.print.Listed(dir, &st, err); err != nil {
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

// knownIn reads a directory. In an unreadable one no program could be found either.
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
