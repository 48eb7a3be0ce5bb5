package e2e

import (
	"bytes"
	"context"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"time"

	"palyra"
	"palyra/client"
	"palyra/internal/skill"
	"palyra/internal/wasm"
	"palyra/internal/wasm/wasmtest"
)

// lean is a module with one function, run.
func lean(t testing.TB, body, more string) wasm.Module {
	return wasmtest.Wat(t, `(module `+more+` (memory (export "memory") 1)
  (func (export "palyra_alloc") (param i32) (result i32) i32.const 1024)
  (func (export "run") (param i32 i32) (result i64) `+body+` (i64.const 0)))`)
}

const (
	endless   = `(loop $l (br $l))`
	logImport = `(import "palyra" "log" (func $log (param i64 i32 i32 i32) (result i32)))
  (import "palyra" "handle" (func $handle (param i32 i32 i32 i32) (result i64))) (data (i32.const 0) "log")`
	storm = `(local $h i64) (local.set $h (call $handle (i32.const 0) (i32.const 3) (i32.const 0) (i32.const 0)))
  (loop $l (drop (call $log (local.get $h) (i32.const 0) (i32.const 3) (i32.const 1))) (br $l))`
	one = `(return (i64.const 1))`
)

// takers are modules that take what they can, with the limit that ends each.
func takers(t testing.TB) (modules map[string]wasm.Module, ends map[string]palyra.Reason) {
	modules = map[string]wasm.Module{
		"loop.wasm":  lean(t, endless, ""),
		"grow.wasm":  lean(t, `(loop $l (br_if $l (i32.ne (memory.grow (i32.const 16)) (i32.const -1)))) unreachable`, ""),
		"table.wasm": lean(t, "", "(table 10000001 funcref)"), "deep.wasm": lean(t, "call $r", "(func $r (call $r) (call $r))"),
		"start.wasm": lean(t, "", "(start $s) (func $s "+endless+")"), "storm.wasm": lean(t, storm, logImport),
		"good.wasm": lean(t, one, `(data (i32.const 0) "7")`),
	}
	ends = map[string]palyra.Reason{
		"loop": wasm.ReasonFuel, "grow": wasm.ReasonMemory, "table": wasm.ReasonTable, "deep": wasm.ReasonStack,
		"start": wasm.ReasonFuel, "storm": wasm.ReasonHostCalls, "good": "",
	}
	return modules, ends
}

// workers are the processes of the runtime below the daemon.
func (d *daemon) workers() (pids []int) {
	all, _ := filepath.Glob("/proc/[0-9]*/cmdline")
	for _, name := range all {
		b, _ := os.ReadFile(name)
		pid, _ := strconv.Atoi(filepath.Base(filepath.Dir(name)))
		if bytes.HasPrefix(b, []byte("palyra-wasm\x00")) && d.above(pid) {
			pids = append(pids, pid)
		}
	}
	return pids
}

// above reports whether the daemon started a process, or one that did.
func (d *daemon) above(pid int) bool {
	for pid > 1 && pid != d.cmd.Process.Pid {
		fields := statOf(pid)
		if len(fields) < 2 {
			return false
		}
		pid, _ = strconv.Atoi(fields[1])
	}
	return pid == d.cmd.Process.Pid
}

// statOf is what the kernel says of a process, from its state on.
func statOf(pid int) []string {
	b, _ := os.ReadFile(fmt.Sprintf("/proc/%d/stat", pid))
	_, rest, _ := strings.Cut(string(b), ") ")
	return strings.Fields(rest)
}

// busiest is the worker that used most of the processor.
func (d *daemon) busiest() (busiest int) {
	most := -1
	for _, pid := range d.workers() {
		if fields := statOf(pid); len(fields) > 11 {
			if n, _ := strconv.Atoi(fields[11]); n > most {
				most, busiest = n, pid
			}
		}
	}
	return busiest
}

// module calls a tool of a skill.
func (d *daemon) module(tool string) client.CallRequest {
	return client.CallRequest{
		Tool: palyra.ToolName("skill." + tool), Arguments: []byte("{}"), Workspace: d.work, Surface: palyra.SurfaceCLI, NoWait: true,
	}
}

// TestBadModulesHarmNobody: what a module does to its host ends by the name of its limit, soon; others go on meanwhile, and the
// daemon is as it was.
func TestBadModulesHarmNobody(t *testing.T) {
	t.Parallel()
	d := newDaemon(t)
	d.mustStart(unlimited...)
	u := d.rooted()
	u.permits(permitSkills)
	u.trusts(1)
	modules, ends := takers(t)
	var tools string
	for name := range ends {
		tools += tool(name, name+".wasm", `export = "run"`)
	}
	u.installs("limits", signed(t, 1, "limits", tools+"[limits]\nfuel = 20000000\ntimeout_ms = 5000\n", modules))
	long := map[string]wasm.Module{"loop.wasm": modules["loop.wasm"], "good.wasm": modules["good.wasm"]}
	u.installs("long", signed(t, 1, "long", tool("loop", "loop.wasm", `export = "run"`)+tool("good", "good.wasm", `export = "run"`)+
		"[limits]\nfuel = 1000000000000\ntimeout_ms = 1500\n", long))
	agent := d.client(client.AgentDoor)
	call := func(tool string) palyra.Outcome {
		t.Helper()
		o, err := agent.Call(t.Context(), d.module(tool), nil)
		if err != nil {
			t.Fatal(err)
		}
		return o
	}
	if o := call("limits.good"); string(o.Output) != "7" {
		t.Fatalf("%+v", o)
	}
	before := d.resident()
	for name, want := range ends {
		began := time.Now()
		o := call("limits." + name)
		if o.ReasonCode != want || want != "" && (o.Remedy == "" || o.Layer == "") {
			t.Errorf("%s: %s %s", name, o.ReasonCode, o.Reason)
		}
		if took := time.Since(began); took > 5*5*time.Second {
			t.Errorf("%s took %s", name, took)
		}
	}
	for how, c := range map[string]struct {
		signal syscall.Signal
		want   palyra.Reason
	}{
		"left alone": {0, palyra.ReasonTimedOut}, "killed": {syscall.SIGKILL, wasm.ReasonWorkerDied},
		"stalled": {syscall.SIGSTOP, wasm.ReasonStalled},
	} {
		idle := d.workers()
		done := make(chan palyra.Outcome, 1)
		go func() {
			o, _ := agent.Call(context.Background(), d.module("long.loop"), nil)
			done <- o
		}()
		<-time.After(700 * time.Millisecond)
		busy := d.busiest()
		if err := syscall.Kill(busy, c.signal); err != nil {
			t.Fatal(err, idle)
		}
		if o := call("long.good"); string(o.Output) != "7" { // meanwhile
			t.Errorf("%s: %+v", how, o)
		}
		if o := <-done; o.ReasonCode != c.want {
			t.Errorf("%s: %s %s", how, o.ReasonCode, o.Reason)
		}
		if c.signal != 0 && slices.Contains(d.workers(), busy) {
			t.Errorf("%s: the worker is still there", how)
		}
	}
	if o := call("limits.good"); string(o.Output) != "7" {
		t.Errorf("afterwards: %+v", o)
	}
	if after := d.resident(); after > before+64<<20 {
		t.Errorf("the daemon has %d MiB, and had %d", after>>20, before>>20)
	}
	if n := len(d.workers()); n > 4 {
		t.Errorf("%d workers are kept", n)
	}
}

// TestModulesAreCheckedAtInstall: what cannot run is refused by name, and nothing is installed.
func TestModulesAreCheckedAtInstall(t *testing.T) {
	t.Parallel()
	d := newDaemon(t)
	d.mustStart(unlimited...)
	u := d.rooted()
	u.trusts(1)
	good := lean(t, one, "")
	binary, _ := good.Bytes()
	for what, c := range map[string]struct {
		module wasm.Module
		more   string
		want   palyra.Reason
	}{
		"malformed":          {wasmtest.Module(binary[:len(binary)/2]), `export = "run"`, wasm.ReasonBadModule},
		"no such function":   {good, `export = "walk"`, wasm.ReasonExport},
		"not a command":      {good, "", wasm.ReasonExport},
		"a foreign import":   {lean(t, one, `(import "env" "system" (func (param i32)))`), `export = "run"`, wasm.ReasonImport},
		"a secret, shown":    {lean(t, one, `(import "palyra" "secret_reveal" (func (param i64) (result i32)))`), `export = "run"`, wasm.ReasonImport},
		"an imported memory": {lean(t, one, `(import "palyra" "memory" (table 1 funcref))`), `export = "run"`, wasm.ReasonImport},
	} {
		file := u.put("bad.skill", string(signed(t, 1, "bad", tool("x", "m.wasm", c.more), map[string]wasm.Module{"m.wasm": c.module})))
		out, err := u.as("palyra", "skills", "install", file).CombinedOutput()
		if err == nil || !strings.Contains(string(out), "nothing was installed") || !strings.Contains(string(out), "remedy: ") {
			t.Errorf("%s: %s", what, out)
		}
		asJSON, _ := u.as("palyra", "skills", "install", "--json", file).CombinedOutput()
		if !strings.Contains(string(asJSON), `"`+string(c.want)+`"`) {
			t.Errorf("%s: %s, want %s", what, asJSON, c.want)
		}
	}
	abi := signed(t, 1, "bad", "abi = \"palyra-skill/9\"\n"+tool("x", "m.wasm", `export = "run"`), map[string]wasm.Module{"m.wasm": good})
	if out, err := u.as("palyra", "skills", "install", u.put("bad.skill", string(abi))).CombinedOutput(); err == nil ||
		!strings.Contains(string(out), "palyra-skill/9") {
		t.Errorf("%s", out)
	}
	var list struct{ Skills []skill.Skill }
	u.palyra(&list, "skills", "list")
	if len(list.Skills) != 0 {
		t.Errorf("installed is %+v", list.Skills)
	}
}

// TestTakenAwayWhileItStorms: a module that calls tools as fast as it can is ended by a revocation, and not one call of it is
// proposed after that was answered.
func TestTakenAwayWhileItStorms(t *testing.T) {
	t.Parallel()
	d := newDaemon(t)
	d.mustStart(unlimited...)
	u := d.rooted()
	u.permits(permitSkills)
	more := tool("steps", "guest.wasm", "") + "[capabilities]\ntools = [\"palyra.echo\"]\n"
	guest := map[string]wasm.Module{"guest.wasm": wasmtest.Guest(t)}
	keys := map[byte]string{}
	for n, how := range []func(id string) []string{
		func(id string) []string { return []string{"skills", "quarantine", id} },
		func(id string) []string { return []string{"skills", "remove", id, "--forget"} },
		func(string) []string { return []string{"skills", "trust", "revoke", keys[3]} },
	} {
		n, id := byte(n+1), fmt.Sprintf("s%d", n)
		keys[n] = u.trusts(n)
		u.installs(id, signed(t, n, id, more, guest))
		cmd := u.as("palyra", "tools", "call", "skill."+id+".steps", "--json", "--workspace", u.work, "--input",
			`{"steps":[`+doStep("storm", "n", 100000, "name", "palyra.echo", "a", `{"text":"x"}`)+`]}`)
		done := make(chan palyra.Outcome, 1)
		begun := len(d.lines("call.proposed"))
		go func() { done <- u.proposed(cmd) }()
		for len(d.lines("call.proposed")) < begun+20 {
			<-time.After(10 * time.Millisecond)
		}
		u.palyra(new(any), how(id)...)
		then := len(d.lines("call.proposed"))
		o := <-done
		if o.ReasonCode != skill.ReasonTaken || o.Remedy == "" {
			t.Errorf("%s: %s %s", id, o.ReasonCode, o.Reason)
		}
		if now := len(d.lines("call.proposed")); now != then {
			t.Errorf("%s: %d calls were proposed after it was taken away", id, now-then)
		}
		if len(d.workers()) != 0 {
			t.Errorf("%s: its worker runs", id)
		}
	}
	d.verify()
}
