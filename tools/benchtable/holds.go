package main

import (
	"fmt"
	"slices"
	"strings"
)

// hold is what a figure has to be: at most or at least a number. Docs/benchmarks.md says what each means.
type hold struct {
	what      string
	benchmark string // and its sub-benchmark
	unit      string
	least     bool // at least; else at most
	hold      float64
	moonshot  float64 // 0: there is none
	suffix    string
}

// holds are all figures that have one.
var holds = []hold{
	{"gated call in tier C / bare bubblewrap", "Peers", "palyra/bwrap", false, 0.7, 0.45, "×"},
	{"calls of 8 callers in tier C / bare bubblewraps of 8", "Callers", "calls/bwraps", true, 1, 2, "×"},
	{"palyra exec -- true, the process / bare bubblewrap", "Peers", "exec/bwrap", false, 2, 1.2, "×"},
	{"codex sandbox / palyra exec", "Peers", "codex/exec", true, 4, 8, "×"},
	{"srt / palyra exec", "Peers", "srt/exec", true, 25, 50, "×"},
	{"palyra version / plain", "Peers", "version/plain", false, 4, 3, "×"},
	{"palyra tui until it shows / palyra version", "TerminalUI", "tui/version", false, 3, 0, "×"},
	{"a frame of the console's list of 10,000, p95", "ConsoleList", "frame-p95-ms", false, 50, 17, "ms"},
	{"tier C, a room ready / plain", "Launch/root/0-files", "warm/plain", false, 1.5, 1.2, "×"},
	{"tier C, a room ready / plain, ordinary user", "Launch/user/0-files", "warm/plain", false, 1.5, 1.2, "×"},
	{"tier C, no room ready / bare bubblewrap", "Launch/root/0-files", "cold/bare", false, 1.3, 0.6, "×"},
	{"tier B, a cell ready / plain", "Launch", "warm/plain", false, 1.6, 1.35, "×"},
	{"the gate, 1 caller / fdatasync", "Gate/callers=1", "gate/fdatasync", false, 5, 3, "×"},
	{"the gate, 64 callers", "Gate/callers=64", "calls/s", true, 8000, 20000, "/s"},
	{"judge, default bundle", "Judge/allow/5", "ns/op", false, 10_000, 0, "ns"},
	{"replay of 100,000 different plans", "Replay/distinct/calls=100000", "s/100k", false, 6, 2, "s"},
	{"a signed commit under a lease, beyond ssh-keygen's", "Signed", "beyond-ms", false, 5, 2, "ms"},
	{"gated program with 1 GiB of heap / without", "Heap", "heavy/light", false, 1.2, 0, "×"},
	{"request to a bound host / through the guard only, kept connection", "Lent/kept", "ratio", false, 1.5, 0, "×"},
	{"request to a bound host / through the guard only, new connection", "Lent/first", "ratio", false, 3, 0, "×"},
	{"a hook that observes, added to a shell command", "Hook/observed/bash", "added-p50-ms", false, 30, 15, "ms"},
	{"a hook that observes, added to a read", "Hook/observed/read", "added-p50-ms", false, 30, 15, "ms"},
	{"a hook that holds and the sandbox, added to a shell command", "Hook/held/bash", "added-p50-ms", false, 50, 30, "ms"},
	{"a hook that holds, added to a read", "Hook/held/read", "added-p50-ms", false, 50, 20, "ms"},
	{"a trivial call of a skill's module, a worker at hand", "Skill", "warm-p50-µs", false, 200, 100, "µs"},
	{"what 1,000 instances in a row leave in their worker", "Skill", "kept-MiB", false, 2, 0, "MiB"},
	{"compiling a module of Go's in a worker of its own / by wazero in the process", "Skill", "cold/wazero", false, 5, 2, "×"},
	{"loading what was compiled / compiling it", "Skill", "cached/cold", false, 0.2, 0.05, "×"},
	{"work of a module with fuel / without", "Fuel", "fuel/plain", false, 1.6, 1.2, "×"},
	{"a secret of a full vault lent", "VaultUse", "p50-ms", false, 1, 0, "ms"},
	{"daemon idle", "Memory", "idle-MiB", false, 64, 0, "MiB"},
	{"a waiting call", "Memory", "waiting-KiB", false, 64, 0, "KiB"},
	{"an open run of a program", "Memory", "running-KiB", false, 256, 0, "KiB"},
	{"a warm room, beyond shared pages", "Memory", "room-KiB", false, 4096, 0, "KiB"},
	{"the program palyra", "Memory", "palyra-MiB", false, 4, 0, "MiB"},
	{"the program palyra-full", "Memory", "palyra-full-MiB", false, 48, 0, "MiB"},
	{"the program palyra-tui", "Memory", "palyra-tui-MiB", false, 32, 0, "MiB"},
	{"the program palyrad", "Memory", "palyrad-MiB", false, 64, 0, "MiB"},
	{"the program palyra-cell", "Memory", "palyra-cell-MiB", false, 4, 0, "MiB"},
}

// pattern matches the benchmarks of all holds.
func pattern() string {
	var names []string
	for _, h := range holds {
		name, _, _ := strings.Cut(h.benchmark, "/")
		names = append(names, name)
	}
	slices.Sort(names)
	return "^Benchmark(" + strings.Join(slices.Compact(names), "|") + ")$"
}

func (h hold) figure(all map[string][]float64) (figure, bool) {
	key := h.benchmark + " " + h.unit
	rounds := all[key]
	if len(rounds) == 0 {
		return figure{}, false
	}
	f := figure{What: h.what, Metric: key, Rounds: rounds, Median: median(rounds), Hold: h.says(h.hold)}
	if h.moonshot != 0 {
		f.Moonshot = h.says(h.moonshot)
	}
	switch {
	case h.moonshot != 0 && h.meets(f.Median, h.moonshot):
		f.Verdict = "MOONSHOT"
	case h.meets(f.Median, h.hold):
		f.Verdict = "held"
	default:
		f.Verdict = "MISSED"
	}
	return f, true
}

func (h hold) meets(v, bound float64) bool {
	if h.least {
		return v >= bound
	}
	return v <= bound
}

func (h hold) says(bound float64) string {
	sign := "≤"
	if h.least {
		sign = "≥"
	}
	return fmt.Sprintf("%s %s %s", sign, number(bound), h.suffix)
}
