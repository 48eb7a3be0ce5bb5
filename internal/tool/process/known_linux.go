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
		for _, name := range known {
			var st unix.Stat_t
			if unix.Stat(path.Join(dir, name), &st) == nil && st.Dev == file.Dev && st.Ino == file.Ino && !slices.Contains(names, name) {
				names = append(names, name)
			}
		}
	}
	return names
}

// interpreters lists the names in a directory of the lookup path that the table
// knows. The list is kept while the directory is the same; what the names stand
// for is not, since links lead elsewhere.
func (w *world) interpreters(dir string) (names []string, key fileKey) {
	var st unix.Stat_t
	if unix.Stat(dir, &st) != nil {
		return nil, fileKey{}
	}
	key = keyOf(&st)
	if names, ok := w.known.get(dir, key); ok {
		return names, key
	}
	names = knownIn(dir)
	if w.now().Sub(time.Unix(0, key.ctime)) > settled {
		w.known.put(dir, key, names)
	}
	return names, key
}

// knownIn reads a directory. One that cannot be read has no programs that could be
// found by it either.
func knownIn(dir string) []string {
	entries, _ := os.ReadDir(dir)
	var names []string
	for _, e := range entries {
		if ruleFor(e.Name()) != nil && len(names) < maxKnown {
			names = append(names, e.Name())
		}
	}
	return names
}
