package posture

import (
	"crypto/rand"
	"encoding/hex"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strconv"
	"time"

	"palyra"
	"palyra/internal/ulid"
)

// testbed is what is planted for the probes of one tier, and where they run.
//
//	dir/workspace  the probes' own: token, link → the secret, out → outside
//	dir/outside    what they are after: secret, socket, and where nothing may be made
//	dir/private    home, tmp and exe of the runs
type testbed struct {
	dir, workspace, outside, private string
	uid, gid                         int64
	token                            string // what only who reaches something planted can know
	nonce                            string // of the probe under way
	tcp, unix, abstract              *listener
	elsewhere                        string // a directory for the socket, where the path would be too long
	signals                          *receiver
	cmdline                          string // how our own begins, in hex
}

const scratchPrefix = "posture-"

// random is a word that nobody can guess.
func random() (string, error) {
	var b [12]byte
	if _, err := rand.Read(b[:]); err != nil {
		return "", err
	}
	return hex.EncodeToString(b[:]), nil
}

// stage plants everything. With an error nothing stays.
func (h *Host) stage() (s *testbed, err error) {
	s = &testbed{uid: h.UID, gid: h.GID}
	defer func() {
		if err != nil {
			err = errors.Join(err, s.removeAll())
		}
	}()
	if s.token, err = random(); err != nil {
		return s, err
	}
	dir, err := filepath.EvalSymlinks(h.Dir)
	if err != nil {
		return s, err
	}
	if s.dir, err = os.MkdirTemp(dir, scratchPrefix); err != nil {
		return s, err
	}
	s.workspace, s.outside, s.private = filepath.Join(s.dir, "workspace"), filepath.Join(s.dir, "outside"), filepath.Join(s.dir, "private")
	if err = s.furnish(); err != nil {
		return s, err
	}
	return s, s.listen()
}

// furnish makes directories and files. They are given to the run's user when all
// of them are there, so that nobody can lead us elsewhere meanwhile.
func (s *testbed) furnish() error {
	dirs := []string{
		s.workspace, filepath.Join(s.workspace, ".git"), s.outside, s.private,
		filepath.Join(s.private, "home"), filepath.Join(s.private, "tmp"), filepath.Join(s.private, "exe"),
	}
	for _, d := range dirs {
		if err := os.Mkdir(d, 0o755); err != nil {
			return err
		}
	}
	for _, f := range []struct {
		path, text string
		mode       os.FileMode
	}{
		{s.place("$token"), s.token, 0o600},
		{s.place("$secret"), s.token, 0o600},
		{s.place("$sealed"), s.token, 0o600},
		{s.place("$program"), "", 0o755}, // the program is laid over it
	} {
		if err := os.WriteFile(f.path, []byte(f.text), f.mode); err != nil {
			return err
		}
	}
	if err := errors.Join(os.Symlink(s.place("$secret"), s.place("$link")),
		os.Symlink(s.outside, filepath.Join(s.workspace, "out"))); err != nil {
		return err
	}
	if s.uid != int64(os.Geteuid()) || s.gid != int64(os.Getegid()) {
		if err := s.chownToRunUser(); err != nil {
			return err
		}
	}
	return os.Chmod(s.dir, 0o711)
}

// chownToRunUser gives all of it to the run's user.
func (s *testbed) chownToRunUser() error {
	root, err := os.OpenRoot(s.dir)
	if err != nil {
		return err
	}
	defer root.Close()
	return filepath.WalkDir(s.dir, func(path string, _ os.DirEntry, err error) error {
		if err != nil || path == s.dir {
			return err
		}
		name, err := filepath.Rel(s.dir, path)
		if err != nil {
			return err
		}
		return root.Lchown(name, int(s.uid), int(s.gid))
	})
}

// place says what a word of a probe stands for.
func (s *testbed) place(word string) string {
	switch word {
	case "$program":
		return filepath.Join(s.workspace, "probe")
	case "$token":
		return filepath.Join(s.workspace, "token")
	case "$result":
		return filepath.Join(s.workspace, "result")
	case "$link":
		return filepath.Join(s.workspace, "link")
	case "$through":
		return filepath.Join(s.workspace, "out", "made")
	case "$sealed":
		return filepath.Join(s.workspace, ".git", "config")
	case "$newseal":
		return filepath.Join(s.workspace, ".envrc")
	case "$secret":
		return filepath.Join(s.outside, "secret")
	case "$outside":
		return filepath.Join(s.outside, "made")
	}
	return s.planted(word)
}

func (s *testbed) planted(word string) string {
	switch word {
	case "$tcp":
		return s.tcp.address
	case "$unix":
		return s.unix.address
	case "$abstract":
		return s.abstract.address
	case "$port":
		return s.tcp.port
	case "$hosts":
		return "127.0.0.1"
	case "$word":
		return s.token
	case "$pid":
		return strconv.Itoa(os.Getpid())
	case "$cmdline":
		return s.cmdline
	}
	return word
}

// job is a probe as the tier gets it.
func (s *testbed) job(pr probe) Job {
	j := Job{
		Call: palyra.CallID(ulid.New(time.Now())), Path: s.place("$program"), Argv: []string{"palyra-cell", "probe", s.nonce},
		Workspace: s.workspace, Private: s.private, UID: s.uid, GID: s.gid, Limits: limits(), Seals: pr.seals, Network: pr.network,
	}
	for _, word := range pr.act {
		j.Argv = append(j.Argv, s.place(word))
	}
	if pr.limit != nil {
		pr.limit(&j.Limits)
	}
	return j
}

// restore makes the testbed as it was, for the next probe.
func (s *testbed) restore() error {
	root, err := os.OpenRoot(s.dir)
	if err != nil {
		return err
	}
	defer root.Close()
	var errs []error
	for _, name := range []string{"workspace/result", "workspace/.envrc", "outside/made"} {
		if err := root.RemoveAll(name); err != nil {
			errs = append(errs, err)
		}
	}
	if s.untouched() != nil {
		errs = append(errs, s.reseal(root))
	}
	return errors.Join(errs...)
}

// reseal plants the sealed file anew.
func (s *testbed) reseal(root *os.Root) error {
	const dir, file = "workspace/.git", "workspace/.git/config"
	return errors.Join(
		root.RemoveAll(dir), root.RemoveAll(dir+"-probe"), root.Mkdir(dir, 0o755), root.WriteFile(file, []byte(s.token), 0o600),
		root.Lchown(dir, int(s.uid), int(s.gid)), root.Lchown(file, int(s.uid), int(s.gid)),
	)
}

// removeAll takes everything away.
func (s *testbed) removeAll() error {
	var errs []error
	for _, l := range []*listener{s.tcp, s.unix, s.abstract} {
		if l != nil {
			errs = append(errs, l.close())
		}
	}
	if s.signals != nil {
		s.signals.close()
	}
	for _, dir := range []string{s.dir, s.elsewhere} {
		if dir != "" {
			errs = append(errs, os.RemoveAll(dir))
		}
	}
	return errors.Join(errs...)
}

// sweep removes the testbeds of a daemon that was killed.
func sweep(dir string) error {
	left, err := filepath.Glob(filepath.Join(dir, scratchPrefix+"*"))
	if err != nil {
		return fmt.Errorf("posture: sweep: %w", err)
	}
	var errs []error
	for _, d := range left {
		errs = append(errs, os.RemoveAll(d))
	}
	return errors.Join(errs...)
}
