package hint

import (
	"strings"
	"testing"

	"palyra"
)

var hintSeals = []string{
	".git/", ".git/config", ".git/hooks", ".git/modules/**/config", "<repository>/config", ".npmrc", ".vscode",
	".envrc", ".mcp.json", "*.code-workspace",
}

// hinting is a plan of a run that is walled, and what it said.
func hinting(said string) (palyra.Plan, *palyra.Result) {
	return palyra.Plan{Tier: palyra.TierC, Seals: hintSeals, Workspace: palyra.WorkspaceRef{Path: "/srv/me/tree"}},
		&palyra.Result{ExitCode: 1, Stderr: []byte(said)}
}

func TestHint(t *testing.T) {
	for said, want := range map[string]string{
		"error: could not write config file .git/config: Device or resource busy\n":            ".git/config is sealed",
		"mv: cannot move '.git' to '.git2': Device or resource busy\n":                         ".git is sealed",
		"touch: cannot touch '/srv/me/tree/.git/hooks/x': Read-only file system":               ".git/hooks is sealed",
		"Error: EROFS: read-only file system, open '.npmrc'\n":                                 ".npmrc is sealed",
		"Error: EBUSY: resource busy or locked, rename '.vscode' -> 'x'\n":                     ".vscode is sealed",
		"open sub/.envrc: read-only file system\n":                                             ".envrc is sealed",
		"sh: 1: cannot create .mcp.json: Read-only file system.\n":                             ".mcp.json is sealed",
		"much before\nOSError: [Errno 30] Read-only file system: '.git/config'\nmuch behind\n": ".git/config is sealed",
		"touch: /usr/x: Read-only file system\nmv: '.git': Device or resource busy\n":          ".git is sealed", // what is certain comes first
		"touch: cannot touch '/usr/x': Read-only file system\n":                                "read-only in its sandbox",
		"fatal: not a git repository: /srv/main/.git/worktrees/x\n":                            "linked worktree",
		"fatal: not a git repository: /srv/me/tree/../main/.git/modules/x\n":                   "linked worktree",
		"fatal: not a git repository: /srv/me/tree/main/.git/worktrees/x\n":                    "",
		"fatal: not a git repository (or any of the parent directories): .git\n":               "",
		"fatal: not a git repository: \n":                                                      "",
		"umount: /mnt: Device or resource busy\n":                                              "",
		"mv: cannot move '.github' to 'x': Device or resource busy\n":                          "",
		"mv: cannot move 'my.git' to 'x': Device or resource busy\n":                           "",
		"mv: cannot move '.git2' to 'x': Device or resource busy\n":                            "",
		".git/config: no such file or directory\n":                                             "",
		"": "",
		strings.Repeat("Device or resource busy .git\n", 1) + strings.Repeat("x", hinted): "", // too long ago
	} {
		p, res := hinting(said)
		h := Explain(p, res, nil, "")
		if want == "" && h == nil {
			continue
		}
		if h == nil || want == "" || !strings.Contains(h.Text, want) || h.Remedy == "" {
			t.Errorf("%.80q: %v, want %q", said, h, want)
		}
		if want == "linked worktree" && !strings.Contains(h.Remedy, "inside it ('git worktree add inner'") {
			t.Errorf("%q does not say where a worktree works", h.Remedy)
		}
	}
}

// What a layer of its own cannot do is explained where the run had one, with the way round.
func TestHintOnAStage(t *testing.T) {
	for _, said := range []string{
		"sh: 1: cannot create far: Value too large for defined data type\n", "open far: value too large for defined data type\n",
		"Error: EOVERFLOW: value too large for defined data type, open 'far'\n", "fatal: renaming 'd' failed: Invalid cross-device link\n",
	} {
		p, res := hinting(said)
		if h := Explain(p, res, nil, ""); h != nil {
			t.Errorf("%q without a stage: %v", said, h)
		}
		p.Staging.Writes = palyra.WritesStaged
		if h := Explain(p, res, nil, ""); h == nil || h.Reason != palyra.ReasonUnsupported || !strings.Contains(h.Remedy, "--live") {
			t.Errorf("%q: %v", said, h)
		}
	}
}

// Only a program that failed by itself, behind walls, is explained.
func TestNoHint(t *testing.T) {
	const said = "mv: '.git': Device or resource busy\n"
	for name, change := range map[string]func(*palyra.Plan, *palyra.Result){
		"it worked":         func(_ *palyra.Plan, r *palyra.Result) { r.ExitCode = 0 },
		"it was killed":     func(_ *palyra.Plan, r *palyra.Result) { r.Signal = "SIGKILL" },
		"no walls":          func(p *palyra.Plan, _ *palyra.Result) { p.Tier = palyra.TierB },
		"nothing is sealed": func(p *palyra.Plan, _ *palyra.Result) { p.Seals = nil },
		"an empty name":     func(p *palyra.Plan, _ *palyra.Result) { p.Seals = []string{"", "/"} },
		"said elsewhere":    func(p *palyra.Plan, _ *palyra.Result) { p.Terminal = true },
	} {
		p, res := hinting(said)
		change(&p, res)
		if h := Explain(p, res, nil, ""); h != nil {
			t.Errorf("%s: %v", name, h)
		}
	}
	p, res := hinting("")
	p.Terminal, res.Stdout = true, []byte(said)
	if h := Explain(p, res, nil, ""); h == nil {
		t.Error("what a terminal shows is not looked at")
	}
}

// Whatever a program prints, no word of it gets into a hint.
func FuzzHint(f *testing.F) {
	for _, s := range []string{"x .git/config: Read-only file system", "not a git repository: /evil", "EBUSY .envrc\n", "\xff.git\x00EROFS"} {
		f.Add(s)
	}
	f.Fuzz(func(t *testing.T, said string) {
		p, res := hinting(said)
		h := Explain(p, res, nil, "")
		if h == nil {
			return
		}
		name, sealed := strings.CutSuffix(h.Text, " is sealed: it stays as it is")
		known := false
		for _, s := range p.Seals {
			known = known || strings.TrimSuffix(s, "/") == name
		}
		if sealed != known || !sealed && h.Reason != palyra.ReasonPathOutside ||
			h.Reason == palyra.ReasonPathOutside && strings.ContainsAny(h.Text+h.Remedy, "/\x1b\x00") {
			t.Fatalf("%q: %+v", said, h)
		}
	})
}

// A program that could not change a masked file is told of masking, whatever it said of it; one that met another wall is not.
func TestMaskedHint(t *testing.T) {
	for said, want := range map[string]string{
		"sed: cannot rename ./sedAbCd: Device or resource busy\n":      "placeholders",
		"sh: 1: cannot create .env: Read-only file system\n":           "placeholders",
		"Error: EBUSY: resource busy or locked, unlink 'a/prod.env'\n": "placeholders",
		"mv: cannot move '.git' to '.git2': Device or resource busy\n": ".git is sealed",
		"touch: cannot touch '/usr/x': Read-only file system\n":        "read-only in its sandbox",
		"no such file: .env\n": "",
	} {
		p, res := hinting(said)
		h := Explain(p, res, []string{".env", "deep/prod.env"}, "the setting")
		if want == "" && h != nil || want != "" && (h == nil || !strings.Contains(h.Text, want)) {
			t.Errorf("%q: %v", said, h)
		}
	}
	p, res := hinting("sed: cannot rename ./sedAbCd: Device or resource busy\n")
	if h := Explain(p, res, nil, ""); h != nil {
		t.Errorf("nothing is masked: %v", h)
	}
}
