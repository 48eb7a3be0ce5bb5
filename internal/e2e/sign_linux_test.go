package e2e

import (
	"bytes"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"syscall"
	"testing"

	"palyra"
	"palyra/client"
)

// onHost runs git on the host, in the workspace, as whoever runs the tests: ssh-keygen wants to have an account.
func (d *daemon) onHost(env []string, args ...string) (string, error) {
	cmd := exec.Command("git", append([]string{"-c", "safe.directory=*"}, args...)...)
	cmd.Dir, cmd.Env = d.work, append([]string{"PATH=/usr/bin:/bin", "HOME=" + d.work, "GIT_CONFIG_NOSYSTEM=1"}, env...)
	out, err := cmd.CombinedOutput()
	return string(out), err
}

// asOwner runs a command on the host as the workspace's owner, in the workspace.
func (d *daemon) asOwner(env []string, name string, args ...string) (string, error) {
	cmd := exec.Command(name, args...)
	cmd.Dir, cmd.Env = d.work, append([]string{"PATH=/usr/bin:/bin", "HOME=" + d.work, "GIT_CONFIG_NOSYSTEM=1"}, env...)
	if os.Geteuid() == 0 {
		cmd.SysProcAttr = &syscall.SysProcAttr{Credential: &syscall.Credential{Uid: someone, Gid: someone}}
	}
	out, err := cmd.CombinedOutput()
	return string(out), err
}

// signedRepository makes the workspace a git repository with one commit.
func (d *daemon) signedRepository() {
	d.t.Helper()
	d.put("file", "one\ntwo\n")
	for _, args := range [][]string{
		{"init", "-q", "-b", "main"},
		{"config", "user.name", "Ann Example"},
		{"config", "user.email", "ann@example.com"},
		{"add", "file"},
		{"commit", "-q", "-m", "begin"},
	} {
		if out, err := d.asOwner(nil, "git", args...); err != nil {
			d.t.Fatalf("git %q: %v\n%s", args, err, out)
		}
	}
}

// answering proposes a call and answers every question that it comes to.
func (d *daemon) answering(r client.CallRequest, decide func(palyra.Approval) client.DecideRequest) (palyra.Outcome, []palyra.Approval) {
	d.t.Helper()
	agent, person := d.client(client.AgentDoor), d.client(client.OperatorDoor)
	var mu sync.Mutex
	var all []palyra.Approval
	var work sync.WaitGroup
	out, err := agent.Call(d.t.Context(), r, func(e client.CallEvent) {
		if e.ApprovalRequested == nil {
			return
		}
		work.Go(func() {
			a, err := person.Approval(d.t.Context(), e.ApprovalRequested.ApprovalID)
			if err != nil {
				d.t.Error(err)
				return
			}
			mu.Lock()
			all = append(all, a)
			mu.Unlock()
			if _, err := person.Decide(d.t.Context(), decide(a)); err != nil {
				d.t.Error(err)
			}
		})
	})
	work.Wait()
	if err != nil {
		d.t.Fatalf("%v\n%s", err, d.log)
	}
	return out, all
}

func yes(a palyra.Approval) client.DecideRequest { return allow(a, palyra.ScopeOnce, 0) }

// ofSignatures are the questions about signatures.
func ofSignatures(all []palyra.Approval) []palyra.Approval {
	return slices.DeleteFunc(slices.Clone(all), func(a palyra.Approval) bool { return a.Plan.Tool != "palyra.sign" })
}

// gpgKey makes an OpenPGP key and returns its GNUPGHOME, the armored private key's file and the fingerprint.
func gpgKey(t testing.TB, kind string) (home, file, print string) {
	t.Helper()
	home, err := os.MkdirTemp("/tmp", "gpg") // its sockets have short names
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		_ = exec.Command("gpgconf", "--homedir", home, "--kill", "all").Run()
		_ = os.RemoveAll(home)
	})
	run := func(args ...string) string {
		cmd := exec.Command("gpg", append([]string{
			"--homedir", home, "--batch", "--no-tty", "--pinentry-mode", "loopback", "--passphrase", "",
		}, args...)...)
		var out, errs bytes.Buffer
		cmd.Stdout, cmd.Stderr = &out, &errs
		if err := cmd.Run(); err != nil {
			t.Fatalf("gpg %q: %v\n%s", args, err, errs.String())
		}
		return out.String()
	}
	run("--quick-gen-key", "Ann Example <ann@example.com>", kind, "sign", "never")
	for line := range strings.Lines(run("--with-colons", "--list-secret-keys")) {
		if w := strings.Split(line, ":"); w[0] == "fpr" && print == "" {
			print = w[9]
		}
	}
	file = filepath.Join(home, "private.asc")
	if err := os.WriteFile(file, []byte(run("--armor", "--export-secret-keys")), 0o600); err != nil {
		t.Fatal(err)
	}
	return home, file, print
}

// gpgAgent makes an OpenPGP key that a gpg-agent has, and returns the GNUPGHOME, the agent's socket and a file of the public key.
func gpgAgent(t testing.TB, kind string) (home, socket, public string) {
	t.Helper()
	home, _, _ = gpgKey(t, kind)
	where, err := exec.Command("gpgconf", "--homedir", home, "--list-dirs", "agent-socket").Output()
	if err != nil {
		t.Fatal(err)
	}
	text, err := exec.Command("gpg", "--homedir", home, "--batch", "--armor", "--export-options", "export-minimal", "--export").Output()
	if err != nil {
		t.Fatal(err)
	}
	public = filepath.Join(home, "public.asc")
	if err := os.WriteFile(public, text, 0o600); err != nil {
		t.Fatal(err)
	}
	return home, strings.TrimSpace(string(where)), public
}

const commitAndTag = `echo three >> file && echo new > other && git add . && git commit -q -S -m "second commit

with a body" && git tag -s v1 -m "the first version" && git log --format=%s`

// git commit -S and git tag -s sign with keys that are not in the room, once each was shown; the real programs say that the
// signatures are good.
func TestCommitsAndTagsAreSigned(t *testing.T) {
	t.Parallel()
	for _, format := range []string{"ssh", "gpg", "gpg-agent", "gpg-agent of RSA"} {
		t.Run(format, func(t *testing.T) {
			t.Parallel()
			d := newDaemon(t)
			d.ownWork()
			d.mustStart(unlimited...)
			d.inWorkspace()
			d.signedRepository()
			good := d.signingKey(format).good
			out, all := d.answering(d.using([]string{"commits"}, commitAndTag), yes)
			if out.ExitCode != 0 || out.Outcome != palyra.OutcomeFinished {
				t.Fatalf("%+v\n%s", out, d.log)
			}
			asked := ofSignatures(all)
			if len(asked) != 2 {
				t.Fatalf("asked is %d times about signatures: %+v", len(asked), all)
			}
			shown := asked[0].Prompt.Summary + "\n" + strings.Join(asked[0].Prompt.Notes, "\n")
			for _, want := range []string{
				"second commit", "on main", "with a body", "Ann Example <ann@example.com>", "changed file +1 -0", "added other +1 -0",
				"tree ", "parent ",
			} {
				if !strings.Contains(shown, want) {
					t.Errorf("%q is not shown:\n%s", want, shown)
				}
			}
			if asked[0].SubjectType != palyra.SubjectSecret || !strings.Contains(asked[1].Prompt.Summary, `tag "v1"`) {
				t.Errorf("%s %s", asked[0].SubjectType, asked[1].Prompt.Summary)
			}
			for what, args := range map[string][]string{
				"commit": {"verify-commit", "HEAD"}, "tag": {"verify-tag", "v1"}, "log": {"log", "-1", "--show-signature"},
			} {
				said, err := d.onHost(good, args...)
				if err != nil || !strings.Contains(said, "Good") {
					t.Errorf("%s: %v\n%s", what, err, said)
				}
			}
			commits, tags := d.made("commit"), d.made("tag")
			if len(commits) != 1 || len(tags) != 1 || commits[0]["grant_id"] == "" || commits[0]["payload_digest"] == "" ||
				!strings.Contains(shown, commits[0]["payload_digest"].(string)) {
				t.Errorf("on record are %v %v", commits, tags)
			}
		})
	}
}

// keyToSign is a key for signatures.
type keyToSign struct {
	home    string            // GNUPGHOME, of OpenPGP
	file    string            // of the private key, for the vault; none with an agent
	bind    []string          // how it is bound
	good    []string          // the variables by which git on the host checks its signatures
	private map[string][]byte // what a program that had the key would have in its memory
}

// newKeyToSign makes a key.
func (d *daemon) newKeyToSign(format string) keyToSign {
	d.t.Helper()
	bind := []string{"bind", "commits", "--sign"}
	if kind, ok := map[string]string{"gpg-agent": "ed25519", "gpg-agent of RSA": "rsa2048"}[format]; ok {
		home, socket, public := gpgAgent(d.t, kind)
		return keyToSign{
			home: home, bind: append(bind, "--gpg-agent", socket, "--key", public), good: []string{"GNUPGHOME=" + home},
			private: privateParts(d.t, filepath.Join(home, "private.asc"), home),
		}
	}
	bind = append(bind, "--secret", "signing")
	if format == "gpg" {
		home, file, _ := gpgKey(d.t, "ed25519")
		return keyToSign{
			home: home, file: file, bind: bind, good: []string{"GNUPGHOME=" + home}, private: privateParts(d.t, file, home),
		}
	}
	key := sshKey(d.t, d.t.TempDir(), "signing")
	public, err := os.ReadFile(key + ".pub")
	if err != nil {
		d.t.Fatal(err)
	}
	d.put(".signers", "ann@example.com "+string(public))
	d.put(".git/info/exclude", ".signers\n")
	return keyToSign{file: key, bind: bind, private: privateParts(d.t, key, ""), good: []string{
		"GIT_CONFIG_COUNT=1", "GIT_CONFIG_KEY_0=gpg.ssh.allowedSignersFile", "GIT_CONFIG_VALUE_0=" + filepath.Join(d.work, ".signers"),
	}}
}

// signingKey binds a new key as "commits".
func (d *daemon) signingKey(format string) keyToSign {
	d.t.Helper()
	k := d.newKeyToSign(format)
	if k.file != "" {
		d.mustVault("", "put", "signing", "--from-file", k.file)
	}
	d.mustVault("", k.bind...)
	return k
}
