package sandbox

import (
	"context"
	"io"
	"path/filepath"

	"golang.org/x/sys/unix"

	"palyra"
)

// input is a file that a run reads where others could change it, as it was when the
// run began.
type input struct {
	palyra.Input
	host string
	id   fileID // the zero one: there was none
}

// maxInput is more than any plan binds.
const maxInput = 256 << 20

// noteInputs looks at the inputs once more, just before the run: at those that it
// finds in a workspace which others write as well. A staged run has copies of its
// own. A program that is run by its path from a copy laid over it counts too.
func (l *launch) noteInputs(ctx context.Context) error {
	if l.job.Staged {
		return nil
	}
	for _, in := range l.plan.Inputs {
		if filepath.IsAbs(in.Path) {
			continue // no run can write there
		}
		l.inputs = append(l.inputs, input{Input: in, host: filepath.Join(l.plan.Workspace.Path, in.Path)})
	}
	if exe := l.plan.Executable; exe.Sealed && walled(l.backend) {
		l.inputs = append(l.inputs, input{Input: palyra.Input{Path: exe.Path, Digest: exe.Digest}, host: outside(l.plan.Mounts, exe.Path)})
	}
	return as(l.who, func() error {
		for i := range l.inputs {
			in := &l.inputs[i]
			id, digest, err := in.look(ctx)
			if err != nil {
				return err
			}
			if digest != in.Digest {
				return planChanged([]string{show(in.Path)})
			}
			in.id = id
		}
		return nil
	})
}

// look says which file an input is now, and what is in it. Whatever cannot be read is
// nothing, as it is for the run.
func (in *input) look(ctx context.Context) (fileID, palyra.Digest, error) {
	f, st, err := openRegular(in.host)
	if err != nil {
		return fileID{}, "", nil
	}
	defer func() { _ = f.Close() }()
	digest, err := sum(ctx, f, io.Discard, maxInput)
	return idOf(st), digest, err
}

// lookAgain returns the inputs that are not what they were when the run began. A
// file that was swapped and put back is another one, or has another time of change, which
// nobody can set.
func (l *launch) lookAgain() (changed []string) {
	err := as(l.who, func() error {
		for i := range l.inputs {
			in := &l.inputs[i]
			var st unix.Stat_t
			var now fileID
			if unix.Lstat(in.host, &st) == nil && st.Mode&unix.S_IFMT == unix.S_IFREG {
				now = idOf(&st)
			}
			if now != in.id && (in.id != fileID{} || in.readable()) {
				changed = append(changed, in.Path)
			}
		}
		return nil
	})
	if err != nil { // then nobody can say that they are
		for i := range l.inputs {
			changed = append(changed, l.inputs[i].Path)
		}
	}
	return changed
}

// readable reports whether there is something now that the run could have read.
func (in *input) readable() bool {
	f, _, err := openRegular(in.host)
	if err == nil {
		_ = f.Close()
	}
	return err == nil
}
