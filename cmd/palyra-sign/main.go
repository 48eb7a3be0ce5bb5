// Command palyra-sign stands for gpg and ssh-keygen where git has commits and tags signed, in a room of Palyra. It has no
// key: it brings the commit or tag to Palyra, which shows it to people, and prints the signature that it gets.
//
// It takes the two command lines by which git asks for signatures, and that by which it calls ssh, and nothing else.
// Checking signatures is left to gpg and ssh-keygen. Called as 'palyra-sign ssh' it stands for ssh where git fetches and
// pushes: Palyra logs in, and what git says to the server goes by it.
package main

import (
	"bufio"
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net"
	"os"
	"os/exec"
	"slices"
	"strconv"
	"strings"
	"syscall"
	"time"

	"palyra/internal/signwire"
)

// maxPayload is more than Palyra takes: it refuses the rest itself.
const maxPayload = 1 << 20

func main() {
	if err := run(os.Args[1:]); err != nil {
		fmt.Fprintln(os.Stderr, "palyra-sign:", err)
		os.Exit(2)
	}
}

var errUsage = errors.New("only commits and tags are signed, as git asks for it: git commit -S, git tag -s")

func run(args []string) error {
	if program, ok := checks(args); ok {
		path, err := exec.LookPath(program)
		if err != nil {
			return err
		}
		return syscall.Exec(path, append([]string{program}, args...), os.Environ())
	}
	switch {
	case len(args) > 0 && args[0] == "ssh":
		return connect(args[1:])
	case len(args) == 3 && args[0] == "--status-fd=2" && args[1] == "-bsau":
		return signOpenPGP(args[2])
	case len(args) >= 7 && slices.Equal(args[:5], []string{"-Y", "sign", "-n", "git", "-f"}):
		return signSSH(args[5], args[6:])
	}
	return errUsage
}

// checks reports whether a command line checks a signature, and which program does that.
func checks(args []string) (program string, ok bool) {
	harmless := []string{"verify", "find-principals", "check-novalidate", "match-principals"}
	if len(args) >= 2 && args[0] == "-Y" && slices.Contains(harmless, args[1]) {
		return "ssh-keygen", true
	}
	return "gpg", slices.Contains(args, "--verify") && !slices.ContainsFunc(args, func(a string) bool { return strings.HasPrefix(a, "-b") })
}

// signOpenPGP signs what comes on standard input, as 'gpg --status-fd=2 -bsau KEY' does.
func signOpenPGP(key string) error {
	payload, err := io.ReadAll(io.LimitReader(os.Stdin, maxPayload))
	if err != nil {
		return err
	}
	sig, err := ask(signwire.FormatOpenPGP, key, payload)
	if err != nil {
		return err
	}
	if _, err := os.Stdout.Write(sig); err != nil {
		return err
	}
	fmt.Fprintf(os.Stderr, "[GNUPG:] BEGIN_SIGNING\n[GNUPG:] SIG_CREATED D 22 8 00 %d %s\n", time.Now().Unix(), strings.TrimSuffix(key, "!"))
	return nil
}

// signSSH signs a file, as 'ssh-keygen -Y sign -n git -f KEY [-U] FILE' does.
func signSSH(keyFile string, rest []string) error {
	if len(rest) == 2 && rest[0] == "-U" {
		rest = rest[1:]
	}
	if len(rest) != 1 || strings.HasPrefix(rest[0], "-") {
		return errUsage
	}
	key, err := os.ReadFile(keyFile)
	if err != nil {
		return err
	}
	payload, err := os.ReadFile(rest[0])
	if err != nil {
		return err
	}
	sig, err := ask(signwire.FormatSSH, strings.TrimSpace(string(key)), payload)
	if err != nil {
		return err
	}
	return os.WriteFile(rest[0]+".sig", sig, 0o600)
}

// ask brings a commit or tag to Palyra, with the objects that it wants to look at.
func ask(format, key string, payload []byte) ([]byte, error) {
	store := &objects{}
	store.gone = store.start() != nil // ahead: it takes its time
	defer store.close()
	c, err := net.DialTimeout("tcp", signwire.Door, 10*time.Second)
	if err != nil {
		return nil, fmt.Errorf("no key is lent to this call (palyra exec --secret NAME): %w", err)
	}
	defer c.Close()
	want, err := json.Marshal(signwire.Want{Format: format, Key: key, Branch: branch()})
	if err != nil {
		return nil, err
	}
	if err := signwire.Write(c, signwire.Request, want); err != nil {
		return nil, err
	}
	if err := signwire.Write(c, signwire.Payload, payload); err != nil {
		return nil, err
	}
	for {
		kind, body, err := signwire.Read(c)
		if err != nil {
			return nil, fmt.Errorf("no answer from Palyra: %w", err)
		}
		switch kind {
		case signwire.Signature:
			return body, nil
		case signwire.NeedID:
			if err := signwire.Write(c, signwire.Object, store.get(string(body))); err != nil {
				return nil, err
			}
		case signwire.Refusal:
			return nil, errors.New("no signature: " + string(body))
		default:
			return nil, signwire.ErrFrame
		}
	}
}

// branch is what is checked out, read without git, which would take longer than all the rest; "": no branch is, or it
// cannot be told.
func branch() string {
	dir := os.Getenv("GIT_DIR")
	for at := "."; dir == "" && len(at) < 256; at += "/.." {
		fi, err := os.Stat(at + "/.git")
		switch {
		case err != nil:
		case fi.IsDir():
			dir = at + "/.git"
		default: // of a work tree whose repository is elsewhere
			text, _ := os.ReadFile(at + "/.git")
			dir = strings.TrimSpace(strings.TrimPrefix(string(text), "gitdir: "))
			if !strings.HasPrefix(dir, "/") {
				dir = at + "/" + dir
			}
		}
	}
	head, _ := os.ReadFile(dir + "/HEAD")
	name, ok := strings.CutPrefix(strings.TrimSpace(string(head)), "ref: refs/heads/")
	if !ok {
		return ""
	}
	return name
}

// objects brings objects of the repository, by git.
type objects struct {
	cmd  *exec.Cmd
	in   io.WriteCloser
	out  *bufio.Reader
	gone bool
}

func (o *objects) start() error {
	o.cmd = exec.Command("git", "cat-file", "--batch")
	o.cmd.Env = append(os.Environ(), "GIT_NO_LAZY_FETCH=1", "GIT_NO_REPLACE_OBJECTS=1") // what is signed is shown, not what stands for it here
	var err error
	if o.in, err = o.cmd.StdinPipe(); err != nil {
		return err
	}
	out, err := o.cmd.StdoutPipe()
	if err != nil {
		return err
	}
	o.out = bufio.NewReader(out)
	return o.cmd.Start()
}

// find starts git at the first object.
func (o *objects) find(id string) []byte {
	if o.cmd == nil {
		o.gone = o.start() != nil
	}
	return o.get(id)
}

// get returns the kind of an object, a NUL byte and its content; nothing where it cannot be had.
func (o *objects) get(id string) []byte {
	if o.gone || len(id) > 64 || strings.ContainsAny(id, " \n") {
		return nil
	}
	body, err := o.read(id)
	if err != nil {
		o.gone = true
		return nil
	}
	return body
}

func (o *objects) read(id string) ([]byte, error) {
	if _, err := io.WriteString(o.in, id+"\n"); err != nil {
		return nil, err
	}
	line, err := o.out.ReadString('\n')
	if err != nil {
		return nil, err
	}
	words := strings.Fields(line)
	if len(words) != 3 {
		return nil, nil // it is missing
	}
	n, err := strconv.ParseInt(words[2], 10, 64)
	if err != nil {
		return nil, err
	}
	if n > signwire.MaxFrame-16 {
		_, err := io.CopyN(io.Discard, o.out, n+1)
		return nil, err
	}
	content := make([]byte, n+1)
	if _, err := io.ReadFull(o.out, content); err != nil {
		return nil, err
	}
	return bytes.Join([][]byte{[]byte(words[1]), content[:n]}, []byte{0}), nil
}

// close has git end. It is not waited for: that takes longer than to ask for a signature, and the room has who reaps it.
func (o *objects) close() {
	if o.cmd != nil && o.cmd.Process != nil {
		_ = o.in.Close()
		_ = o.cmd.Process.Kill()
	}
}
