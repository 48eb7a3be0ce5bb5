package probe

import (
	"encoding/hex"
	"encoding/json"
	"errors"
	"io"
	"os"
	"path/filepath"
	"strconv"
	"strings"

	"golang.org/x/sys/unix"

	"palyra/internal/cell"
)

// As "probe" the cell is the program that the doctor runs in a tier: it tries one thing that the tier should
// prevent and reports the result. It judges nothing. When it succeeds it leaves as little behind as possible.

// finding is the one line that a probe prints. The doctor knows its own by the nonce; internal/posture reads it.
type finding struct {
	Nonce string `json:"nonce"`
	Act   string `json:"act"`
	Done  bool   `json:"done"`            // the act succeeded
	Error string `json:"error,omitempty"` // the errno by name, or why it was not tried: "untried: …"
	Text  string `json:"text,omitempty"`
}

// act is something to try, with its arguments. The text goes into the finding, whether or not the act succeeds.
type act struct {
	args int
	try  func(args []string) (text string, err error)
}

func acts() map[string]act {
	return map[string]act{
		"work":      {2, doWork},
		"read":      {1, func(a []string) (string, error) { return readSome(a[0]) }},
		"create":    {1, func(a []string) (string, error) { return "", makeFile(a[0]) }},
		"unseal":    {1, unseal},
		"connect":   {2, connectTo},
		"egress":    {3, getOut},
		"signal":    {1, sendSignal},
		"processes": {2, lookAround},
		"fork":      {1, forkMany},
		"memory":    {1, fillMemory},
		"syscall":   {1, tryCall},
	}
}

// Run does the act of "NONCE ACT ARGUMENT…".
func Run(args []string, out io.Writer) int {
	if len(args) > 0 && args[0] == "probe" {
		args = args[1:]
	}
	if len(args) < 2 {
		return cell.Refused
	}
	f := finding{Nonce: args[0], Act: args[1]}
	a, known := acts()[f.Act]
	switch {
	case !known:
		f.Error = "untried: there is no such act"
	case len(args)-2 != a.args:
		f.Error = "untried: wrong number of arguments"
	default:
		text, err := a.try(args[2:])
		f.Done, f.Text, f.Error = err == nil, text, nameOf(err)
	}
	if json.NewEncoder(out).Encode(f) != nil {
		return cell.Refused
	}
	return 0
}

// nameOf is the name by which the doctor knows an error.
func nameOf(err error) string {
	if err == nil {
		return ""
	}
	var e unix.Errno
	if errors.As(err, &e) {
		if name := unix.ErrnoName(e); name != "" {
			return name
		}
		return "errno " + strconv.Itoa(int(e))
	}
	return "untried: " + err.Error()
}

func numberOf(s string) int {
	n, err := strconv.Atoi(s)
	if err != nil {
		return -1
	}
	return n
}

// sendSignal sends a harmless signal to one process; it refuses numbers below 1, which mean several.
func sendSignal(a []string) (string, error) {
	pid := numberOf(a[0])
	if pid < 1 {
		return "", errors.New("no such process number")
	}
	return "", unix.Kill(pid, unix.SIGWINCH)
}

// doWork does what must succeed: it reads a file of the workspace and writes another.
func doWork(a []string) (string, error) {
	text, err := readSome(a[0])
	if err != nil {
		return "", err
	}
	return text, os.WriteFile(a[1], []byte(text), 0o600)
}

// readSome returns the head of a file.
func readSome(path string) (string, error) {
	f, err := os.Open(path)
	if err != nil {
		return "", err
	}
	defer f.Close()
	b := make([]byte, 256)
	n, err := f.Read(b)
	if errors.Is(err, io.EOF) {
		err = nil
	}
	return string(b[:n]), err
}

func makeFile(path string) error {
	f, err := os.OpenFile(path, os.O_WRONLY|os.O_CREATE|os.O_EXCL, 0o600)
	if err != nil {
		return err
	}
	_, err = f.WriteString("made by a probe\n")
	return errors.Join(err, f.Close())
}

// unseal tries every way to put other content at a sealed path, until one works.
func unseal(a []string) (string, error) {
	path, dir := a[0], filepath.Dir(a[0])
	var last error
	for _, way := range []struct {
		name string
		try  func() error
	}{
		{"write", func() error { return os.WriteFile(path, []byte("changed\n"), 0o600) }},
		{"rename over it", func() error {
			other := dir + "-probe"
			if err := makeFile(other); err != nil {
				return err
			}
			defer os.Remove(other)
			return os.Rename(other, path)
		}},
		{"remove", func() error { return os.Remove(path) }},
		{"rename", func() error { return os.Rename(path, path+"-probe") }},
		{"rename its directory", func() error { return os.Rename(dir, dir+"-probe") }},
	} {
		if last = way.try(); last == nil {
			return way.name, nil
		}
		if errors.Is(last, unix.ENOENT) {
			return way.name, errors.New("the sealed path is not there")
		}
	}
	return "", last
}

// lookAround looks for a process outside of the sandbox: by its pid, and among all visible
// processes by the beginning of the command line, given in hex.
func lookAround(a []string) (string, error) {
	if a[1] == "" {
		return "", errors.New("nothing to look for")
	}
	pids := []string{a[0]}
	entries, listed := os.ReadDir("/proc")
	for _, e := range entries {
		if numberOf(e.Name()) > 0 {
			pids = append(pids, e.Name())
		}
	}
	var last error = unix.ESRCH
	seen := 0
	for _, pid := range pids {
		b, err := os.ReadFile("/proc/" + pid + "/cmdline")
		if err != nil {
			last = err
			continue
		}
		seen++
		if strings.HasPrefix(hex.EncodeToString(b), a[1]) {
			return "process " + pid, nil
		}
	}
	if listed == nil {
		last = unix.ESRCH // nothing visible is that process
	}
	return strconv.Itoa(seen) + " seen", last
}
