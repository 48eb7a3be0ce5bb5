package e2e

import (
	"bytes"
	"fmt"
	"net"
	"os"
	"os/exec"
	osuser "os/user"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"palyra"
)

// sshServer is a real sshd on loopback, known to programs as bound.example, with one git repository.
type sshServer struct {
	dir, at, user string
	port          string
	repo          string
	hostKey       string // file of the public key
	log           *bytes.Buffer
	keys          []string // files of the private keys that may log in
}

// sshKey makes a key pair and returns the private key's file.
func sshKey(t testing.TB, dir, name string, how ...string) string {
	t.Helper()
	file := filepath.Join(dir, name)
	if len(how) == 0 {
		how = []string{"-t", "ed25519"}
	}
	args := append([]string{"-q", "-N", "", "-C", name, "-f", file}, how...)
	if out, err := exec.Command("ssh-keygen", args...).CombinedOutput(); err != nil {
		t.Fatalf("ssh-keygen: %v\n%s", err, out)
	}
	return file
}

// newSSHServer starts sshd; keys lists files of private keys that may log in.
func newSSHServer(t testing.TB, keys ...string) *sshServer {
	t.Helper()
	me, err := osuser.Current()
	if err != nil {
		t.Fatal(err)
	}
	s := &sshServer{dir: t.TempDir(), user: me.Username, log: &bytes.Buffer{}, keys: keys}
	s.hostKey = sshKey(t, s.dir, "host") + ".pub"
	var authorized []byte
	for _, k := range keys {
		line, err := os.ReadFile(k + ".pub")
		if err != nil {
			t.Fatal(err)
		}
		authorized = append(authorized, line...)
	}
	if err := os.WriteFile(filepath.Join(s.dir, "authorized"), authorized, 0o600); err != nil {
		t.Fatal(err)
	}
	if os.Geteuid() == 0 {
		if err := os.MkdirAll("/run/sshd", 0o755); err != nil { // where it gives up its rights
			t.Fatal(err)
		}
	}
	l, err := net.Listen("tcp4", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	_, s.port, _ = net.SplitHostPort(l.Addr().String())
	_ = l.Close()
	conf := fmt.Sprintf("Port %s\nListenAddress 127.0.0.1\nHostKey %s\nAuthorizedKeysFile %s\nPidFile none\nStrictModes no\nUsePAM no\n"+
		"PasswordAuthentication no\nKbdInteractiveAuthentication no\n"+
		"PermitRootLogin prohibit-password\nAllowAgentForwarding yes\nLogLevel VERBOSE\n",
		s.port, filepath.Join(s.dir, "host"), filepath.Join(s.dir, "authorized"))
	if err := os.WriteFile(filepath.Join(s.dir, "sshd_config"), []byte(conf), 0o600); err != nil {
		t.Fatal(err)
	}
	cmd := exec.Command("/usr/sbin/sshd", "-D", "-e", "-f", filepath.Join(s.dir, "sshd_config"))
	cmd.Stderr = s.log
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = cmd.Process.Kill(); _ = cmd.Wait() })
	s.at = "bound.example:" + s.port
	s.repo = filepath.Join(s.dir, "one.git")
	if out, err := exec.Command("git", "init", "-q", "--bare", "-b", "main", s.repo).CombinedOutput(); err != nil {
		t.Fatalf("%v\n%s", err, out)
	}
	for until := time.Now().Add(20 * time.Second); ; {
		c, err := net.DialTimeout("tcp4", "127.0.0.1:"+s.port, time.Second)
		if err == nil {
			_ = c.Close()
			return s
		}
		if time.Now().After(until) {
			t.Fatalf("sshd does not answer: %v\n%s", err, s.log)
		}
	}
}

// url is that of the repository.
func (s *sshServer) url() string { return "ssh://" + s.user + "@" + s.at + s.repo }

// sshBound starts the daemon with a key in its vault that is bound to a server.
func sshBound(t *testing.T, how ...string) (*daemon, *sshServer, string) {
	t.Helper()
	d := newDaemon(t)
	d.ownWork()
	key := sshKey(t, t.TempDir(), "login", how...)
	s := newSSHServer(t, key)
	d.guarded(world{dns: nameServer(t)}, "PALYRA_EGRESS_ASK=off")
	d.mustVault("", "put", "login", "--from-file", key)
	d.mustVault("", "bind", "deploy", "--ssh", "--secret", "login", "--host", s.at, "--host-key", s.hostKey, "--user", s.user)
	return d, s, key
}

// commits are the commits of the server's repository, by their subjects.
func (s *sshServer) commits(t testing.TB) string {
	t.Helper()
	out, _ := exec.Command("git", "-c", "safe.directory=*", "-C", s.repo, "log", "--format=%s", "main").CombinedOutput()
	return string(out)
}

const cloneAndPush = `cd $TMPDIR && git clone -q %[1]s one && cd one && echo hello > file && git add file &&
	git -c user.name=x -c user.email=x@example.com commit -qm %[2]s && git push -q origin HEAD:main && git ls-remote origin`

// git clones and pushes by ssh with a key that is not in the room.
func TestKeysLogInBySSH(t *testing.T) {
	t.Parallel()
	for name, how := range map[string][]string{"ed25519": nil, "rsa": {"-t", "rsa", "-b", "3072"}, "ecdsa": {"-t", "ecdsa"}} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			d, s, key := sshBound(t, how...)
			out, a := d.allowed(d.using([]string{"deploy"}, fmt.Sprintf(cloneAndPush, s.url(), "first")+"; env; ls -la ~/.ssh; ssh-add -l"))
			text := out.Stdout + out.Stderr
			if out.ExitCode != 0 || s.commits(t) != "first\n" {
				t.Fatalf("%s %s\n%s\n%s\n%s", out.Outcome, out.Reason, text, s.commits(t), s.log)
			}
			private, err := os.ReadFile(key)
			if err != nil {
				t.Fatal(err)
			}
			if strings.Contains(text, strings.Split(string(private), "\n")[2]) || a.SubjectType != palyra.SubjectSecret {
				t.Errorf("%s\n%s", a.SubjectType, text)
			}
			if made := d.made("ssh_login"); len(made) < 3 || made[0]["binding"] != "deploy" || made[0]["call_id"] != string(out.CallID) {
				t.Errorf("on record are %v", made)
			}
			if e := predicate(t, out).Enforcement.Mechanisms; !slices.ContainsFunc(e, func(m string) bool {
				return strings.HasPrefix(m, "binding:deploy:ssh-agent:") && strings.Contains(m, "SHA256:")
			}) {
				t.Errorf("attested are %q", e)
			}
		})
	}
}

// made lists the signatures on record, of a use.
func (d *daemon) made(use string) (all []map[string]any) {
	for _, e := range d.entries() {
		if e.Kind == "signature.made" && e.Body["type"] == use {
			all = append(all, e.Body)
		}
	}
	return all
}

// A server with another host key gets no login, whoever says what to ssh.
func TestKeysAreForTheirServer(t *testing.T) {
	t.Parallel()
	d, s, key := sshBound(t)
	other := newSSHServer(t, key) // the key would be good there
	d.mustVault("", "bind", "wrong", "--ssh", "--secret", "login", "--host", other.at, "--host-key", s.hostKey)
	for what, options := range map[string]string{"checked": "", "unchecked": "-o StrictHostKeyChecking=no -o UserKnownHostsFile=/dev/null"} {
		out, _ := d.allowed(d.using([]string{"wrong"}, "ssh -v "+options+" -p "+other.port+" "+other.user+"@bound.example echo in"))
		if out.ExitCode == 0 || strings.Contains(out.Stdout, "in") {
			t.Errorf("%s: %+v", what, out)
		}
		if what == "unchecked" {
			d.alerted(out, "signature_refused", "a server whose host key is not pinned")
		}
	}
	before := other.commits(t)
	ofRSA := sshKey(t, t.TempDir(), "pinned", "-t", "rsa", "-b", "3072") + ".pub"
	for kind, pin := range map[string]string{"one": s.hostKey, "another": ofRSA} {
		d.mustVault("", "bind", kind, "--git-ssh", "--secret", "login", "--host", other.at, "--host-key", pin)
		for what, line := range map[string]string{
			"clone": "git clone -q " + other.url() + " $TMPDIR/one",
			"push": "git init -q -b main $TMPDIR/own && cd $TMPDIR/own && git -c user.name=x -c user.email=x@example.com commit -q " +
				"--allow-empty -m in && git push -q " + other.url() + " HEAD:main",
		} {
			out, _ := d.answering(d.using([]string{kind}, line), yes)
			if out.ExitCode == 0 || !strings.Contains(out.Stderr, "a server whose host key is not pinned") ||
				!strings.Contains(out.Stderr, "find out why it is another one") || other.commits(t) != before {
				t.Errorf("%s, a host key of %s kind: %+v", what, kind, out)
			}
			d.alerted(out, "signature_refused", "a server whose host key is not pinned")
		}
	}
	if made := d.made("ssh_login"); len(made) != 0 {
		t.Errorf("signed is %v", made)
	}
}
