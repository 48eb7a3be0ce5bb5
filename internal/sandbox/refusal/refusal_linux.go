package refusal

import (
	"context"
	"fmt"

	"golang.org/x/sys/unix"

	"palyra"
	"palyra/internal/cell"
)

// NotBegun is the refusal of a call that was given up.
func NotBegun(ctx context.Context) *palyra.Error {
	return SpawnFailed("the call ended before the program was started").WithCause(ctx.Err())
}

// NotExecutable is the refusal of a program that the kernel does not execute there. The remedy says what can be run.
func NotExecutable(r cell.Report, remedy string) *palyra.Error {
	return palyra.Errorf(palyra.Invalid, palyra.ReasonNotExecutable, "the program cannot be executed here: %s", why(r)).
		WithRemedy("%s", remedy).WithCause(Cause(r))
}

// NotStarted is what a cell's failure says to a person who can do nothing about it.
func NotStarted(r cell.Report) *palyra.Error {
	return SpawnFailed("the cell could not start the program at step %q: %s", palyra.Clip(r.Step, 32), why(r)).WithCause(Cause(r))
}

// Cause is a cell's failure as the log has it.
func Cause(r cell.Report) error { return fmt.Errorf("cell: %s: %s (%d)", r.Step, r.Text, r.Errno) }

// why prefers the system's words to the cell's.
func why(r cell.Report) string {
	text := r.Text
	if r.Errno > 0 {
		text = unix.Errno(r.Errno).Error()
	}
	return palyra.Clip(text, 200)
}
