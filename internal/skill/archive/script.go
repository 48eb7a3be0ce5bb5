package archive

import (
	"path"
	"strings"

	"palyra/internal/pattern"
)

// interpreters are the programs that run files of these names.
var interpreters = map[string]string{
	".py": "python3", ".sh": "sh", ".bash": "bash", ".js": "node", ".mjs": "node", ".cjs": "node", ".rb": "ruby", ".pl": "perl",
}

var (
	shebang = pattern.Later(`^#![ \t]*(?:/usr/bin/env[ \t]+(?:-S[ \t]+)?)?(?:[^\s/]*/)*([A-Za-z0-9._+-]+)([^\n]{0,200})`)
	option  = pattern.Later(`^-{0,2}[A-Za-z0-9][A-Za-z0-9._=-]{0,63}$`)
)

// Interpreter is the program that runs a file of a folder, by its name, and what that gets before the file: what the file's #!
// line says or, without one, what its name does. Empty: it is no script.
func Interpreter(name string, raw []byte) (program string, options []string) {
	m := shebang().FindSubmatch(raw)
	if m == nil {
		return interpreters[strings.ToLower(path.Ext(name))], nil
	}
	for _, word := range strings.Fields(string(m[2])) {
		if !option().MatchString(word) { // what a shell would make something of
			return string(m[1]), nil
		}
		options = append(options, word)
	}
	return string(m[1]), options
}

// Skipped reports whether a name is that of what is made by running things or left by systems, and comes in by no package.
func Skipped(name string) bool {
	return strings.HasPrefix(name, ".") || name == "__pycache__" || name == "node_modules" || name == "__MACOSX" ||
		strings.HasSuffix(name, ".pyc") || strings.HasSuffix(name, "~")
}
