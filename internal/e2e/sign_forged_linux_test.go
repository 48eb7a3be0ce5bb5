package e2e

import (
	"bufio"
	"bytes"
	"crypto/ed25519"
	"encoding/json"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"testing"
	"time"

	"golang.org/x/crypto/ssh"

	"palyra"
	"palyra/client"
)

// bothKeys starts the daemon with a key that logs in and one that signs, in a workspace that is a repository.
func bothKeys(t *testing.T) (*daemon, *sshServer, []string) {
	t.Helper()
	d, s, login := sshBound(t)
	d.inWorkspace()
	d.signedRepository()
	d.signingKey("ssh")
	return d, s, []string{login}
}

// What programs in a room try with keys that are lent to them, beyond what those are for: nothing is signed.
func TestLentKeysSignNothingElse(t *testing.T) {
	t.Parallel()
	d, s, _ := bothKeys(t)
	d.put("data", "pay Mallory\n")
	const sign = "/run/palyra/bin/palyra-sign"
	for what, line := range map[string]string{
		"ssh-keygen, any text":       `ssh-add -L | head -1 > $TMPDIR/k.pub; ssh-keygen -Y sign -n file -f $TMPDIR/k.pub data`,
		"ssh-keygen, for git":        `ssh-add -L | head -1 > $TMPDIR/k.pub; ssh-keygen -Y sign -n git -f $TMPDIR/k.pub data`,
		"another namespace":          `git config user.signingkey | sed s/key::// > $TMPDIR/k.pub; ` + sign + ` -Y sign -n file -f $TMPDIR/k.pub data`,
		"any text":                   `git config user.signingkey | sed s/key::// > $TMPDIR/k.pub; ` + sign + ` -Y sign -n git -f $TMPDIR/k.pub data`,
		"a hash":                     `git config user.signingkey | sed s/key::// > $TMPDIR/k.pub; git rev-parse HEAD > h; ` + sign + ` -Y sign -n git -f $TMPDIR/k.pub h`,
		"as gpg":                     sign + ` --status-fd=2 -bsau 0123456789ABCDEF0123456789ABCDEF01234567 < data`,
		"another key":                `ssh-keygen -q -t ed25519 -N "" -f $TMPDIR/own; git cat-file commit HEAD > c; ` + sign + ` -Y sign -n git -f $TMPDIR/own.pub c`,
		"a key to add":               `ssh-keygen -q -t ed25519 -N "" -f $TMPDIR/own; ssh-add $TMPDIR/own`,
		"keys to remove":             `ssh-add -D`,
		"an agent to lock":           `echo x | SSH_ASKPASS_REQUIRE=force SSH_ASKPASS=/bin/cat ssh-add -x`,
		"another user":               fmt.Sprintf(`ssh -p %s nobody@bound.example echo in`, s.port),
		"an agent that is forwarded": fmt.Sprintf(`ssh -A -p %[1]s %[2]s@bound.example "ssh -o StrictHostKeyChecking=no -o UserKnownHostsFile=/dev/null -p %[1]s %[2]s@127.0.0.1 echo forwarded" | grep forwarded`, s.port, s.user),
	} {
		out, all := d.answering(d.using([]string{"deploy", "commits"}, line), yes)
		if out.ExitCode == 0 || out.Outcome != palyra.OutcomeFinished {
			t.Errorf("%s: %+v", what, out)
		}
		if asked := ofSignatures(all); len(asked) > 0 {
			t.Errorf("%s: people are asked: %+v", what, asked[0].Prompt)
		}
	}
	if made := append(d.made("commit"), d.made("tag")...); len(made) != 0 {
		t.Errorf("signed is %v", made)
	}
	if made := d.made("ssh_login"); len(made) != 1 { // that on the way to which an agent was forwarded
		t.Errorf("logged in is %v", made)
	}
	no := func(a palyra.Approval) client.DecideRequest {
		if a.Plan.Tool == "palyra.sign" {
			return client.DecideRequest{ID: a.ID, Answer: palyra.AnswerDeny, Digest: a.PlanDigest}
		}
		return yes(a)
	}
	if out, _ := d.answering(d.using([]string{"commits"}, `git commit -q --allow-empty -S -m refused`), no); out.ExitCode == 0 {
		t.Errorf("a no: %+v", out)
	}
	if made := d.made("commit"); len(made) != 0 {
		t.Errorf("signed is %v", made)
	}
}

// A lease for commits on a branch saves questions, as many as it has uses, and none about tags or other branches.
func TestCommitsUnderALease(t *testing.T) {
	t.Parallel()
	d := newDaemon(t)
	d.ownWork()
	d.mustStart(unlimited...)
	d.inWorkspace()
	d.signedRepository()
	good := d.signingKey("ssh")
	lease := func(a palyra.Approval) client.DecideRequest {
		r := yes(a)
		if a.Plan.Tool == "palyra.sign" && strings.Contains(a.Prompt.Covers, "branch") {
			r.Scope, r.TTL, r.Widen, r.Uses = palyra.ScopeTimeboxed, 2*time.Hour, palyra.WidenBranch, 3
		}
		return r
	}
	out, all := d.answering(d.using([]string{"commits"},
		`for i in 1 2 3; do git commit -q --allow-empty -S -m "commit $i" || exit 1; done; git tag -s v1 -m one && git switch -q -c other &&
		git commit -q --allow-empty -S -m elsewhere`), lease)
	if out.ExitCode != 0 {
		t.Fatalf("%+v\n%s", out, d.log)
	}
	var about []string
	for _, a := range ofSignatures(all) {
		about = append(about, a.Prompt.Summary)
	}
	if len(about) != 3 || !strings.Contains(about[0], "commit 1") || !strings.Contains(about[1], `tag "v1"`) || !strings.Contains(about[2], "elsewhere") {
		t.Errorf("asked is about %q", about)
	}
	if made := d.made("commit"); len(made) != 4 {
		t.Errorf("signed are %v", made)
	}
	if said, err := d.onHost(good, "verify-commit", "main", "main~1", "main~2", "other"); err != nil {
		t.Errorf("%v\n%s", err, said)
	}
}

// A key is in no process of a room, where what is in the room's memory is found.
func TestKeysAreNotInTheRoom(t *testing.T) {
	t.Parallel()
	if os.Geteuid() != 0 {
		t.Skip("UNPROVEN HERE: only root reads the memory of others")
	}
	d, s, files := bothKeys(t)
	text, err := os.ReadFile(files[0])
	if err != nil {
		t.Fatal(err)
	}
	raw, err := ssh.ParseRawPrivateKey(text)
	if err != nil {
		t.Fatal(err)
	}
	private := *raw.(*ed25519.PrivateKey)
	secretParts := map[string][]byte{"seed": private.Seed(), "text": []byte(strings.Split(string(text), "\n")[2])}
	const control = "planted-0f9b2c7d-in-this-room"
	scanned := 0
	look := func(a palyra.Approval) client.DecideRequest {
		if a.Plan.Tool != "palyra.sign" {
			return yes(a)
		}
		names := map[string]bool{} // ssh, git and palyra-sign are under way now
		for _, pid := range processesWith(control) {
			name, memory := memoryOf(pid)
			names[name] = true
			for what, part := range secretParts {
				if bytes.Contains(memory, part) {
					t.Errorf("%s of the key is in %s", what, name)
				}
			}
			if bytes.Contains(memory, []byte(control)) {
				scanned++
			}
		}
		if !names["palyra-sign"] || !names["git"] || !names["ssh"] {
			t.Errorf("looked at are %v", names)
		}
		return yes(a)
	}
	out, _ := d.answering(d.using([]string{"deploy", "commits"}, fmt.Sprintf(`export CONTROL=%s; ssh -p %s %s@bound.example sleep 600 > /dev/null & bg=$!
		ssh -p %[2]s %[3]s@bound.example true && git commit -q --allow-empty -S -m looked-at; kill $bg`, control, s.port, s.user)), look)
	if out.ExitCode != 0 && len(d.made("commit")) != 1 {
		t.Errorf("%+v", out)
	}
	if scanned < 3 {
		t.Errorf("what was planted is found in %d processes only", scanned)
	}
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

// An ordinary user's daemon signs and logs in as root's does.
func TestAnOrdinaryUsersKeysSign(t *testing.T) {
	t.Parallel()
	d := newDaemon(t)
	login := sshKey(t, t.TempDir(), "login")
	s := newSSHServer(t, login)
	as := d.ordinary("PALYRA_EGRESS_RESOLVER="+nameServer(t), "PALYRA_EGRESS_PRIVATE_RANGES=127.0.0.0/8", "PALYRA_EGRESS_ASK=off")
	d.signedRepository()
	put := func(name, file string) {
		text, err := os.ReadFile(file)
		if err != nil {
			t.Fatal(err)
		}
		cmd := as("palyra", "vault", "put", name, "--from-stdin")
		cmd.Stdin = bytes.NewReader(text)
		if out, err := cmd.CombinedOutput(); err != nil {
			t.Fatalf("%v\n%s", err, out)
		}
	}
	must := func(args ...string) {
		if out, err := as("palyra", args...).CombinedOutput(); err != nil {
			t.Fatalf("%q: %v\n%s", args, err, out)
		}
	}
	hostKey, err := os.ReadFile(s.hostKey)
	if err != nil {
		t.Fatal(err)
	}
	must("workspace", "add", d.work)
	put("login", login)
	put("signing", login)
	pub := d.put("host.pub", string(hostKey))
	must("vault", "bind", "deploy", "--ssh", "--secret", "login", "--host", s.at, "--host-key", pub, "--user", s.user)
	must("vault", "bind", "commits", "--sign", "--secret", "signing")
	cmd := as("palyra", "exec", "--json", "--secret", "deploy", "--secret", "commits", "--", "/bin/sh", "-c",
		fmt.Sprintf(`git commit -q --allow-empty -S -m mine && git push -q %s HEAD:main && git cat-file commit HEAD`, s.url()))
	var stdout bytes.Buffer
	cmd.Stdout = &stdout
	stderr, err := cmd.StderrPipe()
	if err != nil {
		t.Fatal(err)
	}
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	lines := bufio.NewScanner(stderr)
	for lines.Scan() {
		var e struct {
			Approval palyra.ApprovalID `json:"approval_id"`
			Plan     palyra.Digest     `json:"plan_digest"`
		}
		if json.Unmarshal(lines.Bytes(), &e) == nil && e.Approval != "" && e.Plan != "" {
			_ = as("palyra", "approvals", "decide", string(e.Approval), "allow", "--digest", string(e.Plan)).Run() // again for one that is settled
		}
	}
	_, _ = io.Copy(io.Discard, stderr)
	_ = cmd.Wait()
	if !strings.Contains(stdout.String(), "BEGIN SSH SIGNATURE") || s.commits(t) != "mine\nbegin\n" {
		t.Errorf("%s\n%s\n%s", stdout.String(), s.commits(t), d.log)
	}
}
