package program

import (
	"context"
	"io"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"palyra"
	"palyra/internal/cli/invocation"
	"palyra/internal/cli/quick"
	"palyra/internal/cli/tui/opening"
)

// A line for which the small program draws the first screen is taken, and no message comes in between.
func TestPlainLinesAreTaken(t *testing.T) {
	for _, line := range []string{
		"tui", "tui --bell --desktop --mouse", "--home tui tui", "tui --home -x", "--home=/x --no-color tui", "tui --home= --no-color --no-color",
	} {
		args := strings.Fields(line)
		if ok, _ := opening.Plain(args); !ok {
			t.Errorf("%s: nothing is drawn", line)
		}
		if !takes(args) {
			t.Errorf("%s: it is not taken", line)
		}
	}
	for _, line := range []string{"tui --of-a-later-version", "tui more", "--later tui", "status", "", "runs list"} {
		if takes(strings.Fields(line)) {
			t.Errorf("%s: the screen would stay", line)
		}
	}
}

// What the program has not itself is run in the full one beside it: its output is passed on, why it failed is told, and it
// has nothing to read and no terminal.
func TestOthersRunInTheFullProgram(t *testing.T) {
	self, err := os.Executable()
	if err != nil {
		t.Fatal(err)
	}
	full := filepath.Join(filepath.Dir(self), quick.FullName+filepath.Ext(self))
	var out strings.Builder
	run := func(args ...string) error {
		out.Reset()
		return inFull(t.Context(), &invocation.Invocation{Home: "/h"}, &out, args)
	}
	if err := run("status"); palyra.AsError(err).Reason != palyra.ReasonNotFound || palyra.AsError(err).Remedy == "" {
		t.Errorf("not installed: %v", err)
	}
	script := "#!/bin/sh\necho \"$@\"; cat; (: </dev/tty) 2>/dev/null && echo a terminal\n" +
		"[ \"$3\" != fail ] || { echo 'palyra: no such thing' >&2; head -c 100000 /dev/zero >&2; exit 4; }\n"
	if err := os.WriteFile(full, []byte(script), 0o755); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = os.Remove(full) })
	if err := run("status", "now"); err != nil || out.String() != "--home /h status now\n" {
		t.Errorf("%q, %v", out.String(), err)
	}
	if err := run("fail"); err == nil || palyra.AsError(err).Text != "no such thing" {
		t.Errorf("a failure: %v", err)
	}
	ctx, stop := context.WithCancel(t.Context())
	stop()
	if err := inFull(ctx, &invocation.Invocation{}, io.Discard, []string{"status"}); err == nil {
		t.Error("it ran although nobody wants it")
	}
}
