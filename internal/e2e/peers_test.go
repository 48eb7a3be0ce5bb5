//go:build linux

package e2e

import (
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"palyra/client"
)

// contender is a way to run a program.
type contender struct {
	name string
	run  func() error
}

// command runs a program in a directory with a home of its own.
func command(dir, home string, argv ...string) func() error {
	return func() error {
		cmd := exec.Command(argv[0], argv[1:]...)
		cmd.Dir = dir
		cmd.Env = []string{"PATH=" + os.Getenv("PATH"), "HOME=" + home, "CODEX_HOME=" + filepath.Join(home, ".codex")}
		if tmp := filepath.Join(filepath.Dir(home), "tmp"); exists(tmp) { // Codex wants no home below it, and a clone may be in /tmp
			cmd.Env = append(cmd.Env, "TMPDIR="+tmp)
		}
		if out, err := cmd.CombinedOutput(); err != nil {
			return fmt.Errorf("%w: %s", err, out)
		}
		return nil
	}
}

// peers are other sandboxes: those that scripts/peers.sh set up and saw running.
func peers(b *testing.B, dir string) (all []contender) {
	root, err := filepath.Abs("../../bin/peers")
	if err != nil {
		b.Fatal(err)
	}
	ready, err := os.ReadFile(filepath.Join(root, "ready"))
	if err != nil {
		b.Logf("no other sandboxes are measured: start scripts/peers.sh, or 'make bench' (%v)", err)
	}
	home := filepath.Join(root, "home")
	for _, name := range strings.Fields(string(ready)) {
		program := filepath.Join(root, "node_modules/.bin", name)
		words := []string{"/bin/true"}
		if name == "codex" {
			words = []string{"sandbox", "/bin/true"}
			if native, _ := filepath.Glob(filepath.Join(root, "node_modules/@openai/codex-*/vendor/*/bin/codex")); len(native) > 0 {
				program = native[0] // without the Node start of its wrapper
			}
		}
		c := contender{name, command(dir, home, append([]string{program}, words...)...)}
		if err := c.run(); err != nil {
			b.Fatalf("%s ran in scripts/peers.sh and does not here: %v", name, err)
		}
		all = append(all, c)
	}
	return all
}

func exists(path string) bool {
	_, err := os.Stat(path)
	return err == nil
}

// BenchmarkPeers runs /bin/true in turns: plainly, in a bare bubblewrap, through
// the whole of Palyra's gate in tier C (judged, recorded, isolated, signed), and
// in other sandboxes that only isolate.
func BenchmarkPeers(b *testing.B) {
	d := newDaemon(b)
	d.mustStart(append(unlimited, "PALYRA_PROCESS_WARM=4")...)
	call := d.inRoom(map[string]any{"profile": "none"}, "/bin/true")
	d.lease(call)
	agent := d.client(client.AgentDoor)
	all := append([]contender{
		{"plain", command(d.work, d.work, "/bin/true")},
		{"bwrap", command(d.work, d.work, "/usr/bin/bwrap", "--unshare-all", "--ro-bind", "/usr", "/usr", "--symlink", "usr/bin", "/bin",
			"--symlink", "usr/lib", "/lib",
			"--symlink", "usr/lib64", "/lib64", "--proc", "/proc", "--dev", "/dev", "--tmpfs", "/tmp", "/bin/true")},
		{"palyra", func() error {
			out, err := agent.Call(b.Context(), call, nil)
			if err == nil && out.ExitCode != 0 {
				err = fmt.Errorf("%+v", out)
			}
			return err
		}},
	}, peers(b, d.work)...)
	took := make(map[string][]time.Duration)
	rest := time.NewTicker(60 * time.Millisecond) // nobody pays for what another left to be done
	defer rest.Stop()
	for b.Loop() {
		for _, c := range all {
			<-rest.C
			begun := time.Now()
			if err := c.run(); err != nil {
				b.Fatalf("%s: %v", c.name, err)
			}
			took[c.name] = append(took[c.name], time.Since(begun))
		}
	}
	for _, t := range took {
		slices.Sort(t)
	}
	plain := float64(percentile(took["plain"], 50))
	for _, c := range all {
		b.ReportMetric(float64(percentile(took[c.name], 50).Microseconds()), c.name+"-p50-µs")
		b.ReportMetric(float64(percentile(took[c.name], 99).Microseconds()), c.name+"-p99-µs")
		b.ReportMetric(float64(percentile(took[c.name], 50))/plain, c.name+"/plain")
	}
	b.ReportMetric(float64(percentile(took["palyra"], 50))/float64(percentile(took["bwrap"], 50)), "palyra/bwrap")
	b.ReportMetric(0, "ns/op")
}
