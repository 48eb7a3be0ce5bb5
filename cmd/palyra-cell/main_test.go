package main

import (
	"bytes"
	"strings"
	"testing"
)

func TestVersion(t *testing.T) {
	var out, errs bytes.Buffer
	if code := run([]string{"--version"}, &out, &errs); code != 0 || out.String() != "palyra-cell devel\n" || errs.Len() != 0 {
		t.Errorf("exit %d, %q, %q", code, out.String(), errs.String())
	}
}

// The cell becomes a program only for a supervisor: whatever a command line asks
// for is refused in one line.
func TestEverythingElseIsRefused(t *testing.T) {
	for _, args := range [][]string{
		nil,
		{""},
		{"--help"},
		{"--version", "x"},
		{"supervise", "x"},
		{"launch", "/bin/true"},
		{"launch", "room", "x"},
		{"inside"},
		{"inside", ""},
		{"inside", "a", "b"},
		{"--", "/bin/true"},
		{"/bin/sh", "-c", "exit 0"},
	} {
		var out, errs bytes.Buffer
		code := run(args, &out, &errs)
		if code != refused || out.Len() != 0 || strings.Count(errs.String(), "\n") != 1 || !strings.Contains(errs.String(), "never run by hand") {
			t.Errorf("%q: exit %d, %q, %q", args, code, out.String(), errs.String())
		}
	}
}
