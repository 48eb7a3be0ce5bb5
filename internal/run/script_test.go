package run_test

import (
	"strings"
	"testing"

	"palyra"
	"palyra/internal/agent"
	"palyra/internal/agent/scripted"
	"palyra/internal/run"
)

type reads struct{}

func (reads) ReadOnly(tool palyra.ToolName) bool { return tool == "palyra.fs.read" }

func (reads) List() []palyra.Tool { return nil }

func scriptedWorld(t *testing.T) run.World {
	t.Helper()
	loop, err := agent.New(agent.Config{Providers: map[string]agent.Open{"scripted": scripted.New}, Tools: reads{}})
	if err != nil {
		t.Fatal(err)
	}
	return run.NewWorld(t, loop)
}

func begin(t *testing.T, w run.World, provider, script string) palyra.Run {
	t.Helper()
	r, err := w.Runs().Start(t.Context(), w.Request(provider, script))
	if err != nil {
		t.Fatal(err)
	}
	return r
}

func end(t *testing.T, w run.World, id palyra.RunID) (palyra.Run, string) {
	t.Helper()
	var kinds []string
	for _, e := range w.Tape(id) {
		kinds = append(kinds, run.Kind(e))
	}
	r, err := w.Runs().Get(t.Context(), id)
	if err != nil {
		t.Fatal(err)
	}
	return r, strings.Join(kinds, " ")
}

// A script runs over a restart with an open question: what was done is not done
// again, what was asked is still asked.
func TestScriptOverARestart(t *testing.T) {
	w := scriptedWorld(t)
	r := begin(t, w, "scripted", `
title: Over a restart
turns:
  - say: First.
    calls:
      - {tool: palyra.fs.write, with: {print: [hello]}, expect: finished}
  - calls:
      - {tool: palyra.fs.write, with: {ask: true}, expect: finished}
      - {tool: palyra.fs.write, with: {deny: true}, expect: refused}
  - say: Done.
`)
	approval := w.Asked()
	w.Restart()
	w.Asked()
	w.Allow(approval)
	got, kinds := end(t, w, r.ID)
	if got.State != palyra.RunDone || got.Title != "Over a restart" || got.Calls != 3 {
		t.Errorf("%+v", got)
	}
	want := "accepted text proposed judged granted output attested finished " +
		"proposed judged requested resolved judged granted attested finished proposed judged finished text ended"
	if kinds != want {
		t.Errorf("%s\nwant %s", kinds, want)
	}
	for i, times := range map[[2]int64]int{{1, 1}: 1, {2, 1}: 1, {2, 2}: 0} {
		if n := w.Ran(r.ID, i[0], i[1]); n != times {
			t.Errorf("call %v ran %d times, want %d", i, n, times)
		}
	}
}

// Two reads that wait for each other end only when they are made at once.
func TestScriptReadsAtOnce(t *testing.T) {
	w := scriptedWorld(t)
	w.Meet(2)
	r := begin(t, w, "scripted", `
turns:
  - calls:
      - {tool: palyra.fs.read, with: {meet: true}}
      - {tool: palyra.fs.read, with: {meet: true}}
      - {tool: palyra.fs.write}
`)
	if got, kinds := end(t, w, r.ID); got.State != palyra.RunDone || !strings.HasSuffix(kinds,
		"finished proposed judged granted attested finished ended") {
		t.Errorf("%+v\n%s", got, kinds)
	}
}

func TestScriptThatFails(t *testing.T) {
	for name, c := range map[string]struct {
		provider, script string
		reason           palyra.Reason
		text             string
		calls            int64
	}{
		"expectation": {
			"scripted", "turns: [{calls: [{tool: t, with: {deny: true}, expect: finished}, {tool: t}]}, {say: on}]",
			palyra.ReasonVerifyFailed, "turn 1, call 1 (t): expected finished, got refused", 1,
		},
		"stop": {
			"scripted", "turns: [{calls: [{tool: t, with: {deny: true}, stop_on: refused}]}, {say: on}]",
			palyra.ReasonPolicyDenied, "turn 1, call 1 (t): the script stops on refused", 1,
		},
		"bad script": {"scripted", "turns: [{shout: x}]", palyra.ReasonBadScript, `line 1: a turn has no key "shout"`, 0},
		"no input":   {"scripted", "", palyra.ReasonBadScript, "it is empty", 0},
		"provider":   {"oracle", "turns: [{say: x}]", palyra.ReasonNotFound, `no provider "oracle"`, 0},
	} {
		w := scriptedWorld(t)
		r := begin(t, w, c.provider, c.script)
		got, kinds := end(t, w, r.ID)
		if got.State != palyra.RunFailed || got.ReasonCode != c.reason || !strings.Contains(got.Reason, c.text) || got.Calls != c.calls {
			t.Errorf("%s: %+v\n%s", name, got, kinds)
		}
		if strings.Contains(kinds, "text") || !strings.HasSuffix(kinds, "ended") {
			t.Errorf("%s went on: %s", name, kinds)
		}
		if w.Calls().InFlight() != 0 {
			t.Errorf("%s: calls go on", name)
		}
	}
}

// A scripted run takes no input, and says so.
func TestScriptTakesNoInput(t *testing.T) {
	w := scriptedWorld(t)
	r := begin(t, w, "scripted", "turns: [{calls: [{tool: t, with: {ask: true}}]}]")
	approval := w.Asked()
	if err := w.Runs().Input(t.Context(), r.ID, palyra.Reach{Principal: "agent:test"}, "left"); palyra.CodeOf(err) != palyra.Invalid {
		t.Error(err)
	}
	w.Allow(approval)
	end(t, w, r.ID)
}
