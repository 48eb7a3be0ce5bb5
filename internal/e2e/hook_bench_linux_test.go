package e2e

import (
	"fmt"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"palyra/client"
)

// BenchmarkHook is what a hook adds to a call of an agent's own tool, beyond the shell that every hook is started by: where calls
// are observed, and where they are held. A shell command that is held runs in the sandbox as well; what that adds to it
// without Palyra is counted.
func BenchmarkHook(b *testing.B) {
	d := newDaemon(b)
	d.ownWork()
	d.mustStart(append(unlimited, "PALYRA_POLICY_PRESET=default", "PALYRA_PROCESS_WARM=4")...)
	d.inWorkspace()
	file := filepath.Join(d.work, "a.txt")
	if err := exec.Command("sh", "-c", "echo one > "+file).Run(); err != nil {
		b.Fatal(err)
	}
	bash, read := d.preToolUse("Bash", map[string]any{"command": "true"}), d.preToolUse("Read", map[string]any{"file_path": file})
	env := d.palyra().Environ()
	shell := func(line, stdin string) (string, error) {
		cmd := exec.Command("/bin/sh", "-c", line)
		cmd.Dir, cmd.Env, cmd.Stdin = d.work, env, strings.NewReader(stdin)
		out, err := cmd.Output()
		return string(out), err
	}
	hook := bin(b, "palyra") + " hook claude-code"
	rewritten := d.rewrittenLine(b, bash)
	plain := func() error { _, err := shell("true", ""); return err }
	one := func(line, stdin string, held string) func() error {
		return func() error {
			out, err := shell(line+" || exit 2", stdin)
			if err == nil && !strings.Contains(out, held) {
				err = fmt.Errorf("it says %q", out)
			}
			return err
		}
	}
	if _, err := d.client(client.OperatorDoor).SetObservation(b.Context(), time.Hour); err != nil {
		b.Fatal(err)
	}
	for _, c := range []struct {
		name     string
		observed bool
		steps    []func() error
	}{
		{"observed/bash", true, []func() error{one(hook+" --observe", bash, "{}")}},
		{"observed/read", true, []func() error{one(hook+" --observe", read, "{}")}},
		{"held/bash", false, []func() error{one(hook, bash, "allow"), one(rewritten, "", "")}},
		{"held/read", false, []func() error{one(hook, read, "allow")}},
	} {
		b.Run(c.name, func(b *testing.B) {
			var with, without []time.Duration
			for range max(b.N, 20) {
				t := time.Now()
				for _, step := range c.steps {
					if err := step(); err != nil {
						b.Fatal(err)
					}
				}
				with = append(with, time.Since(t))
				t = time.Now()
				if err := plain(); err != nil {
					b.Fatal(err)
				}
				without = append(without, time.Since(t))
			}
			slices.Sort(with)
			slices.Sort(without)
			b.ReportMetric(float64((percentile(with, 50)-percentile(without, 50)).Microseconds())/1000, "added-p50-ms")
			b.ReportMetric(float64(percentile(with, 50))/float64(percentile(without, 50)), "with/plain")
			b.ReportMetric(0, "ns/op")
		})
	}
}

// rewrittenLine is what the hook makes of a shell command.
func (d *daemon) rewrittenLine(b *testing.B, in string) string {
	says, code, errs := d.hook(in)
	line, _ := says.Specific.Input["command"].(string)
	if code != 0 || line == "" {
		b.Fatalf("%d %s", code, errs)
	}
	return line
}
