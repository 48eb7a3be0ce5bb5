package daemon

import (
	"strings"
	"testing"

	"palyra"
	"palyra/internal/command"
	"palyra/internal/policy"
)

// inRoom is a program as a plan has it: in a registered workspace, in the full
// sandbox, without a way out.
func inRoom(argv []string) palyra.Request {
	caps := []palyra.Capability{palyra.ProcessExec, palyra.FilesystemWrite, palyra.FilesystemRead}
	return palyra.Request{
		Principal: "agent:local", Owner: "user:ada", Session: "01SESSION", Surface: palyra.SurfaceMCP,
		Tool: palyra.Tool{Name: "palyra.process.run", Source: palyra.SourceBuiltin, Capabilities: caps, Workspace: true, Tier: palyra.TierC},
		Plan: palyra.Plan{
			Tool: "palyra.process.run", Capabilities: caps, Tier: palyra.TierC, Argv: argv, Cwd: "/w",
			Executable:  palyra.Executable{Path: "/usr/bin/" + argv[0], Digest: palyra.SumBytes(nil)},
			Workspace:   palyra.WorkspaceRef{Path: "/w", Known: true},
			Enforcement: palyra.Enforcement{Mode: "strict"},
		},
	}
}

func defaultEngine(t *testing.T) *policy.Engine {
	t.Helper()
	b, err := policy.Default()
	if err != nil {
		t.Fatal(err)
	}
	e, err := policy.New(policy.Config{
		Bundle: b, Analyse: command.Of,
		Snapshot: palyra.Snapshot{AllowedTools: []string{"*"}, Principals: []string{"*"}, Channels: []string{"*"}, MaxCallsPerRun: 64},
	})
	if err != nil {
		t.Fatal(err)
	}
	return e
}

// What people do all day runs without a question.
func TestEverydayCommandsDoNotNag(t *testing.T) {
	e := defaultEngine(t)
	for _, line := range []string{
		"ls", "ls -la src", "cat README.md", "head -n 20 main.go", "tail -n 5 log.txt", "wc -l main.go", "grep -rn TODO src",
		"find . -name *.go", "pwd", "echo hello",
		"git status", "git diff", "git log --oneline -n 10", "git show HEAD", "git rev-parse HEAD", "git ls-files", "git branch --list",
		"go version", "go build ./...", "go test ./...", "go vet ./...", "make", "npm test", "cargo build", "cargo test",
		"sort names.txt", "uniq names.txt", "diff a.txt b.txt", "stat main.go", "du -sh .", "sha256sum main.go", "uname -a", "true",
		"timeout 10 ls", "nice ls",
	} {
		argv := strings.Fields(line)
		if v := e.Judge(t.Context(), inRoom(argv)); v.Effect != palyra.Allow {
			t.Errorf("%s: %s: %s %+v", line, v.Effect, v.Reason, command.Of(inRoom(argv).Plan))
		}
	}
	for _, script := range []string{"git status && ls", "cat a.txt | grep x | wc -l"} {
		if v := e.Judge(t.Context(), inRoom([]string{"sh", "-c", script})); v.Effect != palyra.Allow {
			t.Errorf("sh -c %q: %s: %s", script, v.Effect, v.Reason)
		}
	}
}

// What can run anything else, cannot be taken back, or leads outside is asked
// about, every time.
func TestExecCapableCommandsAsk(t *testing.T) {
	e := defaultEngine(t)
	for _, argv := range [][]string{
		{"find", ".", "-exec", "rm", "{}", ";"},
		{"find", ".", "-delete"},
		{"find", ".", "-fprintf", "x", "y"},
		{"tar", "cf", "x", "--checkpoint-action=exec=sh", "."},
		{"tar", "xf", "x", "--to-command=sh"},
		{"git", "-c", "core.pager=sh", "log"},
		{"git", "--exec-path=/tmp", "status"},
		{"git", "difftool"},
		{"git", "diff", "--ext-diff"},
		{"git", "grep", "-O", "x"},
		{"git", "bisect", "run", "sh"},
		{"awk", "BEGIN{system(\"sh\")}"},
		{"sed", "1e id", "a"},
		{"sed", "-i", "s/a/b/", "a"},
		{"python3", "-c", "1"},
		{"node", "-e", "1"},
		{"perl", "-e", "1"},
		{"ruby", "-e", "1"},
		{"bash", "x.sh"},
		{"sh", "-c", "rm -rf /"},
		{"sh", "-c", "$(id)"},
		{"sh", "-c", "ls > out"},
		{"xargs", "sh"},
		{"env", "-S", "sh"},
		{"rg", "--pre", "sh", "x"},
		{"sort", "--compress-program=sh", "a"},
		{"less", "a"},
		{"vim", "a"},
		{"ssh", "host"},
		{"rsync", "-e", "sh", "a", "b"},
		{"curl", "http://x"},
		{"docker", "run", "x"},
		{"kubectl", "exec", "x"},
		{"sudo", "ls"},
		{"rm", "-rf", "."},
		{"git", "push"},
		{"git", "push", "--force"},
		{"git", "reset", "--hard"},
		{"git", "clean", "-fdx"},
		{"npm", "publish"},
		{"cargo", "publish"},
		{"terraform", "apply"},
		{"dd", "if=a", "of=/dev/sda"},
		{"cat", "/etc/passwd"},
		{"cat", "../x"},
		{"unheard-of"},
		{"ls", "--unheard-of"},
		{"busybox", "sh"},
		{"nc", "-e", "sh", "x"},
		{"openssl", "engine", "x"},
	} {
		v := e.Judge(t.Context(), inRoom(argv))
		if v.Effect != palyra.Ask {
			t.Errorf("%q: %s by %+v", argv, v.Effect, v.Policies)
		}
		if command.Of(inRoom(argv).Plan).Class == palyra.CommandDestructive && !v.Need.Fresh {
			t.Errorf("%q cannot be taken back, and an earlier answer would do", argv)
		}
	}
	for _, argv := range [][]string{{"git", "push"}, {"git", "push", "--force"}, {"npm", "publish"}, {"terraform", "destroy"}} {
		if v := e.Judge(t.Context(), inRoom(argv)); !v.Need.Fresh || v.Risk.Level != palyra.RiskCritical {
			t.Errorf("%q: %+v %+v", argv, v.Need, v.Risk)
		}
	}
}

// A question's risk is what the command does, not that it is a program.
func TestRiskIsWhatACommandDoes(t *testing.T) {
	e := defaultEngine(t)
	for line, want := range map[string]palyra.RiskLevel{
		"sed -i s/a/b/ a.txt": palyra.RiskMedium, "touch a": palyra.RiskMedium, "cat /etc/hostname": palyra.RiskMedium,
		"mkdir -p a/b": palyra.RiskMedium, "cat /root/.ssh/id_ed25519": palyra.RiskHigh, "cat /etc/shadow": palyra.RiskHigh,
		"python3 x.py": palyra.RiskHigh, "curl http://x": palyra.RiskHigh, "unheard-of": palyra.RiskHigh, "go install ./...": palyra.RiskHigh,
		"sed -i 1e\\ id a.txt": palyra.RiskHigh, "git push": palyra.RiskCritical,
	} {
		r := inRoom(strings.Fields(line))
		if v := e.Judge(t.Context(), r); v.Effect != palyra.Ask || v.Risk.Level != want {
			t.Errorf("%s: %s %+v, want %s", line, v.Effect, v.Risk, want)
		}
		r.Plan.Enforcement.Mode = "none"
		if v := e.Judge(t.Context(), r); v.Risk.Level != palyra.RiskHigh && v.Risk.Level != palyra.RiskCritical {
			t.Errorf("%s, not held: %+v", line, v.Risk)
		}
	}
}
