package e2e

import (
	"bytes"
	"crypto/ed25519"
	"encoding/hex"
	"fmt"
	"os"
	"path/filepath"
	"regexp"
	"strconv"
	"strings"
	"sync"
	"testing"

	"golang.org/x/crypto/ssh"

	"palyra"
	"palyra/client"
)

// A key is in no process of a room, where what is in the room's memory is found.
func TestKeysAreNotInTheRoom(t *testing.T) {
	t.Parallel()
	if os.Geteuid() != 0 {
		t.Skip("UNPROVEN HERE: only root reads the memory of others")
	}
	for _, c := range []struct {
		login, format, line string
		names               []string
	}{
		{"ssh", "ssh", `ssh -p %[1]s %[2]s@bound.example sleep 600 > /dev/null & bg=$!
			ssh -p %[1]s %[2]s@bound.example true && git commit -q --allow-empty -S -m looked-at; kill $bg`, []string{"palyra-sign", "git", "ssh"}},
		{"git-ssh", "gpg", commitAndPush, []string{"palyra-sign", "git"}},
		{"git-ssh", "gpg-agent", commitAndPush, []string{"palyra-sign", "git"}},
	} {
		t.Run(c.login+" "+c.format, func(t *testing.T) {
			t.Parallel()
			begin := bothKeys
			if c.login == "git-ssh" {
				begin = pushing
			}
			d, s := begin(t)
			if c.login == "git-ssh" {
				d.signedRepository()
			}
			l := &memoryLook{t: t, parts: privateParts(t, s.keys[0], ""), names: map[string]bool{}}
			for what, part := range d.signingKey(c.format).private {
				l.parts["signing "+what] = part
			}
			line := strings.NewReplacer("%[1]s", s.port, "%[2]s", s.user, "%[3]s", s.url()).Replace(c.line)
			out, _ := d.answering(d.using([]string{"deploy", "commits"}, "export CONTROL="+memoryControl+"; "+line), l.decide)
			if out.ExitCode != 0 || len(d.made("commit")) != 1 || len(d.made("ssh_login")) == 0 {
				t.Errorf("%+v\n%s", out, d.log)
			}
			for _, name := range c.names {
				if !l.names[name] {
					t.Errorf("%s is not among what was looked at: %v", name, l.names)
				}
			}
			if l.scanned < 3 {
				t.Errorf("what was planted is found in %d processes only", l.scanned)
			}
		})
	}
}

const (
	memoryControl = "planted-0f9b2c7d-in-this-room"
	commitAndPush = `git commit -q --allow-empty -S -m looked-at && git push -q %[3]s HEAD:looked`
)

// memoryLook looks for parts of keys in the memory of a room's processes.
type memoryLook struct {
	t       *testing.T
	parts   map[string][]byte
	mu      sync.Mutex
	names   map[string]bool
	scanned int
}

// decide says yes; where the question is about a use of a key, what works with keys is under way, and is looked at first.
func (l *memoryLook) decide(a palyra.Approval) client.DecideRequest {
	l.mu.Lock()
	defer l.mu.Unlock()
	if a.Plan.Tool != "palyra.sign" && a.Plan.Tool != "palyra.git.remote" {
		return yes(a)
	}
	for _, pid := range processesWith(memoryControl) {
		name, memory := memoryOf(pid)
		l.names[name] = true
		for what, part := range l.parts {
			if bytes.Contains(memory, part) {
				l.t.Errorf("%s of the key is in %s", what, name)
			}
		}
		if bytes.Contains(memory, []byte(memoryControl)) {
			l.scanned++
		}
	}
	return yes(a)
}

// privateParts are the parts of a private key, in a file and, of OpenPGP, in the agent's directory: a line of its text, and
// what the key is made from where that is told from the other half.
func privateParts(t testing.TB, file, home string) map[string][]byte {
	t.Helper()
	text, err := os.ReadFile(file)
	if err != nil {
		t.Fatal(err)
	}
	lines := strings.Split(string(text), "\n") // the secret is in the third or fourth of the text
	parts := map[string][]byte{"text": []byte(lines[3])}
	if home == "" {
		parts["text"] = []byte(lines[4])
		raw, err := ssh.ParseRawPrivateKey(text)
		if err != nil {
			t.Fatal(err)
		}
		parts["seed"] = raw.(*ed25519.PrivateKey).Seed()
		return parts
	}
	files, _ := filepath.Glob(filepath.Join(home, "private-keys-v1.d", "*.key"))
	if len(files) != 1 {
		t.Fatalf("keys of gpg-agent are in %q", files)
	}
	if text, err = os.ReadFile(files[0]); err != nil {
		t.Fatal(err)
	}
	number := func(name string) []byte {
		m := regexp.MustCompile(`\(` + name + `\s+#([0-9A-F\s]+)#\)`).FindSubmatch(text)
		if m == nil {
			t.Fatalf("the file of gpg-agent has no %s", name)
		}
		b, err := hex.DecodeString(strings.Join(strings.Fields(string(m[1])), ""))
		if err != nil {
			t.Fatal(err)
		}
		return b
	}
	parts["seed"] = number("d")
	if bytes.Contains(text, []byte("Ed25519")) && !bytes.HasSuffix(number("q"), ed25519.NewKeyFromSeed(parts["seed"])[ed25519.SeedSize:]) {
		t.Fatal("that is not the private key")
	}
	return parts
}

// processesWith lists processes that have a text in their environment.
func processesWith(text string) (pids []int) {
	all, _ := filepath.Glob("/proc/[0-9]*/environ")
	for _, f := range all {
		if env, err := os.ReadFile(f); err == nil && bytes.Contains(env, []byte(text)) {
			pid, _ := strconv.Atoi(strings.Split(f, "/")[2])
			pids = append(pids, pid)
		}
	}
	return pids
}

// memoryOf reads the memory of a process that it can write to.
func memoryOf(pid int) (name string, memory []byte) {
	dir := fmt.Sprintf("/proc/%d", pid)
	comm, _ := os.ReadFile(dir + "/comm")
	maps, _ := os.ReadFile(dir + "/maps")
	mem, err := os.Open(dir + "/mem")
	if err != nil {
		return strings.TrimSpace(string(comm)), nil
	}
	defer mem.Close()
	for line := range strings.Lines(string(maps)) {
		var from, to int64
		var mode string
		if n, _ := fmt.Sscanf(line, "%x-%x %s", &from, &to, &mode); n != 3 || !strings.HasPrefix(mode, "rw") || to-from > 256<<20 {
			continue
		}
		part := make([]byte, to-from)
		n, _ := mem.ReadAt(part, from)
		memory = append(memory, part[:n]...)
	}
	return strings.TrimSpace(string(comm)), memory
}
