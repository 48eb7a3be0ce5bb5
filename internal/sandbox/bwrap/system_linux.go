package bwrap

import (
	"errors"
	"fmt"
	"io"
	"os"
	"slices"
	"strings"

	"golang.org/x/sys/unix"

	"palyra"
	"palyra/internal/subpath"
)

// systemDirs are the directories of programs. Where one is a link into another, as on systems that
// merged /bin into /usr, the room has that link.
var systemDirs = strings.Fields(`/usr /bin /sbin /lib /lib32 /lib64 /libx32 /opt /nix/store /gnu/store`)

// systemEtc lists the files of /etc that programs need in order to work at all: the dynamic linker, certificates,
// time zones, names of ports, choices between programs, and the settings without which whole languages do not
// start. It is a list, because /etc also holds keys, passwords and tokens: shadow, ssh, ssl/private, and what
// administrators write into gitconfig, npmrc, pip.conf, wgetrc or netrc.
var systemEtc = strings.Fields(`
	/etc/alternatives
	/etc/ca-certificates/extracted /etc/pki/ca-trust/extracted /etc/pki/java /etc/pki/tls/certs /etc/pki/tls/cert.pem /etc/pki/tls/openssl.cnf
	/etc/ssl/certs /etc/ssl/cert.pem /etc/ssl/ca-bundle.pem /etc/ssl/openssl.cnf /etc/crypto-policies
	/etc/ld.so.cache /etc/ld.so.conf /etc/ld.so.conf.d
	/etc/localtime /etc/timezone /etc/locale.conf /etc/default/locale
	/etc/protocols /etc/services /etc/gai.conf /etc/host.conf /etc/mime.types
	/etc/os-release /etc/debian_version /etc/lsb-release /etc/redhat-release /etc/alpine-release /etc/arch-release
	/etc/inputrc /etc/fonts /etc/python3.* /etc/java-*
	/etc/maven/m2.conf
`)

// The ways in which a path of the host is in the room.
const (
	itemBind = iota // mounted, read-only
	itemLink        // a link to text, which is visible
	itemCopy        // a copy of text; cheaper than a mount

	itemHideDir  // a hidden directory below a visible one
	itemHideFile // the same for anything but a directory
)

type item struct {
	kind   int
	target string
	text   string // the path on the host, the target of the link, or the content
}

// systemView collects what a room shows of the host's own files.
type systemView struct {
	root  int    // descriptor of "/", except in tests
	top   string // its path
	owner uint32 // root, except in tests
	items []item

	traces []trace
}

// copyMost is the largest file that is copied and not mounted.
const copyMost = 128 << 10

// fewFiles is the most files of a directory that is copied and not mounted.
const fewFiles = 8

// lookAtSystem finds out how the system at root is laid out. It does not show files that others than owner
// could have put there. While the traces are unchanged, another look would find the same.
func lookAtSystem(root string, owner uint32) ([]item, []trace, error) {
	fd, err := unix.Open(root, unix.O_PATH|unix.O_DIRECTORY|unix.O_CLOEXEC, 0)
	if err != nil {
		return nil, nil, fmt.Errorf("bwrap: system: %w", err)
	}
	defer func() { _ = unix.Close(fd) }()
	top, err := where(fd)
	if err != nil {
		return nil, nil, fmt.Errorf("bwrap: system: %w", err)
	}
	s := &systemView{root: fd, top: top, owner: owner}
	for _, d := range systemDirs {
		s.show(d)
	}
	if len(s.items) == 0 || s.items[0].target != "/usr" || s.items[0].kind != itemBind {
		return nil, nil, palyra.Errorf(palyra.Unavailable, palyra.ReasonUnsupported,
			"this system has no /usr that everybody can read and only root can change").
			WithRemedy("give /usr to root ('chown root /usr', 'chmod 755 /usr')")
	}
	for _, path := range s.expand(systemEtc) {
		s.show(path)
	}
	return s.items, s.traces, nil
}

// expand replaces patterns by the names in /etc that they match.
func (s *systemView) expand(patterns []string) (paths []string) {
	var names []string
	if f, _, err := s.open("/etc"); err == nil {
		names, _ = f.Readdirnames(-1) // an unlistable directory is not shown
		slices.Sort(names)
		_ = f.Close()
	}
	for _, p := range patterns {
		if !strings.HasSuffix(p, "*") {
			paths = append(paths, p)
			continue
		}
		for _, n := range names {
			if strings.HasPrefix("/etc/"+n, strings.TrimSuffix(p, "*")) {
				paths = append(paths, "/etc/"+n)
			}
		}
	}
	return paths
}

// open opens the file at path, and returns its real path. Links lead nowhere outside of root. It records a trace.
func (s *systemView) open(path string) (f *os.File, real string, err error) {
	s.traces = append(s.traces, traceOf(strings.TrimSuffix(s.top, "/")+path)) // taken first, so that a change from now on shows
	how := unix.OpenHow{
		Flags:   unix.O_RDONLY | unix.O_NONBLOCK | unix.O_NOCTTY | unix.O_CLOEXEC,
		Resolve: unix.RESOLVE_IN_ROOT | unix.RESOLVE_NO_MAGICLINKS,
	}
	fd, err := openat2(s.root, path, &how)
	if err != nil {
		return nil, "", err
	}
	f = os.NewFile(uintptr(fd), path)
	if real, err = where(fd); err != nil {
		return nil, "", errors.Join(err, f.Close())
	}
	return f, "/" + strings.TrimPrefix(strings.TrimPrefix(real, s.top), "/"), nil
}

// where returns the path of an open file.
func where(fd int) (string, error) { return os.Readlink(fmt.Sprintf("/proc/self/fd/%d", fd)) }

// show adds the file at path, if everybody can read it and only root can write it.
func (s *systemView) show(path string) { s.add(path, true) }

func (s *systemView) add(path string, dirs bool) {
	f, real, err := s.open(path)
	if err != nil {
		return
	}
	defer func() { _ = f.Close() }()
	if real != path && s.visible(real) {
		s.items = append(s.items, item{kind: itemLink, target: path, text: real})
		return
	}
	var st unix.Stat_t
	if unix.Fstat(int(f.Fd()), &st) != nil || !s.public(&st) {
		return
	}
	dir := st.Mode&unix.S_IFMT == unix.S_IFDIR
	if dir && (!dirs || s.each(f, path)) {
		return
	}
	if dir || st.Size > copyMost {
		s.items = append(s.items, item{kind: itemBind, target: path, text: real})
		return
	}
	if text, err := io.ReadAll(io.LimitReader(f, copyMost+1)); err == nil && len(text) <= copyMost && saysSomething(string(text)) {
		s.items = append(s.items, item{kind: itemCopy, target: path, text: string(text)})
	}
}

// saysSomething reports whether a text has more than comments. Some files of /etc contain only examples.
func saysSomething(text string) bool {
	for line := range strings.Lines(text) {
		if line = strings.TrimSpace(line); line != "" && line[0] != '#' {
			return true
		}
	}
	return false
}

// each adds the files of a directory of /etc one by one, if they are few: a few copies cost less
// than a mount. False: there are more.
func (s *systemView) each(dir *os.File, path string) bool {
	entries, err := dir.ReadDir(fewFiles + 1)
	if !strings.HasPrefix(path, "/etc/") || len(entries) > fewFiles || (err != nil && !errors.Is(err, io.EOF)) {
		return false
	}
	if slices.ContainsFunc(entries, os.DirEntry.IsDir) {
		return false
	}
	slices.SortFunc(entries, func(a, b os.DirEntry) int { return strings.Compare(a.Name(), b.Name()) })
	for _, e := range entries {
		s.add(path+"/"+e.Name(), false) // a link to a directory could lead back here
	}
	return true
}

// visible reports whether a path of the host is in the room already, at that path.
func (s *systemView) visible(path string) bool {
	return slices.ContainsFunc(s.items, func(i item) bool {
		return i.kind == itemBind && i.target == i.text && subpath.Within(i.target, path)
	})
}

// public reports whether everybody may read something and only root change it.
func (s *systemView) public(st *unix.Stat_t) bool {
	switch st.Mode & unix.S_IFMT {
	case unix.S_IFDIR:
		return st.Mode&0o005 == 0o005 && onlyBy(s.owner, st)
	case unix.S_IFREG:
		return st.Mode&0o004 != 0 && st.Uid == s.owner && st.Mode&0o022 == 0
	}
	return false
}

// items adds the host's own files to the room.
func (a *arguments) items(items []item) error {
	for _, i := range items {
		switch i.kind {
		case itemBind:
			a.add("--ro-bind", i.text, i.target)
		case itemLink:
			a.add("--symlink", i.text, i.target)
		case itemCopy:
			if err := a.file(i.target, i.text); err != nil {
				return err
			}
		}
	}
	return nil
}

// file adds a file to a part of the room that becomes read-only as a whole.
func (a *arguments) file(target, text string) error {
	n, err := a.same(target, text)
	if err == nil {
		a.add("--perms", "0444", "--file", n, target)
	}
	return err
}
