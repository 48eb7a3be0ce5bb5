package seatbelt

import (
	"crypto/rand"
	"encoding/hex"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"slices"

	"palyra"
	"palyra/internal/sandbox"
)

// The modes of a place: its directories belong to the run's user, and nobody else can look in; the
// daemon's own parts can only be passed.
const (
	passMode    = 0o711
	privateMode = 0o700
	fileMode    = 0o444
	programMode = 0o555
	maxProgram  = 1 << 30
)

// layOut makes the place of a run below dir, with the plan's files in the home. On an error nothing
// stays. own says whether the daemon may give files away, that is, is root.
func layOut(dir string, j sandbox.Job, own bool) (p place, err error) {
	name, err := placeName(j.Call)
	if err != nil {
		return place{}, err
	}
	dir, err = filepath.EvalSymlinks(dir) // the kernel compares real paths
	if err != nil {
		return place{}, fmt.Errorf("seatbelt: place: %w", err)
	}
	p = place{root: filepath.Join(dir, name), sources: map[string]string{}}
	if err := os.Mkdir(p.root, passMode); err != nil {
		return place{}, fmt.Errorf("seatbelt: place: %w", err)
	}
	if err := p.furnish(j, own); err != nil {
		return place{}, errors.Join(fmt.Errorf("seatbelt: place: %w", err), os.RemoveAll(p.root))
	}
	return p, nil
}

func (p place) furnish(j sandbox.Job, own bool) error {
	for _, m := range j.Mounts {
		real, err := filepath.EvalSymlinks(m.Source)
		if err != nil {
			return err
		}
		p.sources[m.Source] = real
	}
	if err := errors.Join(os.Mkdir(p.home(), privateMode), os.Mkdir(p.tmp(), privateMode), os.Mkdir(p.exe(), passMode)); err != nil {
		return err
	}
	for _, f := range j.Files {
		if err := lay(p.inHome(f.Target), func(at string) error { return os.WriteFile(at, []byte(f.Text), fileMode) }); err != nil {
			return err
		}
	}
	links := p.links(j)
	for _, at := range slices.Sorted(mapKeys(links)) {
		if err := lay(filepath.Join(p.home(), at), func(at2 string) error { return os.Symlink(links[at], at2) }); err != nil {
			return err
		}
	}
	if err := p.copyProgram(j); err != nil {
		return err
	}
	if !own {
		return nil
	}
	return errors.Join(give(p.home(), j), give(p.tmp(), j))
}

// lay makes something new at a path of the home, with the directories above it. It fails if
// something, such as a link, is there already.
func lay(at string, put func(string) error) error {
	if _, err := os.Lstat(at); err == nil {
		return fmt.Errorf("two things lie at %s", at)
	}
	dir := filepath.Dir(at)
	if err := os.MkdirAll(dir, privateMode); err != nil {
		return err
	}
	if real, err := filepath.EvalSymlinks(dir); err != nil || real != dir {
		return errors.Join(fmt.Errorf("%s lies behind a link", at), err)
	}
	return put(at)
}

// give makes the directories below one the run's user's. Files and links stay the daemon's.
func give(dir string, j sandbox.Job) error {
	return filepath.WalkDir(dir, func(at string, d fs.DirEntry, err error) error {
		if err != nil || !d.IsDir() {
			return err
		}
		return os.Lchown(at, int(j.UID), int(j.GID))
	})
}

// copyProgram copies the program to where the profile lets nobody write.
func (p place) copyProgram(j sandbox.Job) (err error) {
	if j.Sealed == nil {
		return nil
	}
	fi, err := j.Sealed.Stat()
	if err != nil {
		return err
	}
	if fi.Size() > maxProgram {
		return errors.New("the program is too large for a copy")
	}
	out, err := os.OpenFile(p.program(j), os.O_WRONLY|os.O_CREATE|os.O_EXCL, programMode)
	if err != nil {
		return err
	}
	_, err = io.Copy(out, io.NewSectionReader(j.Sealed, 0, fi.Size()))
	return errors.Join(err, out.Close(), os.Chmod(p.program(j), programMode))
}

// placeName is a new name that nobody can guess.
func placeName(call palyra.CallID) (string, error) {
	if !plainID(string(call)) {
		return "", palyra.Errorf(palyra.Invalid, palyra.ReasonMalformedInput, "the call's id cannot name a directory")
	}
	var b [8]byte
	if _, err := rand.Read(b[:]); err != nil {
		return "", err
	}
	return string(call) + "-" + hex.EncodeToString(b[:]), nil
}
