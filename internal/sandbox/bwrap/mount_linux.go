package bwrap

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"

	"golang.org/x/sys/unix"

	"palyra"
	"palyra/internal/subpath"
)

const (
	maxMounts    = 64
	maxFiles     = 64
	maxFileBytes = 1 << 20 // of one generated file
	maxSubmounts = 64
)

func workspaceDenied(format string, args ...any) *palyra.Error {
	return palyra.Errorf(palyra.Denied, palyra.ReasonWorkspaceDenied, format, args...)
}

func badProfile(format string, args ...any) *palyra.Error {
	return palyra.Errorf(palyra.Invalid, palyra.ReasonBadProfile, format, args...).
		WithRemedy("correct the profile; 'palyra sandbox profiles' shows it")
}

// workspace binds the workspace at its own path, by a descriptor that its owner could open without
// following a link. bubblewrap binds by the path that the descriptor then has and compares the
// result with the descriptor, so that a workspace that is swapped on the way is refused.
func (a *arguments) workspace(r Room, places *placeList) error {
	if r.Workspace == "" {
		return nil
	}
	if why := places.take(r.Workspace, true); why != "" {
		return workspaceDenied("%s cannot be a workspace in a room of its own: %s", Show(r.Workspace), why).
			WithRemedy("use a directory of your own, such as ~/project")
	}
	f, err := r.open(r.Workspace)
	if err != nil {
		return workspaceClosed(r, err)
	}
	n := a.give(f)
	var st unix.Stat_t
	if err := unix.Fstat(int(f.Fd()), &st); err != nil {
		return fmt.Errorf("bwrap: workspace: %w", err)
	}
	if st.Mode&unix.S_IFMT != unix.S_IFDIR || int64(st.Uid) != r.UID {
		return palyra.Errorf(palyra.Conflict, palyra.ReasonPlanChanged, "the workspace %s is not a directory of uid %d any more",
			Show(r.Workspace), r.UID).
			WithRemedy("look at what changed and propose the call anew")
	}
	how := "--bind-fd"
	if r.Stages != "" {
		how = "--ro-bind-fd"
	}
	a.add(how, n, r.Workspace)
	return a.submounts(r)
}

// StagesPath is where a template has the directory of stages. Each room mounts its own /run over it, once it is on its
// stage.
const StagesPath = "/run/stages"

// stages binds the directory of stages. Whoever owns a stage must be able to reach it; nobody can list them.
func (a *arguments) stages(r Room) error {
	if r.Stages == "" {
		return nil
	}
	f, err := r.open(r.Stages)
	if err != nil {
		return fmt.Errorf("bwrap: stages: %w", err)
	}
	a.add("--bind-fd", a.give(f), StagesPath)
	return nil
}

// repository binds what the workspace is a work tree of, read-only, by a descriptor of the very directory that was
// registered. The cell lays its stage over it.
func (a *arguments) repository(r Room, places *placeList) error {
	if r.Repository.Path == "" {
		return nil
	}
	name := Show(r.Repository.Path)
	if why := places.take(r.Repository.Path, true); why != "" {
		return workspaceDenied("the repository %s of the workspace cannot be shown in a room: %s", name, why).
			WithRemedy("have the repository in a project directory, and register the work tree anew")
	}
	f, err := r.open(r.Repository.Path)
	if err != nil {
		return otherRepository(name).WithCause(err)
	}
	n := a.give(f)
	var st unix.Stat_t
	if err := unix.Fstat(int(f.Fd()), &st); err != nil {
		return fmt.Errorf("bwrap: repository: %w", err)
	}
	if st.Mode&unix.S_IFMT != unix.S_IFDIR || int64(st.Uid) != r.UID || int64(st.Ino) != r.Repository.Ino {
		return otherRepository(name)
	}
	a.add("--ro-bind-fd", n, r.Repository.Path)
	return nil
}

func otherRepository(name string) *palyra.Error {
	return palyra.Errorf(palyra.Conflict, palyra.ReasonPlanChanged,
		"the repository %s is not the one that was registered with the workspace", name).
		WithRemedy("look at what changed, and register the workspace once more: 'palyra workspace add'")
}

// submounts makes file systems mounted inside the workspace read-only: seals do not reach into
// other file systems, so nothing may be made there.
func (a *arguments) submounts(r Room) error {
	info, err := os.ReadFile("/proc/self/mountinfo")
	if err != nil {
		return fmt.Errorf("bwrap: submounts: %w", err)
	}
	below := MountsBelow(string(info), r.Workspace)
	if len(below) > maxSubmounts {
		return workspaceDenied("more than %d file systems are mounted in the workspace %s", maxSubmounts, Show(r.Workspace)).
			WithRemedy("unmount them, or use a directory without")
	}
	for _, m := range below {
		a.add("--remount-ro", m)
	}
	return nil
}

// MountsBelow returns the mount points below dir, once each and in order.
func MountsBelow(info, dir string) (below []string) {
	for line := range strings.Lines(info) {
		for range 4 { // the fifth word
			_, line, _ = strings.Cut(line, " ")
		}
		point, _, ok := strings.Cut(line, " ")
		if !ok {
			continue
		}
		if m := unescape(point); m != dir && subpath.Within(dir, m) && !slices.Contains(below, m) {
			below = append(below, m)
		}
	}
	slices.Sort(below)
	return below
}

// unescape decodes the kernel's escapes in lists of mounts: a backslash and three octal digits.
func unescape(s string) string {
	if strings.IndexByte(s, '\\') < 0 {
		return s
	}
	var b strings.Builder
	for i := 0; i < len(s); i++ {
		if c, ok := octal(s[i:]); ok {
			b.WriteByte(c)
			i += 3
			continue
		}
		b.WriteByte(s[i])
	}
	return b.String()
}

func octal(s string) (byte, bool) {
	if len(s) < 4 || s[0] != '\\' {
		return 0, false
	}
	n := 0
	for _, d := range []byte(s[1:4]) {
		if d < '0' || d > '7' {
			return 0, false
		}
		n = n*8 + int(d-'0')
	}
	return byte(n), n < 256
}

// mounts binds the paths that profiles show beyond the workspace.
func (a *arguments) mounts(r Room, places *placeList) error {
	if len(r.Mounts) > maxMounts {
		return badProfile("%d mounts are too many; %d is the most", len(r.Mounts), maxMounts)
	}
	for i, m := range r.Mounts {
		if slices.Contains(r.Mounts[:i], m) {
			continue // two profiles mount the same
		}
		if err := a.mount(r, m, places); err != nil {
			return err
		}
	}
	return nil
}

func (a *arguments) mount(r Room, m palyra.Mount, places *placeList) error {
	real, err := r.resolve(m)
	if err != nil {
		return err
	}
	f, err := r.open(real)
	if err != nil {
		return mountClosed(r, m, err)
	}
	n := a.give(f)
	var st unix.Stat_t
	if err := unix.Fstat(int(f.Fd()), &st); err != nil {
		return fmt.Errorf("bwrap: mount: %w", err)
	}
	kind := st.Mode & unix.S_IFMT
	if kind != unix.S_IFDIR && kind != unix.S_IFREG {
		return badProfile("%s is neither a directory nor a file", Show(m.Source))
	}
	if why := places.take(m.Target, kind == unix.S_IFDIR); why != "" {
		return badProfile("%s cannot be shown at %s: %s", Show(m.Source), Show(m.Target), why)
	}
	how := "--ro-bind-fd"
	if m.Writable {
		how = "--bind-fd"
	}
	a.add(how, n, m.Target)
	return nil
}

// resolve returns the real path of a mount's source, and refuses a source that no room may have.
func (r Room) resolve(m palyra.Mount) (string, error) {
	if why := badTarget(m.Source); why != "" {
		return "", badProfile("%s cannot be mounted: %s", Show(m.Source), why)
	}
	var real string
	err := r.asOwner(func() (err error) {
		real, err = filepath.EvalSymlinks(m.Source)
		return err
	})
	if err != nil {
		return "", mountClosed(r, m, err)
	}
	for _, p := range []string{"/proc", "/sys", "/dev"} {
		if subpath.Within(p, real) {
			return "", badProfile("%s cannot be mounted: it lies in %s", Show(m.Source), p)
		}
	}
	if why := badTarget(real); why != "" {
		return "", badProfile("%s cannot be mounted: %s", Show(m.Source), why)
	}
	if m.Writable && r.Workspace != "" && subpath.Touch(real, r.Workspace) {
		return "", badProfile("%s cannot be mounted to be written: it would be a second way into the workspace, past its seals", Show(m.Source))
	}
	return real, nil
}

// roomFiles adds small files to the room, read-only everywhere.
func (a *arguments) roomFiles(r Room, places *placeList) error {
	if len(r.Files) > maxFiles {
		return badProfile("%d files are too many; %d is the most", len(r.Files), maxFiles)
	}
	for i, f := range r.Files {
		if slices.Contains(r.Files[:i], f) {
			continue
		}
		if len(f.Text) > maxFileBytes {
			return badProfile("the file for %s has more than %d bytes", Show(f.Target), maxFileBytes)
		}
		if why := places.take(f.Target, false); why != "" {
			return badProfile("no file can be laid at %s: %s", Show(f.Target), why)
		}
		n, err := a.data(f.Target, f.Text)
		if err != nil {
			return err
		}
		how := "--ro-bind-data"
		if inPrivate(f.Target) {
			how = "--file" // the cell mounts it; it could not mount a file without a name
		}
		a.add("--perms", "0444", how, n, f.Target)
	}
	return nil
}

// maxPack is the most files of a pack: as many as a package has.
const maxPack = 256

// pack adds the folder of a skill, from memory, as copies in the room's own root, which becomes read-only as a whole.
func (a *arguments) pack(r Room, places *placeList) error {
	if r.Pack.At == "" {
		return nil
	}
	if why := places.take(r.Pack.At, true); why != "" || len(r.Pack.Files) > maxPack {
		return badProfile("the folder of a skill cannot be laid at %s: %d files, %s", Show(r.Pack.At), len(r.Pack.Files), why)
	}
	for _, f := range r.Pack.Files {
		if !subpath.Below(r.Pack.At, f.Path) {
			return badProfile("the file %s does not lie in the folder of its skill", Show(f.Path))
		}
		n, err := a.data(f.Path, string(f.Data))
		if err != nil {
			return err
		}
		a.add("--perms", "0555", "--file", n, f.Path)
	}
	return nil
}

// workspaceClosed explains why a workspace could not be opened.
func workspaceClosed(r Room, err error) error {
	name := Show(r.Workspace)
	switch {
	case errors.Is(err, unix.EACCES):
		return workspaceDenied("uid %d cannot reach its workspace %s: a directory above it is closed to that user", r.UID, name).
			WithRemedy("move the workspace, or let the user pass ('chmod o+x' on the directories above it)").WithCause(err)
	case errors.Is(err, unix.ELOOP), errors.Is(err, unix.ENOENT), errors.Is(err, unix.ENOTDIR):
		return palyra.Errorf(palyra.Conflict, palyra.ReasonPlanChanged, "the workspace %s is not there any more, or a link is in its place",
			name).
			WithRemedy("look at what changed and propose the call anew").WithCause(err)
	}
	return fmt.Errorf("bwrap: workspace: %w", err)
}

// mountClosed explains why the source of a mount could not be opened.
func mountClosed(r Room, m palyra.Mount, err error) error {
	name := Show(m.Source)
	switch {
	case errors.Is(err, unix.EACCES):
		return badProfile("uid %d cannot reach %s, which the profile mounts", r.UID, name).WithCause(err)
	case errors.Is(err, unix.ELOOP), errors.Is(err, unix.ENOENT), errors.Is(err, unix.ENOTDIR):
		return badProfile("%s, which the profile mounts, is not there", name).WithCause(err)
	}
	return fmt.Errorf("bwrap: mount: %w", err)
}
