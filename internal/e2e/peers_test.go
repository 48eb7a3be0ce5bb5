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

	"palyra"
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

// bareBubblewrap is the least that anybody does with bubblewrap.
func bareBubblewrap(dir string) func() error {
	return command(dir, dir, "/usr/bin/bwrap", "--unshare-all", "--ro-bind", "/usr", "/usr", "--symlink", "usr/bin", "/bin",
		"--symlink", "usr/lib", "/lib", "--symlink", "usr/lib64", "/lib64", "--proc", "/proc", "--dev", "/dev", "--tmpfs", "/tmp", "/bin/true")
}

// roomed is a daemon whose calls of /bin/true in tier C ask nobody, and such a call.
func roomed(b *testing.B, env ...string) (*daemon, func() error) {
	d := newDaemon(b)
	d.mustStart(append(append(slices.Clone(unlimited), "PALYRA_POLICY_PRESET=default", "PALYRA_PROCESS_WARM=4"), env...)...)
	call := d.inRoom(map[string]any{"profile": "none"}, "/bin/true")
	d.inWorkspace()
	agent := d.client(client.AgentDoor)
	return d, func() error {
		out, err := agent.Call(b.Context(), call, nil)
		if err == nil && (out.Outcome != palyra.OutcomeFinished || out.ExitCode != 0) {
			err = fmt.Errorf("%+v", out)
		}
		return err
	}
}

// slow is whoever takes much longer than the others, and so has fewer turns.
var slow = []string{"codex", "srt"}

// BenchmarkPeers runs /bin/true in turns: plainly, in a bare bubblewrap, through the whole of Palyra's gate in tier C
// (judged, recorded, isolated, signed) by a client that is there and by the command, and in other sandboxes that only
// isolate.
func BenchmarkPeers(b *testing.B) {
	d, gated := roomed(b)
	typed := func(args ...string) func() error {
		return func() error {
			cmd := d.palyra(args...)
			out, err := cmd.CombinedOutput()
			if err != nil {
				return fmt.Errorf("%w: %s", err, out)
			}
			return nil
		}
	}
	all := append([]contender{
		{"plain", command(d.work, d.work, "/bin/true")},
		{"bwrap", bareBubblewrap(d.work)},
		{"palyra", gated},
		{"exec", typed("exec", "--", "true")},
		{"version", typed("version")},
	}, peers(b, d.work)...)
	took := make(map[string][]time.Duration)
	rest := time.NewTicker(60 * time.Millisecond) // nobody pays for what another left to be done
	defer rest.Stop()
	const turns = 48 // the first of which do not count
	for n := 0; n < turns || b.Loop(); n++ {
		for _, c := range all {
			if n%8 != 0 && slices.Contains(slow, c.name) {
				continue
			}
			<-rest.C
			begun := time.Now()
			if err := c.run(); err != nil {
				b.Fatalf("%s: %v", c.name, err)
			}
			if n >= 8 {
				took[c.name] = append(took[c.name], time.Since(begun))
			}
		}
	}
	for _, t := range took {
		slices.Sort(t)
	}
	p50 := func(name string) float64 { return float64(percentile(took[name], 50)) }
	for _, c := range all {
		b.ReportMetric(p50(c.name)/1e3, c.name+"-p50-µs")
		b.ReportMetric(float64(percentile(took[c.name], 99).Microseconds()), c.name+"-p99-µs")
		b.ReportMetric(p50(c.name)/p50("plain"), c.name+"/plain")
		if slices.Contains(slow, c.name) {
			b.ReportMetric(p50(c.name)/p50("exec"), c.name+"/exec")
		}
	}
	b.ReportMetric(p50("palyra")/p50("bwrap"), "palyra/bwrap")
	b.ReportMetric(p50("exec")/p50("bwrap"), "exec/bwrap")
	b.ReportMetric(0, "ns/op")
}

// BenchmarkCallers is how many gated calls in tier C eight callers get done, and how many bare bubblewraps.
func BenchmarkCallers(b *testing.B) {
	d, gated := roomed(b, "PALYRA_PROCESS_WARM=16")
	bare := bareBubblewrap(d.work)
	rate := func(f func() error) float64 {
		const turn = 200
		each, all := times(b, 8, turn, f)
		return float64(len(each)) / all.Seconds()
	}
	rate(gated) // callers find what others left ready
	var calls, bwraps, n float64
	for b.Loop() {
		bwraps += rate(bare)
		calls += rate(gated)
		n++
	}
	b.ReportMetric(calls/n, "calls/s")
	b.ReportMetric(bwraps/n, "bwraps/s")
	b.ReportMetric(calls/bwraps, "calls/bwraps")
	b.ReportMetric(0, "ns/op")
}
