package evidence

import (
	"bytes"
	"encoding/json"
	"io"
	"strings"
	"testing"
	"time"

	"github.com/spf13/cobra"

	"palyra"
	"palyra/internal/cli/exit"
	"palyra/internal/cli/invocation"
	"palyra/internal/cli/syntax"
	"palyra/internal/rpc/rpctest"
)

// doctor prints a posture and returns what was printed and the exit code.
func doctor(t *testing.T, asJSON bool, p palyra.SignedPosture) (string, int) {
	t.Helper()
	var out, errs bytes.Buffer
	inv := &invocation.Invocation{Stdout: &out, Stderr: &errs, Now: time.Now, JSON: asJSON}
	code := inv.Finish(printDoctor(inv, p, func(io.Writer) {}))
	if errs.Len() > 0 {
		t.Errorf("said %q", errs.String())
	}
	return out.String(), code
}

func allHeld() palyra.SignedPosture {
	p := rpctest.Posture
	p.Posture.Tiers = p.Posture.Tiers[:1]
	return p
}

func TestDoctorInWords(t *testing.T) {
	text, code := doctor(t, false, rpctest.Posture)
	if code != exit.Failure {
		t.Errorf("code %d although a tier is missing", code)
	}
	for _, want := range []string{
		"Tier B: all 1 probes held", "secret", "Limits", "memory cgroup", "Tier C: NOT AVAILABLE: there is no bwrap",
		"remedy: apt install bubblewrap", "kernel: 6.1",
	} {
		if !strings.Contains(text, want) {
			t.Errorf("%q is not in\n%s", want, text)
		}
	}
	if !strings.HasSuffix(text, "\nsha256:00\n") {
		t.Errorf("the digest is not the last line of\n%s", text)
	}
	if _, code := doctor(t, false, allHeld()); code != exit.OK {
		t.Errorf("code %d although everything held", code)
	}
}

func TestDoctorTellsWhatDidNotHold(t *testing.T) {
	p := allHeld()
	p.Posture.Tiers = []palyra.TierPosture{{
		Tier: palyra.TierB, Available: true, Notes: []string{"n1\x1b[31m"},
		Probes: []palyra.Probe{
			{Name: "secret", Held: true, Detail: "refused"},
			{Name: "memory", Detail: "it worked\x1b[2J", Remedy: "delegate"},
			{Name: "processes", Detail: "it worked", Remedy: "delegate"},
		},
	}}
	p.Current = false
	text, code := doctor(t, false, p)
	if code != exit.Failure || strings.Contains(text, "\x1b") || strings.Count(text, "remedy: delegate") != 1 ||
		strings.Count(text, "NOT HELD") != 2 {
		t.Errorf("%d\n%s", code, text)
	}
	for _, want := range []string{"2 of 3 probes DID NOT HOLD", "note: n1", "NOT CURRENT"} {
		if !strings.Contains(text, want) {
			t.Errorf("%q is not in\n%s", want, text)
		}
	}
}

func TestDoctorAsJSON(t *testing.T) {
	text, code := doctor(t, true, rpctest.Posture)
	var got palyra.SignedPosture
	if err := json.Unmarshal([]byte(text), &got); err != nil || code != exit.Failure ||
		got.Posture.Tiers[1].Remedy != "apt install bubblewrap" || strings.Count(text, "\n") != 1 {
		t.Errorf("%v %d %s", err, code, text)
	}
}

func TestTierFlag(t *testing.T) {
	for text, want := range map[string]palyra.Tier{"b": palyra.TierB, "C": palyra.TierC} {
		if got, err := tierFlag(text); err != nil || len(got) != 1 || got[0] != want {
			t.Errorf("%q: %v %v", text, got, err)
		}
	}
	if got, err := tierFlag(""); err != nil || got != nil {
		t.Errorf("%v %v", got, err)
	}
	for _, text := range []string{"a", "builtin", "bc", " b"} {
		if _, err := tierFlag(text); exit.Of(err) != exit.Usage {
			t.Errorf("%q: %v", text, err)
		}
	}
}

func commandNames(cmd *cobra.Command) string {
	var out []string
	for _, c := range cmd.Commands() {
		out = append(out, c.Name())
	}
	return strings.Join(out, " ")
}

func TestSandboxCommands(t *testing.T) {
	inv := &invocation.Invocation{}
	cmd := Sandbox(inv, &cobra.Command{Use: "profiles", Short: "x", Example: "x", RunE: syntax.Group})
	if got := commandNames(cmd); got != "doctor posture profiles verify" {
		t.Errorf("%s", got)
	}
	for _, c := range cmd.Commands() {
		if c.Short == "" || c.Example == "" {
			t.Errorf("%s is not described", c.Name())
		}
	}
}
