// Package questiontest holds sample approvals of every kind, for tests of their views.
package questiontest

import (
	"encoding/json"
	"flag"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"palyra"
)

var update = flag.Bool("update", false, "rewrite the golden files")

// Golden compares got with a file in testdata/golden.
func Golden(t *testing.T, name, got string) {
	t.Helper()
	path := filepath.Join("testdata", "golden", name)
	if *update {
		if err := os.WriteFile(path, []byte(got), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	want, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff(string(want), got); diff != "" {
		t.Errorf("%s (-want +got):\n%s", path, diff)
	}
}

// SampleNow is when the samples happen.
var SampleNow = time.Date(2026, 11, 15, 12, 0, 0, 0, time.UTC)

// Words of the samples; the key is a public one.
const (
	SampleKey                  = "11qYAYKxCrfVS/7TyWQHOg7hcvPapiMlrwIaaPcHURo="
	SampleID                   = "01KA3V3Q6M5D8W0Z1Y2X3C4B5A"
	SampleDigest palyra.Digest = "sha256:0123456789abcdef0123456789abcdef0123456789abcdef0123456789abcdef"
)

// Bound gives an approval the digest of its plan.
func Bound(a palyra.Approval) palyra.Approval {
	d, err := a.Plan.Digest()
	if err != nil {
		d = SampleDigest // an impossible plan: the view says so
	}
	a.PlanDigest, a.SubjectID = d, "tool:"+string(a.Plan.Tool)+"#"+string(d)
	return a
}

// WriteApproval is a question about an ordinary write.
func WriteApproval() palyra.Approval {
	return Bound(palyra.Approval{
		ID: SampleID, Session: "01KA3V3Q6M5D8W0Z1Y2X3C4SES", Call: "01KA3V3Q6M5D8W0Z1Y2X3C4CAL", Principal: "agent:local", Owner: "user:ann",
		PeerUID: 1000,
		Surface: palyra.SurfaceCLI, RequestedAt: SampleNow.Add(-30 * time.Second), ExpiresAt: SampleNow.Add(270 * time.Second),
		SubjectType: palyra.SubjectTool,
		Plan: palyra.Plan{
			Tool: palyra.ToolFileWrite, Arguments: json.RawMessage(`{"path":"a.txt","content":"x"}`),
			Capabilities: []palyra.Capability{palyra.FilesystemWrite},
			Source:       palyra.SourceBuiltin, Workspace: palyra.WorkspaceRef{Path: "/home/ann/shop", Owner: 1000}, Writes: []string{"a.txt"},
			Inputs: []palyra.Input{{Path: "a.txt"}}, Tier: palyra.TierBuiltin, Limits: palyra.Limits{WallMS: 120_000, OutputBytes: 1 << 20},
		},
		Prompt: palyra.Prompt{
			Title: "Write a.txt", Summary: "write 1 byte to a.txt", Risk: palyra.Risk{
				Level:   palyra.RiskMedium,
				Factors: []string{"filesystem_write", "new_workspace"},
			},
			Diff:        "--- /dev/null\n+++ a.txt\n@@ -0,0 +1 @@\n+x\n\\ No newline at end of file\n",
			Explanation: "needs the approval of one operator: writes ask\npolicy ask-write (write.cedar:4): writes ask",
			Covers:      "session: the same write again in this session; timeboxed: the same until the time is up",
			Options:     []palyra.Widening{{Name: "path_root", Label: "any write under ."}},
		},
		Need: palyra.Need{Votes: 1}, Bundle: SampleDigest, Snapshot: SampleDigest, Policies: []string{"ask-write"}, Waiting: 1,
	})
}

// HostileApproval has hostile text in every field.
func HostileApproval() palyra.Approval {
	a := WriteApproval()
	a.Principal = "agent:\x1b[2Jlocal"
	a.Prompt.Title = "Read a.txt\nRisk           LOW\x1b[8m"
	a.Prompt.Summary = "harmless \u202etxt.exe\u202c; p\u0430ypal"
	a.Prompt.Explanation = "fine\r\x1b]0;owned\x07\nRisk           LOW"
	a.Prompt.Diff = "--- a\n+++ b\n+ok\x1b[1A\x1b[2K" + strings.Repeat(" ", 60) +
		"Plan digest    sha256:feed\nApproval       decided\n+\tzero\u200bwidth\n"
	a.Prompt.Notes = []string{"note\nTool  palyra.echo"}
	a.Prompt.Risk = palyra.Risk{Level: palyra.RiskCritical, Factors: []string{"a\tb"}}
	a.Plan.Executable = palyra.Executable{Path: "/usr/bin/gi\u0442", Digest: SampleDigest}
	a.Plan.Argv = []string{
		"git", "a b", "a", "b", "", "\"", `\`, "caf\u00e9", "cafe\u0301", "\xff", "-\u2010rf",
		"x" + strings.Repeat("y", 200) + "; rm -rf ~",
	}
	a.Plan.Cwd = "/home/ann/\u202eshop"
	a.Plan.Env = []palyra.EnvVar{{Name: "A", Value: "1 2", Digest: SampleDigest}, {Name: "TOKEN", Secret: true, Digest: SampleDigest}}
	a.Plan.Stdin = "live"
	a.Plan.Inputs = []palyra.Input{{Path: "run.sh", Digest: SampleDigest}, {Path: "Makefile"}}
	a.Plan.Reads, a.Plan.Egress, a.Plan.Bindings = []string{"../up"}, []string{"ex\u0430mple.org:443"}, []string{"github"}
	a.Plan.Mounts = []palyra.Mount{{Source: "/", Target: "/host", Writable: true}}
	a.Plan.Tier, a.Plan.Profile = "B\n", "strict"
	a.Plan.Limits = palyra.Limits{CPUMS: 1500, MemoryBytes: 512 << 20, Processes: 8, OpenFiles: 64, FileBytes: 1000}
	a.Need = palyra.Need{Votes: 2, OtherPerson: true, Device: true, Separation: palyra.SeparationPassphrase, Fresh: true}
	a.Waiting = 3
	return Bound(a)
}

// DecidedApproval is an approval that was answered.
func DecidedApproval() palyra.Approval {
	a := WriteApproval()
	a.Plan.Workspace.Known = true
	a = Bound(a)
	vote := palyra.Vote{
		ID: "01KA3V3Q6M5D8W0Z1Y2X3C4VOT", Approval: a.ID, Answer: palyra.AnswerDeny, By: "user:ann", Method: palyra.MethodCLI, At: SampleNow,
		Digest: SampleDigest, Separation: palyra.SeparationPassphrase, Reason: "not\x07 today", PeerUID: 1000,
	}
	a.Votes = []palyra.Vote{vote}
	a.Decision = palyra.Decision{
		Approval: a.ID, Answer: palyra.AnswerDeny, Reason: "not\x07 today", By: "user:ann", Method: palyra.MethodCLI, At: SampleNow,
		Digest:     SampleDigest,
		Separation: palyra.SeparationPassphrase,
	}
	return a
}

// ProcessApproval is a question about a program.
func ProcessApproval() palyra.Approval {
	a := WriteApproval()
	a.Prompt = palyra.Prompt{
		Title: "Run ./check.sh", Summary: "run ./check.sh --all", Risk: palyra.Risk{Level: palyra.RiskHigh, Factors: []string{"process_exec"}},
		Explanation: "programs ask", Covers: "session: the same again in this session", Notes: []string{"other files it reads are not bound"},
	}
	a.Plan = palyra.Plan{
		Tool: palyra.ToolProcessRun, Arguments: json.RawMessage(`{"command":"./check.sh","args":["--all","a b"],"stdin":"hello"}`),
		Source:       palyra.SourceBuiltin,
		Capabilities: []palyra.Capability{palyra.ProcessExec}, Workspace: palyra.WorkspaceRef{Path: "/home/ann/shop", Owner: 1000, Known: true},
		Executable: palyra.Executable{Path: "/home/ann/shop/check.sh", Digest: SampleDigest, Sealed: true},
		Argv:       []string{"./check.sh", "--all", "a b"},
		Cwd:        "/home/ann/shop", Env: []palyra.EnvVar{{Name: "CI", Value: "1"}, {Name: "PATH", Value: "/usr/bin:/bin"}},
		Stdin:  string(palyra.SumBytes([]byte("hello"))),
		Inputs: []palyra.Input{{Path: "/bin/sh", Digest: SampleDigest}, {Path: "Makefile"}}, Tier: palyra.TierB,
		Limits: palyra.Limits{
			WallMS: 120_000, CPUMS: 60_000, MemoryBytes: 512 << 20, Processes: 64, OutputBytes: 1 << 20,
			EmittedBytes: 256 << 20,
		},
		Enforcement: palyra.Enforcement{
			Mode: "strict", Mechanisms: []string{"landlock_abi_7", "no_network", "seccomp"},
			Limits: map[string]palyra.Hold{"wall": "timer", "memory": "polled", "processes": "polled", "cpu": "rlimit+polled", "disk": "none"},
		},
	}
	return Bound(a)
}

// LooseApproval is one about a program with little confinement.
func LooseApproval() palyra.Approval {
	a := ProcessApproval()
	a.Plan.Executable.Sealed, a.Plan.Stdin, a.Plan.Terminal = false, palyra.StdinLive, true
	a.Plan.Arguments = json.RawMessage(`{"command":"top","stdin_live":true,"terminal":{"rows":24,"cols":80}}`)
	a.Plan.Enforcement = palyra.Enforcement{}
	return Bound(a)
}
