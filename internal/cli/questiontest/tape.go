package questiontest

import (
	"encoding/json"
	"time"

	"palyra"
)

// SampleRun is a run that failed.
func SampleRun() palyra.Run {
	return palyra.Run{
		ID: SampleID, Key: "k1", Session: SampleID, Principal: "agent:local", Owner: "user:ann", Surface: palyra.SurfaceCLI,
		Workspace: "/home/ann/shop", Provider: "scripted",
		Title: "first steps", Input: SampleDigest, NoWait: true, State: palyra.RunFailed,
		Budget: palyra.Budget{Calls: 10, WallMS: 60_000, OutputBytes: 1 << 20, Parallel: 4},
		Calls:  3, Output: 2048, ReasonCode: palyra.ReasonBudgetSpent, Reason: "10 calls are enough", Remedy: "raise --max-calls",
		CreatedAt: SampleNow,
		EndedAt:   SampleNow.Add(time.Minute), LastSeq: 17,
	}
}

// SampleTape is a run with a call of every kind of ending.
func SampleTape() []palyra.TapeEntry {
	call := func(id, tool, args string, f palyra.TapeFinished, out ...palyra.TapeEntry) []palyra.TapeEntry {
		f.Call = palyra.CallID(id)
		list := []palyra.TapeEntry{{ToolProposed: &palyra.TapeProposed{
			Call: f.Call, Tool: palyra.ToolName(tool),
			Arguments: json.RawMessage(args),
		}}}
		return append(append(list, out...), palyra.TapeEntry{ToolFinished: &f})
	}
	said := func(id, stream, data string) palyra.TapeEntry {
		return palyra.TapeEntry{ToolOutput: &palyra.TapeOutput{Call: palyra.CallID(id), Stream: stream, Data: []byte(data)}}
	}
	tape := []palyra.TapeEntry{
		{RunAccepted: &palyra.TapeAccepted{Provider: "scripted", Title: "first steps"}},
		{ModelText: &palyra.TapeText{Turn: 1, Text: "I look.\nrun 01 done, "}},
		{ModelText: &palyra.TapeText{Turn: 1, Text: "0 calls", Done: true}},
	}
	tape = append(tape, call("C1", "palyra.fs.read", `{"path":"a"}`, palyra.TapeFinished{Outcome: palyra.OutcomeFinished})...)
	tape = append(tape, call("C2", "palyra.process.run", `{"command":"make"}`,
		palyra.TapeFinished{Outcome: palyra.OutcomeFinished, ExitCode: 2, Truncated: true},
		said("C2", "stdout", "one\ntw"), said("C2", "stderr", "bad\n"), said("C2", "stdout", "o\x1b[2J"))...)
	tape = append(tape, call("C3", "palyra.process.run", "", palyra.TapeFinished{
		Outcome: palyra.OutcomeFinished, ExitCode: 137,
		Signal: "SIGKILL", ReasonCode: palyra.ReasonQuotaExceeded, Reason: "ended by its memory limit", Remedy: "raise it",
	})...)
	tape = append(tape, call("C4", "palyra.fs.read", `{"path":"../x"}`, palyra.TapeFinished{
		Outcome: palyra.OutcomeRefused, ExitCode: 126,
		Layer: palyra.LayerPlan, ReasonCode: palyra.ReasonPathOutside, Reason: "outside", Remedy: "stay inside",
	})...)
	tape = append(tape,
		palyra.TapeEntry{ApprovalResolved: &palyra.TapeResolved{Call: "C4", Approval: "A1", Answer: palyra.AnswerAllow, By: "user:ann"}},
		palyra.TapeEntry{RunFinished: &palyra.TapeRunFinished{
			State: palyra.RunFailed, ReasonCode: palyra.ReasonBudgetSpent, Reason: "enough",
			Remedy: "raise --max-calls", Calls: 4,
		}},
	)
	for i := range tape {
		tape[i].Seq, tape[i].Run = int64(i+1), SampleID
	}
	return tape
}
