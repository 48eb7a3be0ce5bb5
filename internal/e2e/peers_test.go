package e2e

import (
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
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
		if out, err := cmd.CombinedOutput(); err != nil {
			return fmt.Errorf("%w: %s", err, out)
		}
		return nil
	}
}

// peers are other sandboxes, as far as 'make bench' could install them.
func peers(b *testing.B, dir string) (all []contender) {
	root, err := filepath.Abs("../../bin/peers")
	if err != nil {
		b.Fatal(err)
	}
	home := filepath.Join(root, "home")
	if err := os.MkdirAll(filepath.Join(home, ".codex"), 0o700); err != nil {
		b.Fatal(err)
	}
	native, _ := filepath.Glob(filepath.Join(root, "node_modules/@openai/codex-*/vendor/*/bin/codex"))
	if len(native) > 0 { // without the Node start of its wrapper
		all = append(all, contender{"codex", command(dir, home, native[0], "sandbox", "/bin/true")})
	}
	if srt := filepath.Join(root, "node_modules/.bin/srt"); exists(srt) {
		all = append(all, contender{"srt", command(dir, home, srt, "/bin/true")})
	}
	return slices.DeleteFunc(all, func(c contender) bool {
		err := c.run()
		if err != nil {
			b.Logf("%s is not measured: %v", c.name, err)
		}
		return err != nil
	})
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
		{"bwrap", command(d.work, d.work, "/usr/bin/bwrap", "--unshare-all", "--ro-bind", "/usr", "/usr", "--symlink", "usr/bin", "/bin", "--symlink", "usr/lib", "/lib",
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
