package quick

import (
	"fmt"
	"os"
	"path/filepath"

	"palyra"
)

// The two programs of the command. People and agents call the first, which leaves to the second whatever it does not
// answer itself.
const (
	CommandName = "palyra"
	FullName    = "palyra-full"
)

// Self is the path of the command that people and agents call: of the first program, also in the second.
func Self() (string, error) {
	self, err := os.Executable()
	if err != nil {
		return "", fmt.Errorf("cli: executable: %w", err)
	}
	dir, name := filepath.Split(self)
	if ext := filepath.Ext(name); name == FullName+ext {
		return filepath.Join(dir, CommandName+ext), nil
	}
	return self, nil
}

// FindFull finds the second program beside this one. It never looks into PATH, where anybody's program may come first.
func FindFull() (string, error) {
	self, err := os.Executable()
	if err != nil {
		return "", fmt.Errorf("cli: executable: %w", err)
	}
	if self, err = filepath.EvalSymlinks(self); err != nil {
		return "", fmt.Errorf("cli: executable: %w", err)
	}
	return fullBeside(self)
}

// fullBeside finds the second program that belongs to a first.
func fullBeside(self string) (string, error) {
	full := filepath.Join(filepath.Dir(self), FullName+filepath.Ext(self))
	if info, err := os.Stat(full); err != nil || !info.Mode().IsRegular() {
		return "", palyra.Errorf(palyra.NotFound, palyra.ReasonNotFound, "the program %s is not installed beside palyra", FullName).
			WithRemedy("install it in %s", filepath.Dir(full))
	}
	return full, nil
}
