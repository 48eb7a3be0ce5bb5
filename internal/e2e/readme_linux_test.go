package e2e

import (
	"context"
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

// tour returns what the long tour says under a heading, and the commands there.
func tour(t testing.TB, heading string) (text string, lines []string) {
	t.Helper()
	return told(t, "../../docs/tour.md", heading)
}

// told returns what a document says under a heading in bold letters, and the commands there.
func told(t testing.TB, file, heading string) (text string, lines []string) {
	t.Helper()
	raw, err := os.ReadFile(file)
	if err != nil {
		t.Fatal(err)
	}
	_, rest, found := strings.Cut(string(raw), "\n**"+heading)
	if text, _, _ = strings.Cut(rest, "\n\n**"); !found {
		t.Fatalf("%s has no %q", file, heading)
	}
	for line := range strings.Lines(text) {
		if command, ok := strings.CutPrefix(line, "    "); ok {
			lines = append(lines, strings.TrimSpace(command))
		}
	}
	return text, lines
}

// typedLine is a line as the tour has it, for a shell in the workspace.
func (d *daemon) typedLine(home, line string) *exec.Cmd {
	d.t.Helper()
	ctx, cancel := context.WithTimeout(d.t.Context(), waitMost)
	d.t.Cleanup(cancel)
	cmd := exec.CommandContext(ctx, "sh", "-c", line)
	cmd.Dir, cmd.WaitDelay = d.work, time.Second
	cmd.Env = append(os.Environ(), "PALYRA_HOME="+d.home, "HOME="+home, "PATH="+filepath.Dir(bin(d.t, "palyra"))+":"+os.Getenv("PATH"))
	return cmd
}

// reader follows the tour.
type reader struct {
	*daemon
	home   string
	person *client.Client
}

// says fails where the tour does not say words any more.
func (r reader) says(text, words string) {
	r.t.Helper()
	if !strings.Contains(strings.Join(strings.Fields(text), " "), words) {
		r.t.Errorf("the tour does not say %q any more", words)
	}
}

// unasked runs a line about which nobody is asked.
func (r reader) unasked(line string) string {
	r.t.Helper()
	before := r.questions()
	out, err := r.typedLine(r.home, line).CombinedOutput()
	if asked := r.questions() - before; err != nil || asked > 0 {
		r.t.Fatalf("%s: %v, %d questions\n%s", line, err, asked, out)
	}
	return string(out)
}

// questions counts those that were ever asked.
func (r reader) questions() int {
	page, err := r.person.Approvals(r.t.Context(), client.ApprovalFilter{})
	if err != nil {
		r.t.Fatal(err)
	}
	return len(page.Approvals)
}

// asks runs a line that asks, looks at the question in its lines, and answers it.
func (r reader) asks(line string, answer palyra.Answer, look func(a palyra.Approval, shown string)) (string, int) {
	r.t.Helper()
	var out strings.Builder
	cmd := r.typedLine(r.home, line)
	cmd.Stdout, cmd.Stderr = &out, &out
	if err := cmd.Start(); err != nil {
		r.t.Fatal(err)
	}
	a := r.pending(r.person)
	shown := r.unasked("palyra approvals show " + string(a.ID))
	if n := strings.Count(shown, "\n"); n > 12 {
		r.t.Errorf("%s: the question has %d lines:\n%s", line, n, shown)
	}
	look(a, shown)
	if _, err := r.person.Decide(r.t.Context(), client.DecideRequest{ID: a.ID, Answer: answer, Digest: a.PlanDigest}); err != nil {
		r.t.Fatal(err)
	}
	_ = cmd.Wait()
	return out.String(), cmd.ProcessState.ExitCode()
}

// there reports whether the workspace has a file.
func (r reader) there(name string) bool {
	_, err := os.Lstat(filepath.Join(r.work, name))
	return err == nil
}

// The first ten minutes are as the tour tells them: what is written and run at once, what asks and in how many lines,
// what a no leaves, and what is taken back.
func TestTheFirstTenMinutes(t *testing.T) {
	d := newDaemon(t) // the directory is the reader's own
	d.mustStart(shipped...)
	d.inWorkspace()
	r := reader{d, t.TempDir(), d.client(client.OperatorDoor)}
	if err := os.WriteFile(filepath.Join(r.home, ".bashrc"), []byte("# of the person\n"), 0o644); err != nil {
		t.Fatal(err)
	}
	r.changesFiles()
	r.runsPrograms()
	r.takesBack()
	r.explains()
}

// changesFiles is the tour of the file tools.
func (r reader) changesFiles() {
	text, lines := tour(r.t, "Propose a change.")
	r.says(text, "An ordinary file is written at once")
	if r.unasked(lines[0]); !r.there("a.txt") {
		r.t.Error("a.txt was not written")
	}
	text, _ = tour(r.t, "Answer it from the second terminal.")
	r.says(text, "A question has twelve lines at most")
	out, code := r.asks(lines[1], palyra.AnswerAllow, func(a palyra.Approval, shown string) {
		if !strings.Contains(shown, "+export A=1\n") || !strings.Contains(shown, "--full") || r.there(".envrc") {
			r.t.Errorf("the question is\n%s", shown)
		}
		full := r.unasked("palyra approvals show " + string(a.ID) + " --full")
		if !strings.Contains(full, string(a.PlanDigest)) || !strings.Contains(full, "+export A=1\n") {
			r.t.Errorf("the full view is\n%s", full)
		}
	})
	r.says(text, "`.envrc` is there and `outcome.json` holds the result")
	if got := r.unasked("cat outcome.json"); code != 0 || !r.there(".envrc") || !strings.Contains(got, `"outcome":"finished"`) {
		r.t.Errorf("exit %d\n%s\n%s", code, out, got)
	}
}

// runsPrograms is the tour of programs.
func (r reader) runsPrograms() {
	text, lines := tour(r.t, "Run a program")
	r.says(text, "Nobody is asked about the first two.")
	if out := r.unasked(lines[0]); strings.TrimSpace(out) != "6 a.txt" {
		r.t.Errorf("it prints %q", out)
	}
	if r.unasked(lines[1]); !r.there("made-by-palyra") {
		r.t.Error("what it made is not there")
	}
	r.says(text, "The third one asks, because it names a file outside, and does not find your `.bashrc`.")
	out, code := r.asks(lines[2], palyra.AnswerAllow, func(a palyra.Approval, shown string) {
		if a.Plan.Effects != nil || !strings.Contains(shown, "outside_path") {
			r.t.Errorf("the question is\n%s", shown)
		}
	})
	if code == 0 || strings.Contains(out, "of the person") || !strings.Contains(out, "hello\n") || !strings.Contains(out, "No such file") {
		r.t.Errorf("exit %d\n%s", code, out)
	}
	r.says(text, "you are asked before the new `.git` comes into the directory")
	out, code = r.asks(lines[3], palyra.AnswerDeny, func(a palyra.Approval, shown string) {
		if a.Plan.Effects == nil || !strings.Contains(shown, ".git") || r.there(".git") {
			r.t.Errorf("the question is\n%s", shown)
		}
		r.says(text, "(type `diff`, or `palyra changes CALL --diff` elsewhere), and allow it or drop it")
		if diff := r.unasked("palyra changes " + string(a.Call) + " --diff"); !strings.Contains(diff, "+++ b/.git/HEAD") {
			r.t.Errorf("the diff is\n%s", diff)
		}
	})
	if code != palyra.ExitRefused || r.there(".git") || !strings.Contains(out, "No commits yet") {
		r.t.Errorf("denied: exit %d\n%s", code, out)
	}
}

// takesBack is the tour of undo.
func (r reader) takesBack() {
	_, lines := tour(r.t, "See what it changed, and take it back.")
	const dropped = "dropped: nothing in the workspace was changed"
	if out := r.unasked(lines[0]); !strings.Contains(out, dropped) || !strings.Contains(out, ".git/HEAD") {
		r.t.Errorf("it lists\n%s", out)
	}
	if out := r.unasked(lines[1]); r.there("made-by-palyra") || !r.there("a.txt") {
		r.t.Errorf("the last one is not undone, or more:\n%s", out)
	}
	all, err := r.person.UndoEntries(r.t.Context())
	if err != nil || len(all) == 0 {
		r.t.Fatal(err)
	}
	if out := r.unasked(strings.Replace(lines[2], "CALL", string(all[0].Call), 1)); !r.there("made-by-palyra") {
		r.t.Errorf("it is not redone:\n%s", out)
	}
}

// explains is what why says of where a program writes.
func (r reader) explains() {
	_, lines := tour(r.t, "Own the policy.")
	line := slices.IndexFunc(lines, func(l string) bool { return strings.HasPrefix(l, "palyra policy why --script") })
	const writes = "Writes       to a stage: what it changed is judged before it is kept\n"
	if out := r.unasked(lines[line]); !strings.Contains(out, writes) || !strings.Contains(out, "Verdict      ") {
		r.t.Errorf("it says\n%s", out)
	}
	_, lines = tour(r.t, "Check the log")
	if out := r.unasked(lines[2]); !strings.Contains(out, "Verdict      allow\n") {
		r.t.Errorf("it says\n%s", out)
	}
}
