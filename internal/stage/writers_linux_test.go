package stage

import (
	"context"
	"errors"
	"os"
	"os/exec"
	"path/filepath"
	"testing"

	"golang.org/x/sys/unix"

	"palyra/internal/beneath"
)

// A copy that somebody still has open for writing cannot be run: it is waited
// for, and no longer than the call lasts.
func TestWritersOfACopyAreWaitedFor(t *testing.T) {
	t.Parallel()
	file := filepath.Join(t.TempDir(), "s.sh")
	f, err := os.OpenFile(file, os.O_CREATE|os.O_WRONLY, 0o700)
	check(t, err)
	_, err = f.WriteString("#!/bin/sh\n")
	check(t, err)
	if err := exec.Command(file).Run(); !errors.Is(err, unix.ETXTBSY) {
		t.Errorf("the control runs: %v", err)
	}
	ended, cancel := context.WithCancel(t.Context())
	cancel()
	if err := beneath.LetGo(ended, unix.AT_FDCWD, file); !errors.Is(err, context.Canceled) {
		t.Errorf("with a writer: %v", err)
	}
	check(t, f.Close())
	check(t, beneath.LetGo(t.Context(), unix.AT_FDCWD, file))
	check(t, exec.Command(file).Run())
}
