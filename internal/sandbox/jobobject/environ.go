package jobobject

import (
	"slices"
	"strings"
	"unicode/utf16"
	"unicode/utf8"

	"palyra"
)

const (
	maxVariable = 32_767 // UTF-16 units
	maxBlock    = 1 << 20
)

// system is the directory of Windows.
type system struct{ root string } // C:\Windows

// environment is that of a run: the plan's, and the variables by which programs find the system and
// the run's own directories. The Runner's PATH, HOME and TMPDIR are for another kind of system.
func (s system) environment(env []string, private string) []string {
	own := map[string]string{
		"SystemRoot": s.root, "windir": s.root, "SystemDrive": s.root[:2], "ComSpec": s.root + `\System32\cmd.exe`,
		"PATH": s.root + `\System32;` + s.root + `;` + s.root + `\System32\Wbem`, "PATHEXT": ".COM;.EXE", "OS": "Windows_NT",
		"HOME": private + `\home`, "USERPROFILE": private + `\home`, "APPDATA": private + `\home\AppData\Roaming`,
		"LOCALAPPDATA": private + `\home\AppData\Local`,
		"TEMP":         private + `\tmp`, "TMP": private + `\tmp`, "TMPDIR": private + `\tmp`,
	}
	var out []string
	for _, v := range env {
		name, _, _ := strings.Cut(v, "=")
		if _, ok := find(own, name); !ok {
			out = append(out, v)
		}
	}
	for name, value := range own {
		out = append(out, name+"="+value)
	}
	return out
}

// find looks a variable up as Windows does.
func find(m map[string]string, name string) (string, bool) {
	for n, v := range m {
		if strings.EqualFold(n, name) {
			return v, true
		}
	}
	return "", false
}

// block encodes variables for CreateProcess: sorted by name, each with a zero at its end, and one more.
func block(env []string) ([]uint16, error) {
	bad := func(why string) ([]uint16, error) {
		return nil, palyra.Errorf(palyra.Invalid, palyra.ReasonEnvDenied, "the environment cannot be given to a program on Windows: %s", why)
	}
	type variable struct{ key, text string }
	var all []variable
	for _, v := range env {
		name, _, ok := strings.Cut(v, "=")
		if !ok || name == "" || !utf8.ValidString(v) || strings.ContainsRune(v, 0) {
			return bad("a variable has no name, or is not text")
		}
		all = append(all, variable{strings.ToUpper(name), v})
	}
	slices.SortStableFunc(all, func(a, b variable) int { return strings.Compare(a.key, b.key) })
	var out []uint16
	for i, v := range all {
		if i > 0 && all[i-1].key == v.key {
			return bad("two variables differ only in upper and lower case")
		}
		units := utf16.Encode([]rune(v.text))
		if len(units) >= maxVariable || len(out)+len(units) > maxBlock {
			return bad("it is too long")
		}
		out = append(append(out, units...), 0)
	}
	if len(out) == 0 {
		out = append(out, 0)
	}
	return append(out, 0), nil
}
