package question

import (
	"bytes"
	"encoding/json"
	"strings"
	"testing"
	"unicode"

	"pgregory.net/rapid"

	"palyra"
	"palyra/internal/cli/questiontest"
	"palyra/internal/cli/screen"
)

func render(a palyra.Approval, s palyra.Separation, width int, colour screen.Style) string {
	var b bytes.Buffer
	v := View{W: &b, Approval: a, Separation: s, Now: questiontest.SampleNow, Style: colour, Width: width}
	v.Print()
	return b.String()
}

// renderShort is what a person sees who is asked.
func renderShort(a palyra.Approval, width int) string {
	var b bytes.Buffer
	v := View{W: &b, Approval: a, Separation: palyra.SeparationNone, Now: questiontest.SampleNow, Width: width, Short: true}
	v.Print()
	return b.String()
}

func TestApprovalView(t *testing.T) {
	questiontest.Golden(t, "approval-write.txt", render(questiontest.WriteApproval(), palyra.SeparationNone, 0, false))
	questiontest.Golden(t, "approval-hostile.txt", render(questiontest.HostileApproval(), palyra.SeparationPassphrase, 0, false))
	questiontest.Golden(t, "approval-hostile-80.txt", render(questiontest.HostileApproval(), palyra.SeparationDevice, 80, false))
	questiontest.Golden(t, "approval-decided.txt", render(questiontest.DecidedApproval(), palyra.SeparationOtherUID, 0, false))
	questiontest.Golden(t, "approval-process.txt", render(questiontest.ProcessApproval(), palyra.SeparationNone, 0, false))
	questiontest.Golden(t, "approval-process-80.txt", render(questiontest.LooseApproval(), palyra.SeparationNone, 80, false))
	questiontest.Golden(t, "approval-room.txt", render(roomApproval(), palyra.SeparationNone, 80, false))
	questiontest.Golden(t, "approval-short-room.txt", renderShort(roomApproval(), 80))
	questiontest.Golden(t, "approval-short-process.txt", renderShort(questiontest.ProcessApproval(), 80))
	questiontest.Golden(t, "approval-short-hostile.txt", renderShort(questiontest.HostileApproval(), 80))
	questiontest.Golden(t, "approval-short-write.txt", renderShort(questiontest.WriteApproval(), 0))
	questiontest.Golden(t, "approval-colour.txt", render(questiontest.WriteApproval(), "strange\x1b", 80, true))
}

// labels are how the view's own lines start.
func labels() []string {
	return []string{
		"NOT SHOWN", "Approval", "Title", "Summary", "Risk", "Tool", "Arguments", "Program", "Argument", "Directory",
		"Environment", "Stdin", "Terminal", "Input file", "Network", "Held by", "Limits held", "NOT enforced",
		"Workspace", "Reads", "Writes", "Hosts", "Secrets", "Mounts", "Runs in", "Run", "Limits", "Why asked",
		"Policies", "Needs", "Wider scopes", "Widen to", "Notes", "Diff", "Asked by", "Session", "Call", "Command",
		"Not shown", "Script", "File", "Sealed", "Agent", "Sockets", "Waiting", "Subject", "Your key", "Expires",
		"Plan digest", "Digest", "See it", "Answers", "Answer with", "Decided", "Reason", "Grant", "WARNING",
	}
}

// No text from outside can start a line, break one, or reach the terminal as
// anything but text; and on a terminal no line is longer than the terminal.
func TestOutsideTextStaysInItsPlace(t *testing.T) {
	text := rapid.Custom(func(t *rapid.T) string {
		if rapid.Bool().Draw(t, "raw") {
			return string(rapid.SliceOfN(rapid.Byte(), 0, 30).Draw(t, "bytes"))
		}
		pieces := append(labels(), "\n", "\r", "\x1b[2K", "\u202e", "  ", strings.Repeat(" ", 70), "│", "⋯", "x", "文", "\t")
		return strings.Join(rapid.SliceOfN(rapid.SampledFrom(pieces), 0, 8).Draw(t, "pieces"), " ")
	})
	rapid.Check(t, func(t *rapid.T) {
		a := questiontest.HostileApproval()
		a.Prompt.Title, a.Prompt.Diff, a.Prompt.Explanation = text.Draw(t, "title"), text.Draw(t, "diff"), text.Draw(t, "why")
		a.Plan.Argv = rapid.SliceOfN(text, 0, 4).Draw(t, "argv")
		a.Plan.Tool, a.Plan.Writes = palyra.ToolName(text.Draw(t, "tool")), []string{text.Draw(t, "path")}
		a.Plan.Profile, a.Plan.Seals, a.Plan.UnixSockets = text.Draw(t, "profile"), rapid.SliceOfN(text, 0, 3).Draw(t, "seals"), true
		a.Plan.Files = []palyra.RoomFile{{Target: text.Draw(t, "target"), Text: text.Draw(t, "text")}}
		if script := strings.ToValidUTF8(text.Draw(t, "script"), "?"); rapid.Bool().Draw(t, "scripted") {
			raw, err := json.Marshal(map[string]string{"script": script})
			if err != nil {
				t.Fatal(err)
			}
			a.Plan.Arguments, a.Plan.Argv = raw, []string{"/bin/sh", "-c", script}
		}
		const width = 76
		got := render(a, palyra.SeparationNone, width, false) + renderShort(a, width)
		for _, line := range strings.Split(strings.TrimSuffix(got, "\n"), "\n") {
			checkLine(t, line, width)
		}
	})
}

func checkLine(t *rapid.T, line string, width int) {
	for _, r := range line {
		if !unicode.IsPrint(r) {
			t.Fatalf("%U in %q", r, line)
		}
	}
	if n := len([]rune(line)); n > width {
		t.Fatalf("%d characters in %q", n, line)
	}
	if strings.HasPrefix(line, " ") {
		return // a gutter or a line that goes on
	}
	for _, l := range labels() {
		if strings.HasPrefix(line, l) {
			return
		}
	}
	t.Fatalf("a line starts with outside text: %q", line)
}

// A line of the view's own can be told by the number of such lines: outside
// text cannot add one.
func TestOutsideTextAddsNoLabel(t *testing.T) {
	a := questiontest.HostileApproval()
	count := func(s string) int {
		return strings.Count("\n"+s, "\nPlan digest ") + strings.Count("\n"+s, "\nDigest ") + strings.Count("\n"+s, "\nApproval ")
	}
	if got := count(render(a, palyra.SeparationNone, 80, false)); got != 2 {
		t.Errorf("%d lines claim to be ours", got)
	}
}

// Nothing that decides what happens is left out, however long.
func TestNothingIsCut(t *testing.T) {
	a := questiontest.WriteApproval()
	a.Prompt.Diff = strings.Repeat("+line of a long file\n", 5000) + "+the very end\n"
	a.Plan.Argv = []string{strings.Repeat("a", 10000) + "TAIL"}
	got := render(a, palyra.SeparationNone, 0, false)
	if strings.Count(got, "+line of a long file") != 5000 || !strings.Contains(got, "+the very end") || !strings.Contains(got, "TAIL") {
		t.Error("something is missing")
	}
	// Arguments that the diff shows in full are shortened in the short view, and say so.
	long, err := json.Marshal(map[string]string{"patch": strings.Repeat("c", 5000), "path": "z.txt"})
	if err != nil {
		t.Fatal(err)
	}
	a.Plan.Arguments = long
	got = renderShort(a, 0)
	if !strings.Contains(got, "bytes left out") || !strings.Contains(got, `"path":"z.txt"}`) {
		t.Error("the cut does not say so, or the tail is gone")
	}
	if got = render(a, palyra.SeparationNone, 0, false); strings.Contains(got, "left out") {
		t.Error("the full view cuts")
	}
	a.Prompt.Diff = ""
	if got = renderShort(a, 0); strings.Contains(got, "left out") {
		t.Error("arguments were cut without a diff")
	}
}

func TestManyArgumentsKeepTheirPlace(t *testing.T) {
	a := questiontest.WriteApproval()
	a.Plan.Argv = make([]string, 1_000_001)
	got := render(a, palyra.SeparationNone, 40, false)
	for line := range strings.SplitSeq(got, "\n") {
		if len([]rune(line)) > 40 {
			t.Fatalf("line too long: %q", line)
		}
	}
}

// A digest that is not the plan's is not asked about, and the view says so.
func TestDigestOfAnotherPlan(t *testing.T) {
	a := questiontest.WriteApproval()
	if err := Seen(a); err != nil || strings.Contains(render(a, "", 0, false), "does not belong") {
		t.Errorf("%v", err)
	}
	a.Plan.Writes = []string{"b.txt"}
	if err := Seen(a); palyra.AsError(err).Reason != palyra.ReasonStaleDigest {
		t.Errorf("%v", err)
	}
	if got := render(a, "", 0, false); !strings.Contains(got, "WARNING: the plan digest does not belong to this plan") {
		t.Error(got)
	}
}

// However long the plan is, what decides stands on the last screen.
func TestTheGistIsOnTheLastScreen(t *testing.T) {
	a := questiontest.WriteApproval()
	a.Prompt.Diff = strings.Repeat("+line of a long file\n", 500)
	lines := strings.Split(strings.TrimSuffix(render(a, palyra.SeparationNone, 80, false), "\n"), "\n")
	screen := strings.Join(lines[len(lines)-23:], "\n")
	for _, want := range []string{
		"\nTitle ", "\nSummary ", "\nRisk           MEDIUM", "NEW workspace",
		"\nWorkspace      /home/ann/shop (as uid 1000) NEW",
	} {
		if strings.Count(screen, want) != 1 {
			t.Errorf("%q is not on it once:\n%s", want, screen)
		}
	}
}

func TestReasons(t *testing.T) {
	ids := []string{"a", "b"}
	for in, want := range map[string]string{
		"needs one: x; y\npolicy a (f:1): x\npolicy b (f:2): y": "needs one\nx\ny",
		"needs one: x; z\npolicy a (f:1): x":                    "needs one: z\nx",
		"x\npolicy a: x\npolicy b: x":                           "x",
		"x by default\npolicy a: x":                             "x by default\nx",
		"why\npolicy other: x":                                  "why\npolicy other: x",
		"why\npolicy a":                                         "why",
		"why\nfree text":                                        "why\nfree text",
		"":                                                      "",
	} {
		if got := reasons(in, ids); got != want {
			t.Errorf("%q: got %q, want %q", in, got, want)
		}
	}
}

func TestWider(t *testing.T) {
	for in, want := range map[string]string{
		"once: this plan, within 5m. session: again. timeboxed: x": "session: again. timeboxed: x",
		"once: this plan.": "", "session: again": "session: again", "": "",
	} {
		if got := wider(in); got != want {
			t.Errorf("%q: %q", in, got)
		}
	}
}

func TestEnding(t *testing.T) {
	for want, d := range map[string]palyra.Decision{
		"withdrawn": {Answer: palyra.AnswerError, Reason: "withdrawn"}, "session closed": {Answer: palyra.AnswerError, Reason: "session closed"},
		"error": {Answer: palyra.AnswerError, Reason: "allow"}, "deny": {Answer: palyra.AnswerDeny, Reason: "withdrawn"},
	} {
		if got := Ending(palyra.Approval{Decision: d}); got != want {
			t.Errorf("%+v: %s", d, got)
		}
	}
}

// Everything that a plan of a program binds stands on the screen.
func TestNothingOfAProcessIsLeftOut(t *testing.T) {
	a := questiontest.ProcessApproval()
	a.Plan.Argv = append(a.Plan.Argv, strings.Repeat("x", 5000)+"END")
	a.Plan.Env = append(a.Plan.Env, palyra.EnvVar{Name: "LONG", Value: strings.Repeat("v", 3000) + "TAIL"})
	got := render(questiontest.Bound(a), palyra.SeparationNone, 0, false)
	p := a.Plan
	want := []string{
		p.Executable.Path, string(p.Executable.Digest), "sealed copy", p.Cwd, "CI=1", "PATH=/usr/bin:/bin", "xEND", "vTAIL", p.Stdin, "5 bytes",
		"/bin/sh  " + string(questiontest.SampleDigest), "Makefile  does not exist", "tier B", "time 2m0s", "CPU 1m0s", "memory 512 MiB",
		"processes 64", "output 1 MiB", "printed in all 256 MiB",
		"landlock_abi_7, no_network, seccomp", "cpu by rlimit+polled, wall by timer", "memory, processes: only looked at",
		"NOT enforced   disk", "other files it reads are not bound",
	}
	for _, w := range want {
		if !strings.Contains(got, w) {
			t.Errorf("no %q in\n%s", w, got)
		}
	}
	if strings.Contains(got, "left out") {
		t.Error("something was cut")
	}
}

func TestStdinSize(t *testing.T) {
	for in, want := range map[string]int64{
		`{"stdin":""}`: 0, `{"stdin":"h\u00e9"}`: 3, `{"stdin_b64":"AAEC"}`: 3, `{"stdin_b64":"!"}`: -1,
		`{}`: -1, `[`: -1, `{"stdin":7}`: -1,
	} {
		n, ok := stdinSize(json.RawMessage(in))
		if ok != (want >= 0) || ok && n != want {
			t.Errorf("%s: %d %v", in, n, ok)
		}
	}
}

func TestNetworkOfAPlan(t *testing.T) {
	for mode, want := range map[string]string{
		"strict": "the hosts above", "preflight": "NOT enforced while it runs", "none": "NOT enforced",
		"": "NOT enforced", "odd\x1b": `odd\x1b`,
	} {
		a := questiontest.ProcessApproval()
		a.Plan.Egress, a.Plan.Enforcement.Mode = []string{"a.org:443"}, palyra.NetworkMode(mode)
		if got := render(questiontest.Bound(a), "", 0, false); !strings.Contains(got, want) {
			t.Errorf("%s: no %q in\n%s", mode, want, got)
		}
	}
}
