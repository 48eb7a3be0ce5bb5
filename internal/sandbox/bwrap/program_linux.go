package bwrap

import (
	"cmp"
	"context"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"io"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"sync"
	"time"

	"golang.org/x/sys/unix"

	"palyra"
	"palyra/internal/sandbox/local"
)

// DefaultPath is the usual path of bubblewrap.
const DefaultPath = "/usr/bin/bwrap"

const (
	bwrapMax     = 64 << 20         // far above its size
	bwrapWithin  = 10 * time.Second // for it to answer
	bwrapInstall = "install bubblewrap ('apt install bubblewrap', 'dnf install bubblewrap', 'pacman -S bubblewrap' or 'apk add " +
		"bubblewrap'), or set process.bwrap to where it is; without it programs can run in tier b only: --tier b, or process.tier"
)

// bwrapNeeds are the options without which no room can be built. A bwrap without one of them could
// only build a weaker room.
var bwrapNeeds = strings.Fields(`
	--args --as-pid-1 --bind-fd --cap-add --chdir --dev-bind --dev-bind-try --file --gid --hostname --info-fd --new-session --perms --proc --remount-ro
	--ro-bind --ro-bind-data --ro-bind-fd --size --symlink --tmpfs --uid
	--unshare-cgroup-try --unshare-ipc --unshare-net --unshare-pid --unshare-user --unshare-uts
`)

// Program is the bubblewrap of this host: opened once, checked, and run by that descriptor, so that
// the checked file is the one that runs.
type Program struct {
	Path    string        // as configured
	Digest  string        // SHA-256, in hex
	Version string        // "0.8.0"
	Places  *local.Places // paths of /opt and /usr/local that no run may see

	file *os.File
	id   fileID

	mu     sync.Mutex
	items  []item    // of the system; never changed
	traces []trace   // of the paths that they came from
	looked time.Time // when the traces were taken

	texts texts
}

// fileID tells apart two files, and one file before and after a change.
type fileID struct {
	dev, ino  uint64
	size      int64
	sec, nsec int64 // of the last change
}

// Find opens bubblewrap at path, or at its usual place, and refuses one that others could have
// changed, that is set-user-id, or that is too old.
func Find(path string) (*Program, *palyra.Error) {
	path = cmp.Or(path, DefaultPath)
	b := &Program{Path: path, Places: &local.Places{}}
	if no := b.open(); no != nil {
		return nil, no
	}
	if no := b.look(); no != nil {
		b.Close()
		return nil, no
	}
	return b, nil
}

// Close closes the program's file.
func (b *Program) Close() {
	b.texts.close()
	_ = b.file.Close() // only read
}

func unavailable(format string, args ...any) *palyra.Error {
	return palyra.Errorf(palyra.Unavailable, palyra.ReasonTierUnavailable, format, args...)
}

// open opens the file at path and checks who can change it.
func (b *Program) open() *palyra.Error {
	if !filepath.IsAbs(b.Path) {
		return unavailable("the path of bubblewrap is not absolute: %s", Show(b.Path)).
			WithRemedy("set process.bwrap to an absolute path; PATH is not searched")
	}
	real, err := filepath.EvalSymlinks(b.Path)
	if err != nil {
		return unavailable("there is no bubblewrap at %s", Show(b.Path)).WithRemedy("%s", bwrapInstall).WithCause(err)
	}
	if no := givesRights(real); no != nil {
		return no
	}
	if dir := loosePath(filepath.Dir(real), "/"); dir != "" {
		return unavailable("bubblewrap at %s could be replaced: others than root can write to %s", Show(real), Show(dir)).
			WithRemedy("use the system's bubblewrap ('apt install bubblewrap', and leave process.bwrap empty), or one of root's in a " +
				"directory that only root can write to")
	}
	fd, err := openPlain(real, unix.O_RDONLY|unix.O_NONBLOCK)
	if err != nil {
		return unavailable("bubblewrap at %s cannot be opened", Show(real)).WithRemedy("let the daemon read it ('chmod a+rx')").WithCause(err)
	}
	defer func() { _ = unix.Close(fd) }()
	high, err := unix.FcntlInt(uintptr(fd), unix.F_DUPFD_CLOEXEC, bwrapFD)
	if err != nil {
		return unavailable("there is no descriptor for bubblewrap").
			WithRemedy("raise the daemon's open files limit to 1024 or more").WithCause(err)
	}
	b.file = os.NewFile(uintptr(high), real)
	if no := bwrapSafe(b.file); no != nil {
		b.Close()
		return no
	}
	return nil
}

// bwrapFD is the least descriptor for the program itself. The descriptors of a child are counted
// from 3 up, and would otherwise take its place before it runs.
const bwrapFD = 512

// bwrapSafe refuses a file that others than root can change, or that gives rights.
func bwrapSafe(f *os.File) *palyra.Error {
	var st unix.Stat_t
	if err := unix.Fstat(int(f.Fd()), &st); err != nil {
		return unavailable("bubblewrap cannot be looked at").WithRemedy("see the daemon's log").WithCause(err)
	}
	name := Show(f.Name())
	switch {
	case st.Mode&unix.S_IFMT != unix.S_IFREG:
		return unavailable("bubblewrap at %s is not a file", name).WithRemedy("%s", bwrapInstall)
	case st.Uid != 0:
		return unavailable("bubblewrap at %s belongs to uid %d, not to root", name, st.Uid).WithRemedy("%s", bwrapInstall)
	case st.Mode&0o022 != 0:
		return unavailable("others than root can write to bubblewrap at %s", name).WithRemedy("'chmod go-w %s'", name)
	case st.Mode&(unix.S_ISUID|unix.S_ISGID) != 0:
		return setID(name)
	}
	n, err := unix.Fgetxattr(int(f.Fd()), "security.capability", nil)
	if n > 0 || (err != nil && !errors.Is(err, unix.ENODATA) && !errors.Is(err, unix.ENOTSUP)) {
		return unavailable("bubblewrap at %s has file capabilities", name).
			WithRemedy("'setcap -r %s', and allow user namespaces to ordinary users instead", name).WithCause(err)
	}
	return nil
}

// givesRights refuses a set-user-id program by its path, before any other fault is reported: this
// one matters most. It is checked again once the file is open.
func givesRights(path string) *palyra.Error {
	var st unix.Stat_t
	if unix.Stat(path, &st) == nil && st.Mode&unix.S_IFMT == unix.S_IFREG && st.Mode&(unix.S_ISUID|unix.S_ISGID) != 0 {
		return setID(Show(path))
	}
	return nil
}

func setID(name string) *palyra.Error {
	return unavailable("bubblewrap at %s is set-user-id or set-group-id", name).
		WithRemedy("'chmod ug-s %s', and allow user namespaces to ordinary users instead", name)
}

// loosePath returns the first directory, from dir up to top, that others than root could change; "": none.
func loosePath(dir, top string) string {
	for {
		var st unix.Stat_t
		if err := unix.Lstat(dir, &st); err != nil || !onlyBy(0, &st) {
			return dir
		}
		if dir == top || dir == "/" {
			return ""
		}
		dir = filepath.Dir(dir)
	}
}

// onlyBy reports whether only owner can change the entries of a directory. It may be writable for
// its group if it is sticky, as in the stores of some package managers.
func onlyBy(owner uint32, st *unix.Stat_t) bool {
	switch {
	case st.Mode&unix.S_IFMT != unix.S_IFDIR || st.Uid != owner || st.Mode&0o002 != 0:
		return false
	case st.Mode&0o020 != 0:
		return st.Mode&unix.S_ISVTX != 0
	}
	return true
}

// openPlain opens a path of which no part may be a symbolic link.
func openPlain(path string, flags uint64) (int, error) {
	return openat2(unix.AT_FDCWD, path, &unix.OpenHow{Flags: flags | unix.O_CLOEXEC, Resolve: unix.RESOLVE_NO_SYMLINKS})
}

// openat2 repeats the call while concurrent renames make it fail.
func openat2(dir int, path string, how *unix.OpenHow) (int, error) {
	for tries := 100; ; tries-- {
		fd, err := unix.Openat2(dir, path, how)
		if tries == 0 || !errors.Is(err, unix.EINTR) && !errors.Is(err, unix.EAGAIN) {
			return fd, err
		}
	}
}

var bwrapVersion = regexp.MustCompile(`^bubblewrap ([0-9A-Za-z.+~-]{1,40})\s*$`)

// look finds out the version and the options of the opened file.
func (b *Program) look() *palyra.Error {
	var st unix.Stat_t
	err := unix.Fstat(int(b.file.Fd()), &st)
	if err == nil {
		b.id = identify(&st)
		b.Digest, err = digestOf(b.file)
	}
	if err != nil {
		return unavailable("bubblewrap at %s cannot be read", Show(b.Path)).WithRemedy("see the daemon's log").WithCause(err)
	}
	ctx, cancel := context.WithTimeout(context.Background(), bwrapWithin)
	defer cancel()
	out, err := b.ask(ctx, "--version")
	m := bwrapVersion.FindStringSubmatch(out)
	if err != nil || m == nil {
		return unavailable("%s does not say that it is bubblewrap", Show(b.Path)).WithRemedy("%s", bwrapInstall).WithCause(err)
	}
	b.Version = m[1]
	if out, err = b.ask(ctx, "--help"); err != nil {
		return unavailable("bubblewrap %s does not list its options", b.Version).WithRemedy("%s", bwrapInstall).WithCause(err)
	}
	return tooOld(b.Version, bwrapOptions(out))
}

// tooOld refuses a bubblewrap that lacks an option.
func tooOld(version string, options map[string]bool) *palyra.Error {
	var lacks []string
	for _, o := range bwrapNeeds {
		if !options[o] {
			lacks = append(lacks, o)
		}
	}
	if len(lacks) == 0 {
		return nil
	}
	return unavailable("bubblewrap %s is too old: it has no %s", version, strings.Join(lacks, ", ")).
		WithRemedy("install bubblewrap 0.10 or newer, or your distribution's security update of an older one")
}

// Changed reports whether the file at the configured path is no longer the one that was checked.
func (b *Program) Changed() bool {
	var st unix.Stat_t
	return unix.Stat(b.Path, &st) != nil || identify(&st) != b.id
}

func identify(st *unix.Stat_t) fileID {
	return fileID{dev: uint64(st.Dev), ino: st.Ino, size: st.Size, sec: int64(st.Ctim.Sec), nsec: int64(st.Ctim.Nsec)}
}

func digestOf(f *os.File) (string, error) {
	h := sha256.New()
	n, err := io.Copy(h, io.NewSectionReader(f, 0, bwrapMax+1))
	if err == nil && n > bwrapMax {
		err = errors.New("bwrap: bwrap is too large")
	}
	return hex.EncodeToString(h.Sum(nil)), err
}

// bwrapOptions reads the options from the help text, where they begin their lines.
func bwrapOptions(help string) map[string]bool {
	options := map[string]bool{}
	for line := range strings.Lines(help) {
		if words := strings.Fields(line); len(words) > 0 && strings.HasPrefix(words[0], "--") {
			options[words[0]] = true
		}
	}
	return options
}
