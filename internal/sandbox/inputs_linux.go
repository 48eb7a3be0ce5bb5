package sandbox

import (
	"context"
	"io"
	"path/filepath"

	"golang.org/x/sys/unix"

	"palyra"
	"palyra/internal/moved"
	"palyra/internal/subpath"
)

// input is a file that a run reads where others could change it, as it was when the run began.
type input struct {
	palyra.Input
	host string
	id   fileID // zero: the file did not exist
	link bool   // it is a link to the file
	way  int    // id of the watch on the directories above it
}

// watch notices moves of directories.
type watch = moved.Watch

// maxInput is the largest file that a plan binds.
const maxInput = 256 << 20

// noteInputs looks at the inputs once more, just before the run, if they lie where others can
// write. A staged run has its own copies of those in the workspace. A program that is run by its
// path from a copy laid over it counts too.
func (l *runStart) noteInputs(ctx context.Context) error {
	for _, in := range l.plan.Inputs {
		if host, others := l.openToOthers(in.Path); others {
			l.inputs = append(l.inputs, input{Input: in, host: host})
		}
	}
	if exe := l.plan.Executable; exe.Sealed && walled(l.backend) && !(l.job.Staged && subpath.Within(l.plan.Workspace.Path, exe.Path)) {
		host := l.outside(hostPath(l.plan.Mounts, exe.Path))
		l.inputs = append(l.inputs, input{Input: palyra.Input{Path: exe.Path, Digest: exe.Digest}, host: host})
	}
	for _, link := range l.plan.Links {
		if !l.job.Staged {
			l.inputs = append(l.inputs, input{
				Input: palyra.Input{Path: link.Path}, host: l.outside(filepath.Join(l.plan.Workspace.Path, link.Path)),
				link: true,
			})
		}
	}
	if len(l.inputs) == 0 {
		return nil
	}
	l.ways = moved.New()
	return runAs(l.who, func() error {
		for i := range l.inputs {
			in := &l.inputs[i]
			if in.way = l.ways.Add(l.rootOf(in.host), in.host); in.link {
				continue
			}
			id, digest, err := in.look(ctx)
			if err != nil {
				return err
			}
			if digest != in.Digest {
				return palyra.PlanChanged(show(in.Path))
			}
			in.id = id
		}
		return nil
	})
}

// rootOf is the directory below which others can move the directories that lead to a file.
func (l *runStart) rootOf(host string) string {
	if top := l.outside(l.plan.Workspace.Path); subpath.Within(top, host) {
		return top
	}
	for _, m := range l.plan.Mounts {
		if m.Writable && subpath.Within(m.Source, host) {
			return m.Source
		}
	}
	return filepath.Dir(host)
}

// forgetInputs ends the watch.
func (l *runStart) forgetInputs() {
	if l.ways != nil {
		l.ways.Close()
		l.ways = nil
	}
}

// openToOthers reports whether another run could write where the program finds a file, and where
// that is outside the room: in a workspace of which the run has no copies, or in a cache.
func (l *runStart) openToOthers(path string) (host string, others bool) {
	if !filepath.IsAbs(path) {
		return l.outside(filepath.Join(l.plan.Workspace.Path, path)), !l.job.Staged
	}
	return hostPath(l.plan.Mounts, path), walled(l.backend) && palyra.InWritableMount(l.plan.Mounts, path)
}

// look returns the identity and the digest of an input. An unreadable one counts as missing, as it
// does for the run.
func (in *input) look(ctx context.Context) (fileID, palyra.Digest, error) {
	f, st, err := openRegular(in.host)
	if err != nil {
		return fileID{}, "", nil
	}
	defer func() { _ = f.Close() }()
	digest, err := sum(ctx, f, io.Discard, maxInput)
	return idOf(st), digest, err
}

// lookAgain returns the inputs that changed since the run began. A file that was swapped and put back has another
// identity, or another ctime, which nobody can set; the directories above it are watched for moves.
func (l *runStart) lookAgain() (changed []string) {
	if len(l.inputs) == 0 {
		return nil
	}
	err := runAs(l.who, func() error {
		for i := range l.inputs {
			in := &l.inputs[i]
			if l.ways.Moved(in.way) {
				changed = append(changed, in.Path)
				continue
			}
			if in.link {
				continue
			}
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
	if err != nil { // then it is unknown whether they changed
		for i := range l.inputs {
			changed = append(changed, l.inputs[i].Path)
		}
	}
	return changed
}

// readable reports whether the run could read the file now.
func (in *input) readable() bool {
	f, _, err := openRegular(in.host)
	if err == nil {
		_ = f.Close()
	}
	return err == nil
}
