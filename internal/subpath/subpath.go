// Package subpath says whether one path lies in another, by their text alone: it looks at no
// file and follows no link. Paths have slashes, and their names are bytes.
//
// The directory is always the first argument. Both are cleaned before they are compared, so
// that "/ws/../etc" does not pass for something in "/ws", nor "/ws//x" for something outside.
// What cannot be told lies outside: an empty path, a relative one beside an absolute one.
package subpath

import (
	"path"
	"strings"
)

// Within reports whether a path is dir or lies in it.
func Within(dir, p string) bool {
	_, ok := Rel(dir, p)
	return ok
}

// Below reports whether a path lies in dir and is not dir itself.
func Below(dir, p string) bool {
	rest, ok := Rel(dir, p)
	return ok && rest != "."
}

// Touch reports whether two paths are one, or one of them lies in the other.
func Touch(a, b string) bool { return Within(a, b) || Within(b, a) }

// Rel returns a path as it is called in dir: "." for dir itself. False: it does not lie there.
func Rel(dir, p string) (string, bool) {
	if dir == "" || p == "" {
		return "", false
	}
	dir, p = Clean(dir), Clean(p)
	switch {
	case dir == p:
		return ".", true
	case dir == ".":
		return p, !path.IsAbs(p) && !leadsUp(p)
	case dir == "/":
		return p[1:], path.IsAbs(p)
	case len(p) <= len(dir) || p[len(dir)] != '/' || !strings.HasPrefix(p, dir) || leadsUp(p[len(dir)+1:]):
		return "", false
	}
	return p[len(dir)+1:], true
}

// Clean is path.Clean, which takes long to see that there is nothing to do.
func Clean(p string) string {
	if p == "" || p[0] == '.' || len(p) > 1 && p[len(p)-1] == '/' || strings.Contains(p, "//") || strings.Contains(p, "/.") {
		return path.Clean(p)
	}
	return p
}

// leadsUp reports whether a clean relative path begins by leaving where it starts. After a directory
// that is called ".." more of that leads further out, not in.
func leadsUp(rest string) bool { return rest == ".." || strings.HasPrefix(rest, "../") }

// PlainID reports whether an id can be the name of a file.
func PlainID(s string) bool {
	for _, c := range []byte(s) {
		if !('0' <= c && c <= '9' || 'A' <= c && c <= 'Z' || 'a' <= c && c <= 'z' || c == '-') {
			return false
		}
	}
	return s != "" && len(s) <= 64
}

// Nearest is the innermost of the directories in which a path lies, and the path as it is called there; both are empty
// when it is one of them itself, or lies in none.
func Nearest(dirs []string, p string) (dir, rel string) {
	for _, d := range dirs {
		if d == p {
			return "", ""
		}
		if r, ok := Rel(d, p); ok && len(d) > len(dir) {
			dir, rel = d, r
		}
	}
	return dir, rel
}
