package quick

import (
	"fmt"
	"os"
	"path/filepath"

	"palyra"
)

// The programs of the command. People and agents call the first, which leaves the terminal UI to the third and whatever
// else it does not answer itself to the second.
const (
	CommandName = "palyra"
	FullName    = "palyra-full"
	TUIName     = "palyra-tui"
)

// Self is the path of the command that people and agents call: of the first program, also in the others.
func Self() (string, error) {
	self, err := os.Executable()
	if err != nil {
		return "", fmt.Errorf("cli: executable: %w", err)
	}
	dir, name := filepath.Split(self)
	if ext := filepath.Ext(name); name == FullName+ext || name == TUIName+ext {
		return filepath.Join(dir, CommandName+ext), nil
	}
	return self, nil
}

// Find finds a program of the command beside this one. It never looks into PATH, where anybody's program may come first.
func Find(name string) (string, error) {
	self, err := os.Executable()
	if err != nil {
		return "", fmt.Errorf("cli: executable: %w", err)
	}
	if self, err = filepath.EvalSymlinks(self); err != nil {
		return "", fmt.Errorf("cli: executable: %w", err)
	}
	return programBeside(self, name)
}

// programBeside finds the program of a name that belongs to another one.
func programBeside(self, name string) (string, error) {
	path := filepath.Join(filepath.Dir(self), name+filepath.Ext(self))
	if info, err := os.Stat(path); err != nil || !info.Mode().IsRegular() {
		return "", palyra.Errorf(palyra.NotFound, palyra.ReasonNotFound, "the program %s is not installed beside palyra", name).
			WithRemedy("install it in %s", filepath.Dir(path))
	}
	return path, nil
}
