package seal

import (
	"bytes"

	"palyra/internal/trusted"
)

// isNew reports whether a directory is known to be new.
func (w *walker) isNew(i int32) bool {
	return i != 0 && w.base != nil && len(w.base.dirs) > 0 && w.out.dirs[i].base < 0
}

// kids returns the directories that a directory had.
func (w *walker) kids(base int32) map[string]int32 {
	b := w.base.dirs[base]
	if b.kid == 0 {
		return nil
	}
	m := make(map[string]int32, b.kid)
	for j := b.child; j < b.child+b.kid; j++ {
		m[w.base.dirs[j].name] = j
	}
	return m
}

// repository reports whether git takes the gathered directory for a repository, and returns the
// name of a file without which it would not.
func (w *walker) repository() (string, bool) {
	const hasHead, hasObjects, hasRefs, hasCommon = 1, 2, 4, 8
	have, head, start := 0, "", 0
	for _, f := range w.found {
		name := w.names[start:f.end]
		start = f.end
		if len(name) < 4 || len(name) > 32 {
			continue
		}
		switch w.fold = trusted.Fold(w.fold[:0], name); string(w.fold) {
		case "head":
			have |= hasHead
			if head == "" || string(name) == "HEAD" {
				head = string(bytes.Clone(name))
			}
		case "objects":
			have |= hasObjects
		case "refs":
			have |= hasRefs
		case "commondir":
			have |= hasCommon
		}
	}
	return head, have&(hasHead|hasObjects|hasRefs) == hasHead|hasObjects|hasRefs || have&(hasHead|hasCommon) == hasHead|hasCommon
}

// own is the path of a directory in the form of entries.
func own(path string) string {
	if path == "" {
		return "."
	}
	return path
}

func baseLen(path string) int {
	for i := len(path) - 1; i >= 0; i-- {
		if path[i] == '/' {
			return len(path) - 1 - i
		}
	}
	return len(path)
}
