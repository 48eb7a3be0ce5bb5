//go:build linux

package e2e

import (
	"context"
	"encoding/json"
	"fmt"
	"maps"
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"time"

	"palyra"
	"palyra/client"
	"palyra/client/bundle"
)

// bundleNo is the default bundle with a rule that names it, and that refuses
// every echo.
func bundleNo(t testing.TB, n int) map[string]string {
	t.Helper()
	files, err := bundle.Preset("ask")
	if err != nil {
		t.Fatal(err)
	}
	maps.DeleteFunc(files, func(name, _ string) bool { return strings.HasPrefix(name, "tests/") }) // which say what the preset itself says
	files["number.cedar"] = fmt.Sprintf(`@id("number-%d") @reason("number %d")
forbid (principal, action == Action::"tool.execute", resource == Tool::"palyra.echo");`, n, n)
	return files
}

// inForce is what the daemon says judges, held against its journal and against a
// verdict. It returns the reason that an echo is refused for.
func inForce(t *testing.T, d *daemon) (bundle palyra.Digest, reason string) {
	t.Helper()
	person := d.client(client.OperatorDoor)
	all, err := person.Activations(t.Context(), 0)
	if err != nil || len(all) == 0 || !all[0].InForce {
		t.Fatalf("%+v, %v", all, err)
	}
	var last palyra.PolicyActivated
	for _, e := range d.entries() {
		if e.Kind == last.Kind() {
			raw, _ := json.Marshal(e.Body)
			if err := json.Unmarshal(raw, &last); err != nil {
				t.Fatal(err)
			}
		}
	}
	why, err := person.Why(t.Context(), client.WhyRequest{Tool: "palyra.echo", Arguments: json.RawMessage(`{"text":"x"}`)})
	if err != nil {
		t.Fatal(err)
	}
	if last.Bundle != all[0].Bundle || why.Verdict.Bundle != last.Bundle {
		t.Fatalf("the journal says %s, the history %s, the verdict %s", last.Bundle, all[0].Bundle, why.Verdict.Bundle)
	}
	return last.Bundle, why.Verdict.Reason
}

// A daemon that dies while policies change judges afterwards with the ones before
// or with the new ones, whole, and its journal says with which.
func TestKillWhilePoliciesChange(t *testing.T) {
	for _, c := range []struct{ point, want string }{
		{"policy.activated/lost:2", "number 1"}, // the start passes the point once
		{"policy.activated/kept:2", "number 2"},
	} {
		t.Run(c.point, func(t *testing.T) {
			d := newDaemon(t)
			d.mustStart()
			if _, _, err := d.client(client.OperatorDoor).ApplyPolicy(t.Context(), bundleNo(t, 1), false); err != nil {
				t.Fatal(err)
			}
			d.stop()
			d.mustStart("PALYRA_FAULT=" + c.point)
			ctx, cancel := context.WithTimeout(t.Context(), waitMost)
			defer cancel()
			if _, _, err := d.client(client.OperatorDoor).ApplyPolicy(ctx, bundleNo(t, 2), false); err == nil {
				t.Fatal("the point was not passed")
			}
			<-d.done
			d.mustStart()
			if _, reason := inForce(t, d); reason != c.want {
				t.Errorf("refused for %q, want %q", reason, c.want)
			}
			d.verify()
			d.stop()
		})
	}
}

// Wherever in a row of changes the daemon dies: what it said was in force, or
// something newer, is.
func TestKillAmongManyChanges(t *testing.T) {
	d := newDaemon(t)
	last := 0
	for round := range 4 {
		d.mustStart(unlimited...)
		person := d.client(client.OperatorDoor)
		ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
		for n := range 6 {
			if n == 2+round%3 {
				go d.kill() // somewhere in what follows
			}
			if _, _, err := person.ApplyPolicy(ctx, bundleNo(t, last+1), false); err != nil {
				break
			}
			last++
		}
		cancel()
		<-d.done
		d.mustStart(unlimited...)
		_, reason := inForce(t, d)
		if reason == fmt.Sprintf("number %d", last+1) {
			last++ // it was kept, and nobody was told
		}
		if reason != fmt.Sprintf("number %d", last) {
			t.Fatalf("round %d: refused for %q after number %d was in force", round, reason, last)
		}
		d.verify()
		d.kill()
	}
}

// Where there is no directory to read again, SIGHUP changes nothing and ends nothing.
func TestHangupWithoutADirectory(t *testing.T) {
	d := newDaemon(t)
	d.mustStart()
	first, _ := inForce(t, d)
	if err := d.cmd.Process.Signal(syscall.SIGHUP); err != nil {
		t.Fatal(err)
	}
	if now, _ := inForce(t, d); now != first {
		t.Errorf("%s is in force, not %s", now, first)
	}
	d.verify()
	d.stop()
}

// SIGHUP reads the policy directory again; one that is broken changes nothing, and
// the status says so.
func TestHangupReadsPolicies(t *testing.T) {
	d := newDaemon(t)
	dir := t.TempDir()
	put := func(n int, more string) {
		t.Helper()
		for name, text := range bundleNo(t, n) {
			at := filepath.Join(dir, name)
			if err := os.MkdirAll(filepath.Dir(at), 0o755); err != nil {
				t.Fatal(err)
			}
			if err := os.WriteFile(at, []byte(text+more), 0o644); err != nil {
				t.Fatal(err)
			}
		}
	}
	put(1, "")
	d.mustStart("PALYRA_POLICY_DIR=" + dir)
	first, reason := inForce(t, d)
	if reason != "number 1" {
		t.Fatalf("at the start: %q", reason)
	}
	until := func(what string, f func(s client.Status) bool) {
		t.Helper()
		if err := d.cmd.Process.Signal(syscall.SIGHUP); err != nil {
			t.Fatal(err)
		}
		person := d.client(client.OperatorDoor)
		for end := time.Now().Add(waitMost); ; {
			s, err := person.Status(t.Context())
			if err != nil || time.Now().After(end) {
				t.Fatalf("%s: %+v, %v\n%s", what, s, err, d.log)
			}
			if f(s) {
				return
			}
			<-time.After(10 * time.Millisecond)
		}
	}
	put(2, " broken")
	until("broken", func(s client.Status) bool {
		return s.Bundle == first && strings.Contains(strings.Join(s.Problems, "\n"), "policy:")
	})
	put(2, "")
	until("changed", func(s client.Status) bool {
		return s.Bundle != first && !strings.Contains(strings.Join(s.Problems, "\n"), "policy:")
	})
	if _, reason := inForce(t, d); reason != "number 2" {
		t.Errorf("after the signal: %q", reason)
	}
	d.verify()
	d.stop()
}
