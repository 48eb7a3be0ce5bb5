package posture

import (
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"slices"
	"syscall"
	"time"

	"palyra"
)

// control uses the target of a probe from outside: it must be there, and be seen.
func (s *testbed) control(pr probe) error {
	if pr.act[0] == "read" {
		b, err := os.ReadFile(s.place(pr.act[1]))
		if err == nil && string(b) != s.token {
			err = errors.New("it is not what was planted")
		}
		return err
	}
	switch pr.sees {
	case byMade:
		_, err := os.Stat(filepath.Dir(s.place(pr.act[1])))
		return err
	case byTCP:
		return s.tcp.greet(s.token)
	case byUnix:
		return s.unix.greet(s.token)
	case byAbstract:
		return s.abstract.greet(s.token)
	case bySignal:
		return s.signals.control()
	case bySealed, byNewSeal:
		return s.untouched()
	}
	if pr.act[0] == "processes" && s.cmdline == "" {
		return errors.New("our own command line cannot be read")
	}
	return nil
}

// effectSeen says which effect of a probe is seen outside, "" if there is none.
func (s *testbed) effectSeen(pr probe, x Exit, f finding) string {
	for _, flow := range x.Flows {
		if flow.Verdict != palyra.FlowDenied || flow.Address != "" {
			return fmt.Sprintf("the guard let %s:%d pass", palyra.Clip(flow.Host, 80), flow.Port)
		}
	}
	switch pr.sees {
	case byWork:
		return s.worked(f)
	case byMade:
		if _, err := os.Lstat(filepath.Join(s.outside, "made")); !errors.Is(err, os.ErrNotExist) {
			return "a file was made"
		}
	case byTCP:
		return s.tcp.visited(s.token)
	case byUnix:
		return s.unix.visited(s.token)
	case byAbstract:
		return s.abstract.visited(s.token)
	case bySignal:
		return s.signals.signalSeen()
	case bySealed:
		if err := s.untouched(); err != nil {
			return "the sealed file is not as it was: " + err.Error()
		}
	case byNewSeal:
		return s.quarantined(x, f)
	}
	return ""
}

// worked: the program read its workspace and wrote to it.
func (s *testbed) worked(f finding) string {
	text, err := s.read("workspace/result")
	switch {
	case err != nil:
		return "what it should have written is not there"
	case text != s.token || f.Text != s.token:
		return "what it wrote is not what it should have read"
	}
	return ""
}

// untouched: the sealed file is as it was planted.
func (s *testbed) untouched() error {
	text, err := s.read("workspace/.git/config")
	if err == nil && text != s.token {
		err = errors.New("it has other content")
	}
	return err
}

// quarantined: what was made under a sealed name is gone, and was reported.
func (s *testbed) quarantined(x Exit, f finding) string {
	if _, err := os.Lstat(s.place("$newseal")); !errors.Is(err, os.ErrNotExist) {
		return "the new sealed path is still there"
	}
	if f.Done && !slices.Contains(x.Quarantined, ".envrc") {
		return "the new sealed path was not reported"
	}
	return ""
}

// read reads a small file of the testbed, which the run's user can write as well: it follows no link that
// leads out, and never waits for a pipe.
func (s *testbed) read(name string) (string, error) {
	root, err := os.OpenRoot(s.dir)
	if err != nil {
		return "", err
	}
	defer root.Close()
	fi, err := root.Lstat(name)
	if err != nil {
		return "", err
	}
	if !fi.Mode().IsRegular() {
		return "", errors.New("it is not a regular file")
	}
	f, err := root.OpenFile(name, os.O_RDONLY|syscall.O_NONBLOCK, 0)
	if err != nil {
		return "", err
	}
	defer f.Close()
	b, err := io.ReadAll(io.LimitReader(f, 1<<10))
	return string(b), err
}

// patience is how long something that should be seen may take.
const patience = 5 * time.Second
