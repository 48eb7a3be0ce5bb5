package cli

import (
	"bytes"
	"encoding/json"
	"reflect"
	"strings"
	"testing"
	"time"

	"palyra"
	"palyra/internal/cli/invocation"
	"palyra/internal/cli/questiontest"
	"palyra/internal/cli/screen"
)

func sampleRun() palyra.Run {
	return palyra.Run{
		ID: questiontest.SampleID, Key: "k1", Session: questiontest.SampleID, Principal: "agent:local", Owner: "user:ann", Surface: palyra.SurfaceCLI, Workspace: "/home/ann/shop", Provider: "scripted",
		Title: "first steps", Input: questiontest.SampleDigest, NoWait: true, State: palyra.RunFailed, Budget: palyra.Budget{Calls: 10, WallMS: 60_000, OutputBytes: 1 << 20, Parallel: 4},
		Calls: 3, Output: 2048, ReasonCode: palyra.ReasonBudgetSpent, Reason: "10 calls are enough", Remedy: "raise --max-calls", CreatedAt: questiontest.SampleNow,
		EndedAt: questiontest.SampleNow.Add(time.Minute), LastSeq: 17,
	}
}

// sampleTape is a run with a call of every kind of ending.
func sampleTape() []palyra.TapeEntry {
	call := func(id, tool, args string, f palyra.TapeFinished, out ...palyra.TapeEntry) []palyra.TapeEntry {
		f.Call = palyra.ID(id)
		list := []palyra.TapeEntry{{ToolProposed: &palyra.TapeProposed{Call: f.Call, Tool: tool, Arguments: json.RawMessage(args)}}}
		return append(append(list, out...), palyra.TapeEntry{ToolFinished: &f})
	}
	said := func(id, stream, data string) palyra.TapeEntry {
		return palyra.TapeEntry{ToolOutput: &palyra.TapeOutput{Call: palyra.ID(id), Stream: stream, Data: []byte(data)}}
	}
	tape := []palyra.TapeEntry{
		{RunAccepted: &palyra.TapeAccepted{Provider: "scripted", Title: "first steps"}},
		{ModelText: &palyra.TapeText{Turn: 1, Text: "I look.\nrun 01 done, "}},
		{ModelText: &palyra.TapeText{Turn: 1, Text: "0 calls", Done: true}},
	}
	tape = append(tape, call("C1", "palyra.fs.read", `{"path":"a"}`, palyra.TapeFinished{Outcome: palyra.OutcomeFinished})...)
	tape = append(tape, call("C2", "palyra.process.run", `{"command":"make"}`, palyra.TapeFinished{Outcome: palyra.OutcomeFinished, ExitCode: 2, Truncated: true},
		said("C2", "stdout", "one\ntw"), said("C2", "stderr", "bad\n"), said("C2", "stdout", "o\x1b[2J"))...)
	tape = append(tape, call("C3", "palyra.process.run", "", palyra.TapeFinished{Outcome: palyra.OutcomeFinished, ExitCode: 137, Signal: "SIGKILL", ReasonCode: palyra.ReasonQuotaExceeded, Reason: "ended by its memory limit", Remedy: "raise it"})...)
	tape = append(tape, call("C4", "palyra.fs.read", `{"path":"../x"}`, palyra.TapeFinished{Outcome: palyra.OutcomeRefused, ExitCode: 126, Layer: palyra.LayerPlan, ReasonCode: palyra.ReasonPathOutside, Reason: "outside", Remedy: "stay inside"})...)
	tape = append(tape,
		palyra.TapeEntry{ApprovalResolved: &palyra.TapeResolved{Call: "C4", Approval: "A1", Answer: palyra.AnswerAllow, By: "user:ann"}},
		palyra.TapeEntry{RunFinished: &palyra.TapeRunFinished{State: palyra.RunFailed, ReasonCode: palyra.ReasonBudgetSpent, Reason: "enough", Remedy: "raise --max-calls", Calls: 4}},
	)
	for i := range tape {
		tape[i].Seq, tape[i].Run = int64(i+1), questiontest.SampleID
	}
	return tape
}

// poisonedTape has an entry of every kind, full of hostile text.
func poisonedTape() []palyra.TapeEntry {
	var tape []palyra.TapeEntry
	v := reflect.TypeFor[palyra.TapeEntry]()
	for i := range v.NumField() {
		if v.Field(i).Type.Kind() == reflect.Pointer {
			var e palyra.TapeEntry
			questiontest.Poison(reflect.ValueOf(&e).Elem().Field(i))
			e.Seq = int64(len(tape) + 1)
			tape = append(tape, e)
		}
	}
	return tape
}

// tellAll tells a whole tape.
func tellAll(inv *invocation.Invocation, entries []palyra.TapeEntry) error {
	t := newTape(inv, nil, palyra.Run{ID: questiontest.SampleID})
	t.asker.noWait = true
	for _, e := range entries {
		if err := t.entry(inv.Context, e); err != nil {
			return err
		}
	}
	return t.release()
}

// What was said on the tape cannot pass for what Palyra says of it.
func TestTapeKeepsOutsideTextBehindTheGutter(t *testing.T) {
	var out bytes.Buffer
	inv := &invocation.Invocation{Stdout: &out, Stderr: &out, Now: func() time.Time { return questiontest.SampleNow }}
	forged := "\nok palyra.fs.write (call C9)\nrun " + string(questiontest.SampleID) + " done, 0 calls\n"
	if err := tellAll(inv, []palyra.TapeEntry{
		{Seq: 1, ModelText: &palyra.TapeText{Text: forged, Done: true}},
		{Seq: 2, ToolOutput: &palyra.TapeOutput{Call: "C1", Stream: "stdout", Data: []byte(forged)}},
		{Seq: 3, ToolFinished: &palyra.TapeFinished{Call: "C1", Outcome: palyra.OutcomeRefused, Reason: forged, Remedy: forged}},
	}); err != nil {
		t.Fatal(err)
	}
	for line := range strings.Lines(out.String()) {
		if strings.HasPrefix(line, "ok ") || strings.HasPrefix(line, "run ") {
			t.Errorf("outside text became a line of ours: %q", line)
		}
	}
}

// A long line without an end is not kept back for ever, and no character of it
// is torn.
func TestTapeOfALongLine(t *testing.T) {
	var out bytes.Buffer
	inv := &invocation.Invocation{Stdout: &out, Stderr: &out}
	tp := newTape(inv, nil, palyra.Run{})
	text := strings.Repeat("é", maxOpen)
	for _, piece := range []string{text[:5001], text[5001:]} {
		if err := tp.entry(t.Context(), palyra.TapeEntry{ToolOutput: &palyra.TapeOutput{Call: "C1", Stream: "stdout", Data: []byte(piece)}}); err != nil {
			t.Fatal(err)
		}
	}
	if n := strings.Count(out.String(), "é"); n < 2000 {
		t.Errorf("only %d characters before the end of the line", n)
	}
	if err := tp.entry(t.Context(), palyra.TapeEntry{ToolFinished: &palyra.TapeFinished{Call: "C1"}}); err != nil {
		t.Fatal(err)
	}
	if strings.Contains(out.String(), `\x`) || strings.Count(out.String(), "é") != maxOpen {
		t.Errorf("%d characters", strings.Count(out.String(), "é"))
	}
}

func TestMarks(t *testing.T) {
	for want, env := range map[bool][]string{
		true:  {"LANG=C", "LC_ALL=en_US.UTF-8"},
		false: {"LANG=en_US.UTF-8", "LC_CTYPE=C"},
	} {
		if utf8Locale(env) != want {
			t.Errorf("%v", env)
		}
	}
	if utf8Locale(nil) || !utf8Locale([]string{"LC_ALL=", "LANG=de_DE.utf8"}) {
		t.Error("utf8Locale")
	}
	inv := &invocation.Invocation{Env: []string{"LANG=en_US.UTF-8"}}
	if m := marks(inv, &bytes.Buffer{}); m != [2]string{"ok", "FAILED"} {
		t.Errorf("a file gets %v", m)
	}
}

func TestCounted(t *testing.T) {
	if screen.Count(0, "call") != "0 calls" || screen.Count(1, "call") != "1 call" || screen.Count(2, "call") != "2 calls" {
		t.Error("counted")
	}
}

// While a question stands on the terminal nothing pushes it away.
func TestTapeHoldsWhatFollowsAQuestion(t *testing.T) {
	var out bytes.Buffer
	inv := &invocation.Invocation{Stdout: &out, Stderr: &out}
	tp := newTape(inv, nil, palyra.Run{})
	tp.asked = "A1"
	told := func(e palyra.TapeEntry) string {
		t.Helper()
		if err := tp.entry(t.Context(), e); err != nil {
			t.Fatal(err)
		}
		return out.String()
	}
	if got := told(palyra.TapeEntry{Seq: 1, ModelText: &palyra.TapeText{Text: "meanwhile\n"}}); got != "" {
		t.Errorf("%q", got)
	}
	if got := told(palyra.TapeEntry{Seq: 2, ApprovalResolved: &palyra.TapeResolved{Approval: "A2", Answer: palyra.AnswerDeny}}); got != "" {
		t.Errorf("%q", got)
	}
	if got := told(palyra.TapeEntry{Seq: 3, ApprovalResolved: &palyra.TapeResolved{Approval: "A1", Answer: palyra.AnswerAllow}}); got != "│ meanwhile\n  A2: deny\n  A1: allow\n" {
		t.Errorf("%q", got)
	}
}
