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

// Until there is a room to finish, the cell must never become another program,
// whatever it is given.
func TestEverythingElseIsRefused(t *testing.T) {
	for _, args := range [][]string{nil, {""}, {"--help"}, {"--version", "x"}, {"--", "/bin/true"}, {"/bin/sh", "-c", "exit 0"}} {
		var out, errs bytes.Buffer
		code := run(args, &out, &errs)
		if code != refused || out.Len() != 0 || !strings.Contains(errs.String(), "runs no native processes") {
			t.Errorf("%q: exit %d, %q, %q", args, code, out.String(), errs.String())
		}
	}
}
