package e2e

import (
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
)

// The feature for development containers is packed by their own program, and installs Palyra into a system in which nothing
// of it is: the daemon starts with it and runs a program in tier C. What was changed after packing is not installed.
func TestDevcontainerFeature(t *testing.T) {
	t.Parallel()
	out, feature, work := t.TempDir(), t.TempDir(), t.TempDir()
	pack := exec.Command("../../scripts/devcontainer.sh", out, filepath.Dir(bin(t, "palyra")))
	if said, err := pack.CombinedOutput(); err != nil {
		t.Fatalf("%v\n%s", err, said)
	}
	unpack := exec.Command("tar", "-xf", filepath.Join(out, "devcontainer-feature-palyra.tgz"), "-C", feature)
	if said, err := unpack.CombinedOutput(); err != nil {
		t.Fatalf("%v\n%s", err, said)
	}
	in := func(proc []string, script string) (string, error) {
		args := append([]string{"--ro-bind", "/", "/", "--dev", "/dev"}, proc...)
		for _, dir := range []string{"/usr/local", "/run", "/root", "/tmp", "/mnt", "/var/lib"} {
			args = append(args, "--tmpfs", dir)
		}
		args = append(args, "--bind", feature, "/mnt/feature", "--bind", work, "/mnt/work", "--die-with-parent", "--chdir", "/mnt/work",
			"--clearenv", "--setenv", "HOME", "/root", "--setenv", "PATH", "/usr/local/bin:/usr/bin:/bin", "/bin/sh", "-ec", script)
		args = append([]string{"--pid", "--fork", "--kill-child", "--mount-proc", "bwrap"}, args...)
		said, err := exec.Command("unshare", args...).CombinedOutput()
		return string(said), err
	}
	open, covered := []string{"--bind", "/proc", "/proc"}, []string{"--unshare-pid", "--proc", "/proc"}
	const start = "/mnt/feature/install.sh; /usr/local/share/palyra/post-start.sh; "
	said, err := in(open, start+`palyra workspace add .
palyra exec --no-wait -- /bin/echo in the room; palyra journal verify; palyra down`)
	if err != nil || !strings.Contains(said, "\nin the room\n") || !strings.Contains(said, "good: ") {
		t.Errorf("%v\n%s", err, said)
	}
	said, err = in(covered, start+`palyra workspace add .
! palyra exec --no-wait -- /bin/echo in the room; palyra down`)
	if err != nil || !strings.Contains(said, "tier C cannot be held in this container") ||
		strings.Contains(said, "\nin the room") || !strings.Contains(said, "tier_unavailable") {
		t.Errorf("a container with a covered /proc: %v\n%s", err, said)
	}
	if said, err := in(open, `START=false /mnt/feature/install.sh; /usr/local/share/palyra/post-start.sh; palyra status`); err == nil ||
		!strings.Contains(said, "palyra up") {
		t.Errorf("a daemon that was not wanted: %v\n%s", err, said)
	}
	f, err := os.OpenFile(filepath.Join(feature, "programs", "palyrad"), os.O_WRONLY|os.O_APPEND, 0)
	if err != nil {
		t.Fatal(err)
	}
	_, _ = f.WriteString("x")
	_ = f.Close()
	if said, err := in(open, `/mnt/feature/install.sh`); err == nil || !strings.Contains(said, "not those that were packed") {
		t.Errorf("programs that somebody changed: %v\n%s", err, said)
	}
}
