package sshkey

import (
	"bytes"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"golang.org/x/crypto/ssh"
)

// keygen makes a key pair by ssh-keygen.
func keygen(t *testing.T, args ...string) (file string, private []byte) {
	t.Helper()
	file = filepath.Join(t.TempDir(), "key")
	if out, err := exec.Command("ssh-keygen", append([]string{"-q", "-f", file}, args...)...).CombinedOutput(); err != nil {
		t.Fatalf("%v\n%s", err, out)
	}
	private, err := os.ReadFile(file)
	if err != nil {
		t.Fatal(err)
	}
	return file, private
}

// good reports whether ssh-keygen says that a signature of a text is good.
func good(t *testing.T, k *Key, text, sig []byte, namespace string) bool {
	t.Helper()
	dir := t.TempDir()
	for name, content := range map[string][]byte{"signers": []byte("ann " + Line(k.Public()) + "\n"), "sig": sig} {
		if err := os.WriteFile(filepath.Join(dir, name), content, 0o600); err != nil {
			t.Fatal(err)
		}
	}
	cmd := exec.Command("ssh-keygen", "-Y", "verify", "-f", filepath.Join(dir, "signers"), "-I", "ann", "-n", namespace,
		"-s", filepath.Join(dir, "sig"))
	cmd.Stdin = bytes.NewReader(text)
	return cmd.Run() == nil
}

// Keys of all kinds sign texts that the real ssh-keygen checks; one byte more, or another namespace, is no good.
func TestSignText(t *testing.T) {
	for name, args := range map[string][]string{
		"ed25519": {"-t", "ed25519"}, "rsa": {"-t", "rsa", "-b", "2048"}, "ecdsa": {"-t", "ecdsa"},
		"pem": {"-t", "rsa", "-b", "2048", "-m", "PEM"},
	} {
		_, private := keygen(t, append(args, "-N", "")...)
		k, err := Parse(private)
		if err != nil {
			t.Fatalf("%s: %v", name, err)
		}
		text := []byte("tree …\n")
		sig, err := k.SignText(t.Context(), text)
		if err != nil || !good(t, k, text, sig, GitNamespace) {
			t.Errorf("%s: %v\n%s", name, err, sig)
		}
		if good(t, k, append(text, '\n'), sig, GitNamespace) || good(t, k, text, sig, "file") {
			t.Errorf("%s: another text, or another namespace, is good", name)
		}
	}
}

// What is no usable key is refused with a remedy, and nothing of it is in the error.
func TestParseRefuses(t *testing.T) {
	_, locked := keygen(t, "-t", "ed25519", "-N", "a passphrase")
	_, whole := keygen(t, "-t", "ed25519", "-N", "")
	_, short := keygen(t, "-t", "rsa", "-b", "1024", "-N", "")
	for what, text := range map[string][]byte{
		"a passphrase": locked, "half of it": whole[:len(whole)/2], "a short one": short, "nothing": nil,
		"a token": []byte("ghp_secretsecretsecret"),
	} {
		k, err := Parse(text)
		if err == nil {
			t.Errorf("%s: %v", what, k.Public())
			continue
		}
		if len(text) > 60 && strings.Contains(err.Error(), string(text[40:60])) || strings.Contains(err.Error(), "ghp_") {
			t.Errorf("%s: %v", what, err)
		}
	}
	_, private := keygen(t, "-t", "rsa", "-b", "2048", "-N", "")
	k, err := Parse(private)
	if err != nil {
		t.Fatal(err)
	}
	if _, err := k.Sign(t.Context(), []byte("x"), ssh.KeyAlgoRSA); err == nil {
		t.Error("RSA signs with SHA-1")
	}
}

// A key of a real ssh-agent signs by it, and is found by its fingerprint or its line.
func TestInAgent(t *testing.T) {
	file, private := keygen(t, "-t", "ed25519", "-N", "")
	want, err := Parse(private)
	if err != nil {
		t.Fatal(err)
	}
	socket := filepath.Join(t.TempDir(), "s")
	cmd := exec.Command("ssh-agent", "-D", "-a", socket)
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = cmd.Process.Kill(); _ = cmd.Wait() })
	add := func() error {
		c := exec.Command("ssh-add", file)
		c.Env = append(os.Environ(), "SSH_AUTH_SOCK="+socket)
		return c.Run()
	}
	for until := time.Now().Add(20 * time.Second); add() != nil; {
		if time.Now().After(until) {
			t.Fatal("the agent does not answer")
		}
	}
	for _, name := range []string{ssh.FingerprintSHA256(want.Public()), Line(want.Public()) + " a comment"} {
		k, err := InAgent(t.Context(), socket, name)
		if err != nil {
			t.Fatalf("%s: %v", name, err)
		}
		sig, err := k.SignText(t.Context(), []byte("text"))
		if err != nil || !good(t, k, []byte("text"), sig, GitNamespace) {
			t.Errorf("%s: %v", name, err)
		}
	}
	if _, err := InAgent(t.Context(), socket, "SHA256:another"); err == nil {
		t.Error("another key is there")
	}
	if _, err := InAgent(t.Context(), socket+"x", "SHA256:another"); err == nil {
		t.Error("another agent is there")
	}
}

// Host keys are read from known_hosts, hashed or not, for their own servers, and from plain lines.
func TestHostKeys(t *testing.T) {
	_, private := keygen(t, "-t", "ed25519", "-N", "")
	k, err := Parse(private)
	if err != nil {
		t.Fatal(err)
	}
	line := Line(k.Public())
	dir := t.TempDir()
	known := filepath.Join(dir, "known")
	if err := os.WriteFile(known, []byte("git.example "+line+"\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	if out, err := exec.Command("ssh-keygen", "-H", "-f", known).CombinedOutput(); err != nil {
		t.Fatalf("%v\n%s", err, out)
	}
	hashed, err := os.ReadFile(known)
	if err != nil {
		t.Fatal(err)
	}
	for text, host := range map[string]string{
		line + " comment": "git.example:22", "git.example " + line: "git.example:22", "[git.example]:2222 " + line: "git.example:2222",
		string(hashed): "git.example:22", "a,git.example " + line: "GIT.example:22",
	} {
		if got, err := HostKeys([]string{text}, []string{host}); err != nil || len(got) != 1 || got[0] != line {
			t.Errorf("%q: %q %v", text, got, err)
		}
	}
	for text, host := range map[string]string{
		"other.example " + line: "git.example:22", "git.example " + line + " ": "git.example:2222", string(hashed): "other.example:22",
		"@cert-authority git.example " + line: "git.example:22", "": "git.example:22", "nonsense": "git.example:22",
	} {
		if got, err := HostKeys([]string{text}, []string{host}); err == nil {
			t.Errorf("%q: %q", text, got)
		}
	}
	if got := Known([]string{"git.example:22", "b:2222"}, []string{line}); got != "git.example "+line+"\n[b]:2222 "+line+"\n" {
		t.Errorf("%q", got)
	}
}
