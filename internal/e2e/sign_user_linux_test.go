package e2e

import (
	"bufio"
	"bytes"
	"encoding/json"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	"palyra"
)

// An ordinary user's daemon signs, clones and pushes as root's does, with keys of its vault and of the user's own gpg-agent.
func TestAnOrdinaryUsersKeysSign(t *testing.T) {
	t.Parallel()
	for login, formats := range map[string][]string{"--ssh": {"ssh"}, "--git-ssh": {"gpg", "gpg-agent"}} {
		for _, format := range formats {
			t.Run(login+" "+format, func(t *testing.T) {
				t.Parallel()
				key := sshKey(t, t.TempDir(), "login")
				d, s := newDaemon(t), newSSHServer(t, key)
				u := user{d, d.ordinary("PALYRA_EGRESS_RESOLVER="+nameServer(t), "PALYRA_EGRESS_PRIVATE_RANGES=127.0.0.0/8", "PALYRA_EGRESS_ASK=off")}
				d.signedRepository()
				hostKey, err := os.ReadFile(s.hostKey)
				if err != nil {
					t.Fatal(err)
				}
				pin := d.put("host.pub", string(hostKey))
				k := d.newKeyToSign(format)
				u.must(nil, "workspace", "add", d.work)
				u.keep("login", key)
				u.must(nil, "vault", "bind", "deploy", login, "--secret", "login", "--host", s.at, "--host-key", pin, "--user", s.user)
				if k.file != "" {
					u.keep("signing", k.file)
				} else {
					u.ownAgent(k.home)
				}
				u.must(nil, append([]string{"vault"}, k.bind...)...)
				said := u.answered(commitAndTag + fmt.Sprintf(` && git push -q %[1]s HEAD:main && git clone -q %[1]s $TMPDIR/one &&
					git -C $TMPDIR/one log --format='cloned %%s'`, s.url()))
				if !strings.Contains(said, "cloned second commit") || s.commits(t) != "second commit\nbegin\n" {
					t.Fatalf("%s\n%s\n%s", said, s.log, d.log)
				}
				for _, args := range [][]string{{"log", "-1", "--show-signature"}, {"tag", "-v", "v1"}} {
					if said, err := d.onHost(k.good, args...); err != nil || !strings.Contains(said, "Good") {
						t.Errorf("git %q: %v\n%s", args, err, said)
					}
				}
			})
		}
	}
}

// must runs a command that must succeed.
func (u user) must(input []byte, args ...string) {
	u.t.Helper()
	cmd := u.as("palyra", args...)
	cmd.Stdin = bytes.NewReader(input)
	if out, err := cmd.CombinedOutput(); err != nil {
		u.t.Fatalf("%q: %v\n%s", args, err, out)
	}
}

// keep puts a file into the vault.
func (u user) keep(name, file string) {
	u.t.Helper()
	text, err := os.ReadFile(file)
	if err != nil {
		u.t.Fatal(err)
	}
	u.must(text, "vault", "put", name, "--from-stdin")
}

// ownAgent makes a GNUPGHOME and its agent the user's.
func (u user) ownAgent(home string) {
	u.t.Helper()
	if os.Geteuid() != 0 {
		return
	}
	if out, err := exec.Command("gpgconf", "--homedir", home, "--kill", "all").CombinedOutput(); err != nil {
		u.t.Fatalf("%v\n%s", err, out)
	}
	err := filepath.WalkDir(home, func(path string, _ os.DirEntry, err error) error {
		if err != nil && os.IsNotExist(err) { // a socket of the agent that ends
			return nil
		}
		u.give(path)
		return err
	})
	if err != nil {
		u.t.Fatal(err)
	}
	if out, err := u.as("/usr/bin/gpg-connect-agent", "--homedir", home, "/bye").CombinedOutput(); err != nil {
		u.t.Fatalf("%v\n%s", err, out)
	}
}

// answered runs a line for a shell with both keys, says yes to every question about it, and returns what it printed.
func (u user) answered(line string) string {
	u.t.Helper()
	cmd := u.as("palyra", "exec", "--json", "--secret", "deploy", "--secret", "commits", "--", "/bin/sh", "-c", line)
	var stdout bytes.Buffer
	cmd.Stdout = &stdout
	stderr, err := cmd.StderrPipe()
	if err != nil {
		u.t.Fatal(err)
	}
	if err := cmd.Start(); err != nil {
		u.t.Fatal(err)
	}
	lines := bufio.NewScanner(stderr)
	for lines.Scan() {
		var e struct {
			Approval palyra.ApprovalID `json:"approval_id"`
			Plan     palyra.Digest     `json:"plan_digest"`
		}
		if json.Unmarshal(lines.Bytes(), &e) == nil && e.Approval != "" && e.Plan != "" {
			_ = u.as("palyra", "approvals", "decide", string(e.Approval), "allow", "--digest", string(e.Plan)).Run() // again for one that is settled
		}
	}
	_, _ = io.Copy(io.Discard, stderr)
	_ = cmd.Wait()
	return stdout.String()
}
