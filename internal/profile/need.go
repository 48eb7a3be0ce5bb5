package profile

import (
	"os"
	"path/filepath"
)

// Need is a program that work in a directory takes, and how to have it say its version.
type Need struct {
	Program string   `json:"program"`
	Args    []string `json:"-"`
	For     string   `json:"for,omitempty"` // the file that says so; empty: nothing there does
}

// needs are the programs that are known, with the files that tell.
var needs = []struct {
	program string
	arg     string
	common  bool // looked for where no file tells anything
	files   []string
}{
	{"node", "--version", true, []string{"package.json"}},
	{"npm", "--version", false, []string{"package-lock.json", "package.json"}},
	{"pnpm", "--version", false, []string{"pnpm-lock.yaml"}},
	{"yarn", "--version", false, []string{"yarn.lock"}},
	{"python3", "--version", true, []string{"pyproject.toml", "requirements.txt", "setup.py", "setup.cfg", "Pipfile"}},
	{"uv", "--version", false, []string{"uv.lock"}},
	{"go", "version", true, []string{"go.mod", "go.work"}},
	{"cargo", "--version", true, []string{"Cargo.toml"}},
	{"make", "--version", true, []string{"Makefile", "makefile", "GNUmakefile"}},
	{"git", "--version", false, []string{".git"}},
}

// Needs lists the programs that the files at the top of a directory call for, or else the common ones. It reads names
// only; dir may be empty.
func Needs(dir string) []Need {
	var told, common []Need
	for _, n := range needs {
		need := Need{Program: n.program, Args: []string{n.arg}}
		if n.common {
			common = append(common, need)
		}
		for _, f := range n.files {
			if _, err := os.Lstat(filepath.Join(dir, f)); err == nil && dir != "" {
				need.For = f
				told = append(told, need)
				break
			}
		}
	}
	if len(told) == 0 {
		return common
	}
	return told
}
