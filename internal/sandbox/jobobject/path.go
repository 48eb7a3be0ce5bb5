package jobobject

import (
	"slices"
	"strings"
	"unicode/utf8"
)

const maxPath = 32_000 // characters; the system takes 32,767

// clean reports whether a path is absolute, on a drive, and unambiguous: no share, no device, no
// stream, nothing that the system would change or look for elsewhere.
func clean(p string) bool {
	if len(p) < 4 || len(p) > maxPath || !utf8.ValidString(p) || p[1] != ':' || p[2] != '\\' || !drive(p[0]) {
		return false
	}
	return !slices.ContainsFunc(strings.Split(p[3:], `\`), func(s string) bool { return !cleanName(s) })
}

func drive(c byte) bool { return 'A' <= c && c <= 'Z' || 'a' <= c && c <= 'z' }

func cleanName(s string) bool {
	if s == "" || strings.HasSuffix(s, ".") || strings.HasSuffix(s, " ") || strings.ContainsAny(s, `<>:"/\|?*`) {
		return false
	}
	for _, c := range s {
		if c < ' ' {
			return false
		}
	}
	return !device(s)
}

// device reports whether a name means a device, whatever its extension.
func device(s string) bool {
	base, _, _ := strings.Cut(s, ".")
	base = strings.ToUpper(strings.TrimRight(base, " "))
	switch base {
	case "CON", "PRN", "AUX", "NUL", "CONIN$", "CONOUT$", "CLOCK$":
		return true
	}
	if rest, ok := strings.CutPrefix(base, "COM"); ok {
		return port(rest)
	}
	rest, ok := strings.CutPrefix(base, "LPT")
	return ok && port(rest)
}

func port(s string) bool {
	return slices.Contains([]string{"0", "1", "2", "3", "4", "5", "6", "7", "8", "9", "¹", "²", "³"}, s)
}

// within reports whether a clean path is dir or lies in it.
func within(dir, p string) bool {
	if !clean(dir) || !clean(p) {
		return false
	}
	d, q := strings.Split(dir, `\`), strings.Split(p, `\`)
	return len(q) >= len(d) && slices.EqualFunc(d, q[:len(d)], strings.EqualFold)
}

// batch reports whether a program is run by the command interpreter.
func batch(p string) bool {
	p = strings.ToLower(strings.TrimRight(p, ". "))
	return strings.HasSuffix(p, ".bat") || strings.HasSuffix(p, ".cmd")
}
