package profile

import (
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	"golang.org/x/sys/unix"
)

func TestGitConfig(t *testing.T) {
	s := newStage(t)
	s.file(".config/git/config", "[user]\n\tname = First\n\temail = first@example.org\n")
	s.file(".gitconfig", `
# mine
[user]
	name = "Ann \"A\" O'Neil" ; comment
	signingkey = KEY
[core]
	autocrlf = Input
	sshCommand = evil
	hooksPath = /tmp/evil
	fsmonitor = evil
[init] defaultBranch = main
[alias]
	st = !evil
[include]
	path = ~/.secret
[filter "lfs"]
	clean = evil
[user "sub"]
	name = Other
[url "https://token@host/"]
	insteadOf = https://host/
[credential]
	helper = store
`)
	r := s.resolve("git")
	if len(r.Files) != 1 || r.Files[0].Target != "/home/agent/.gitconfig" || len(r.Notes) > 0 {
		t.Fatalf("%+v", r)
	}
	want := "[user]\n\tname = \"Ann \\\"A\\\" O'Neil\"\n\temail = \"first@example.org\"\n[init]\n\tdefaultBranch = " +
		"\"main\"\n[core]\n\tautocrlf = \"input\"\n" +
		"[safe]\n\tdirectory = \"" + s.ws.Path + "\"\n\tdirectory = \"" + s.ws.Path + "/*\"\n\tbareRepository = \"explicit\"\n"
	if r.Files[0].Text != want {
		t.Errorf("%s\nwant\n%s", r.Files[0].Text, want)
	}
}

func TestGitConfigThatIsNoFile(t *testing.T) {
	s := newStage(t)
	p := filepath.Join(s.home, ".gitconfig")
	for name, lay := range map[string]func() error{
		"a pipe":      func() error { return unix.Mkfifo(p, 0o600) },
		"a directory": func() error { return os.Mkdir(p, 0o700) },
		"a device":    func() error { return os.Symlink("/dev/zero", p) },
		"too long":    func() error { return os.WriteFile(p, make([]byte, maxGitConfig+1), 0o600) },
	} {
		must(t, lay())
		if r := s.resolve("git"); len(r.Notes) == 0 || !strings.Contains(r.Notes[0], "left out") ||
			!strings.HasPrefix(r.Files[0].Text, "[safe]") {
			t.Errorf("%s: %q\n%s", name, r.Notes, r.Files[0].Text)
		}
		must(t, os.Remove(p))
	}
	if os.Geteuid() == 0 { // nor root's own, for a user
		s.file(".gitconfig", "[user]\n\tname = Root\n")
		s.ws.Owner = 1002
		if r := s.resolve("git"); strings.Contains(r.Files[0].Text, "Root") {
			t.Errorf("%s", r.Files[0].Text)
		}
	}
}

func FuzzGitConfig(f *testing.F) {
	f.Add([]byte("[user]\nname = \"a\\\"b\" # c\nemail=x\\\ny\n[core]\nautocrlf=true\n[init]defaultBranch=x"), "/w/\"\\\n")
	f.Add([]byte("[user \"x\"]\nname = y"), "/w")
	f.Fuzz(func(t *testing.T, raw []byte, workspace string) {
		var s gitSettings
		s.read(raw)
		var back gitSettings
		back.read([]byte(s.text("/w")))
		if back != s {
			t.Errorf("%+v is read back as %+v", s, back)
		}
		text := s.text(strings.ReplaceAll(workspace, "\x00", ""))
		for line := range strings.Lines(text) { // nothing gets out of its quotes into a line of its own
			ok := strings.HasPrefix(line, "\t") && strings.HasSuffix(line, "\"\n")
			for _, head := range []string{"[user]\n", "[init]\n", "[core]\n", "[safe]\n"} {
				ok = ok || line == head
			}
			if !ok {
				t.Errorf("line %q", line)
			}
		}
	})
}

// git itself reads what was written.
func TestGitReadsIt(t *testing.T) {
	git, err := exec.LookPath("git")
	must(t, err)
	s := gitSettings{name: `A "b" \ c # d`, email: "a;b@x", branch: "main", autocrlf: "input"}
	file := filepath.Join(t.TempDir(), "config")
	must(t, os.WriteFile(file, []byte(s.text("/w/\"x\" \\ #y\nz")), 0o600))
	for key, want := range map[string]string{
		"user.name": s.name, "user.email": s.email, "init.defaultBranch": "main",
		"core.autocrlf": "input", "safe.directory": "/w/\"x\" \\ #y\nz/*",
	} {
		out, err := exec.Command(git, "config", "--file", file, "--get", key).Output()
		if err != nil || string(out) != want+"\n" {
			t.Errorf("%s: %q, %v", key, out, err)
		}
	}
}
