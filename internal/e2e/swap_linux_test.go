package e2e

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"palyra"
	"palyra/client"
)

// swapped is a file that a program reads by itself, and what it says by it.
type swapped struct {
	File string   `json:"file"`
	Argv []string `json:"argv"`
	Good string   `json:"good"`
	Evil string   `json:"evil"`
}

func swappedFiles() []swapped {
	script := func(file string, argv ...string) swapped {
		return swapped{file, argv, "#!/bin/sh\necho good\n", "#!/bin/sh\necho EVIL\n"}
	}
	pkg := `{"name":"p","version":"1.0.0","scripts":{"x":"echo %s"}}`
	return []swapped{
		script("s.sh", "sh", "s.sh"),
		script("p.sh", "./p.sh"),
		{"job.py", []string{"python3", "job.py"}, "print('good')\n", "print('EVIL')\n"},
		{"package.json", []string{"npm", "run", "--silent", "x"}, fmt.Sprintf(pkg, "good"), fmt.Sprintf(pkg, "EVIL")},
	}
}

// looks is how many readers of a file a watcher lets finish before it swaps it: from
// before the last comparison to after the program's own look. Whoever is there when
// the program is proposed sees one more.
const looks = 4

// watcher swaps a file once somebody has read it so many times.
const watcher = `
import ctypes, os, struct
libc = ctypes.CDLL(None)
fd = libc.inotify_init()
libc.inotify_add_watch(fd, b".", 0x8 | 0x10) # IN_CLOSE_WRITE, IN_CLOSE_NOWRITE
def closed():
    while True:
        got, at = os.read(fd, 1 << 16), 0
        while at < len(got):
            _, mask, _, n = struct.unpack_from("iIII", got, at)
            yield got[at+16:at+16+n].rstrip(b"\0").decode(), mask & 0x8 != 0
            at += 16 + n
`

// beside is a run that waits for orders, each a file with a name and a number in it.
const beside = "#!/usr/bin/env python3\n" + watcher + `
print("ready", flush=True)
name, left = "", 0
for closed, written in closed():
    if closed == "order" and written:
        name, left = open("order").read().split()
        left = int(left)
        with open("taken", "w") as f:
            f.write("x")
    elif closed == "stop":
        break
    elif closed == name and not written:
        left -= 1
        if left == 0:
            os.rename("evil", name)
`

// inside is an agent that has programs approved and swaps what they read.
const inside = watcher + `
import json, subprocess, sys, threading
todo, name, left = json.loads(sys.argv[1]), "", 0
def watch():
    global left
    for closed_, written in closed():
        if closed_ == name and not written:
            left -= 1
            if left == 0:
                os.rename("evil", name)
threading.Thread(target=watch, daemon=True).start()
def put(name, text):
    with open(name + ".new", "w") as f:
        f.write(text)
    os.chmod(name + ".new", 0o755)
    os.rename(name + ".new", name)
for c in todo:
    for k in range(1, int(sys.argv[2]) + 1):
        name = ""
        put(c["file"], c["good"])
        put("evil", c["evil"])
        name, left = c["file"], k
        r = subprocess.run(["palyra", "exec", "--json", "--"] + c["argv"], stdout=subprocess.PIPE)
        print(json.dumps({"name": name, "looks": k, "swapped": open(name).read() == c["evil"], "outcome": json.loads(r.stdout)}), flush=True)
`

// Whoever swaps what an approved program reads, at whatever moment: the program that
// runs is the approved one, or none, and the outcome says that the file changed.
func TestWhatRunsIsWhatWasApproved(t *testing.T) {
	t.Parallel()
	d := newDaemon(t)
	d.ownWork()
	d.mustStart(append(unlimited, "PALYRA_PROCESS_STAGE_NAMES=500")...)
	d.inWorkspace()
	t.Run("a run beside that watches", func(t *testing.T) { d.swapsBeside(t) })
	t.Run("a run beside that nobody is asked about", func(t *testing.T) { d.swapsUnasked(t) })
	t.Run("an agent in a room", func(t *testing.T) { d.swapsInside(t) })
	t.Run("runs without copies", func(t *testing.T) { d.looksAgain(t) })
	t.Run("what lies in a cache", func(t *testing.T) { d.cached(t) })
	t.Run("more than is kept", func(t *testing.T) { d.writesTooMuch(t) })
	d.verify()
}

// cached: of what lies in a cache no run has a copy of its own. Another run that swaps it
// is noticed, with an alert, whether or not the rest is staged.
func (d *daemon) cached(t *testing.T) {
	const cache = "/home/agent/.cache/npm"
	const inside = cache + "/w.mk"
	d.put("w.mk", "all: w\n")
	for effects, args := range map[palyra.Settlement][]string{
		"":                 {"-s", "-f", inside},
		palyra.EffectsNone: {"-s", "-f", "w.mk", "-f", inside},
	} {
		script := "printf 'w:\\n\\t@echo ready; while [ ! -e " + cache + "/go ]; do sleep 0.02; done\\n' > " + inside
		out := d.willing(d.inRoom(map[string]any{"live": effects == ""}, "sh", "-c", script))
		call, err := d.client(client.OperatorDoor).GetCall(t.Context(), out.CallID)
		i := slices.IndexFunc(call.Plan.Mounts, func(m palyra.Mount) bool { return m.Target == cache })
		if err != nil || i < 0 || out.ExitCode != 0 {
			t.Fatalf("%+v, %v", out, err)
		}
		found, signal := filepath.Join(call.Plan.Mounts[i].Source, "w.mk"), filepath.Join(call.Plan.Mounts[i].Source, "go")
		for _, swap := range []bool{false, true} {
			_ = os.Remove(signal)
			making := processRun(d.work, map[string]any{"command": "make", "args": args, "live": effects == ""})
			run := d.fedLive(d.client(client.AgentDoor), making, palyra.ScopeOnce)
			if swap {
				if err := errors.Join(os.Rename(found, found+".away"), os.Rename(found+".away", found)); err != nil {
					t.Fatal(err)
				}
			}
			save(t, signal, nil)
			end := <-run.end
			alerts := slices.DeleteFunc(d.lines("alert.raised"), func(l map[string]any) bool { return l["call_id"] != string(run.id) })
			changed := end.out.ReasonCode == palyra.ReasonInputChanged && slices.Equal(end.out.InputChanged, []palyra.PathText{inside}) &&
				len(alerts) == 1
			if changed != swap || end.err != nil || end.out.Effects != effects {
				t.Errorf("%v, swapped %v: %+v, %v; alerts %v", args, swap, end.out, end.err, alerts)
			}
		}
	}
}

// writesTooMuch: a layer has an end, and a run that comes to it is ended by that name.
func (d *daemon) writesTooMuch(t *testing.T) {
	d.put("m.sh", "mkdir many; i=0; while [ $i -lt 600 ]; do : > many/$i; i=$((i+1)); done; sleep 60\n")
	out := d.willing(d.inRoom(nil, "sh", "m.sh"))
	if out.ReasonCode != palyra.ReasonQuotaExceeded || out.Effects != palyra.EffectsLost || predicate(t, out).KillReason != "stage_names" ||
		!strings.Contains(out.Remedy, "process.stage_names") {
		t.Errorf("%+v", out)
	}
	if _, err := os.Stat(filepath.Join(d.work, "many")); err == nil {
		t.Error("some of it is kept")
	}
}

// tries counts what became of programs whose inputs somebody swapped.
type tries struct{ ran, refused, swapped int }

// add looks at one outcome.
func (n *tries) add(t *testing.T, what string, swapped bool, out palyra.Outcome) {
	t.Helper()
	switch {
	case out.ReasonCode == palyra.ReasonPlanChanged && out.Stdout == "":
		n.refused++
	case out.Outcome != palyra.OutcomeFinished || strings.TrimSpace(out.Stdout) != "good":
		t.Errorf("%s: %s %s %s: %q %s", what, out.Outcome, out.ReasonCode, out.Reason, out.Stdout, out.Stderr)
	default:
		n.ran++
		if told := len(out.InputChanged) > 0; told && swapped { // one that is swapped and not told was so after the end
			n.swapped++
		} else if told {
			t.Errorf("%s: nobody swapped anything, and the outcome says %q", what, out.InputChanged)
		}
	}
}

// enough is whether a test has shown anything: programs that ran though their input
// had been swapped.
func (n *tries) enough(t *testing.T) {
	t.Helper()
	t.Logf("%d ran as approved, %d of them though somebody swapped what they read; %d were refused", n.ran, n.swapped, n.refused)
	if n.swapped == 0 {
		t.Error("nobody swapped anything in time: nothing is shown")
	}
}

func (d *daemon) swapsBeside(t *testing.T) {
	agent, person := d.client(client.AgentDoor), d.client(client.OperatorDoor)
	live := d.fedLive(agent, processRun(d.work, map[string]any{"script": beside, "tier": "c", "live": true}), palyra.ScopeOnce)
	order := func(file string, k int) {
		d.put("order", fmt.Sprintf("%s %d", file, k))
		d.started("taken", 1)
		if err := os.Remove(filepath.Join(d.work, "taken")); err != nil {
			t.Fatal(err)
		}
	}
	var n tries
	files := swappedFiles()
	for _, f := range files {
		for k := range looks {
			order("none", 0)
			d.put(f.File, f.Good)
			d.put("evil", f.Evil)
			a, _, ch, err := question(t.Context(), agent, person, d.inRoom(nil, f.Argv[0], f.Argv[1:]...))
			if err != nil {
				t.Fatal(err)
			}
			order(f.File, k+1)
			if _, err := person.Decide(t.Context(), allow(a, palyra.ScopeOnce, 0)); err != nil {
				t.Fatal(err)
			}
			end := <-ch
			if end.err != nil {
				t.Fatal(end.err)
			}
			n.add(t, fmt.Sprintf("%v, look %d", f.Argv, k+1), d.text(f.File) == f.Evil, end.out)
		}
	}
	d.put("stop", "")
	<-live.end
	n.enough(t)
}

// swapsUnasked: what no person is asked about is staged itself, and reaches nobody's
// files while it runs.
func (d *daemon) swapsUnasked(t *testing.T) {
	agent := d.client(client.AgentDoor)
	f := swappedFiles()[0]
	d.put(f.File, f.Good)
	d.put("evil", f.Evil)
	d.put("Makefile", "test:\n\t@echo ready; while :; do cp evil n; mv n s.sh; done\n")
	asked := len(d.lines("approval.requested"))
	loop := d.fedLive(agent, d.program("make", "test"), palyra.ScopeOnce)
	if len(d.lines("approval.requested")) != asked {
		t.Error("somebody was asked")
	}
	for range looks {
		out := d.willing(d.inRoom(nil, "sh", f.File))
		if out.Outcome != palyra.OutcomeFinished || strings.TrimSpace(out.Stdout) != "good" {
			t.Errorf("%s %s: %q", out.Outcome, out.Reason, out.Stdout)
		}
	}
	if err := agent.CancelCall(t.Context(), loop.id); err != nil {
		t.Fatal(err)
	}
	<-loop.end
}

func (d *daemon) swapsInside(t *testing.T) {
	files := swappedFiles()
	raw, err := json.Marshal(files)
	if err != nil {
		t.Fatal(err)
	}
	ctx, stop := context.WithTimeout(t.Context(), time.Minute)
	defer stop()
	answered := make(chan struct{})
	go func() {
		defer close(answered)
		for ctx.Err() == nil {
			_, _ = d.decideNext(ctx, palyra.AnswerAllow)
		}
	}()
	out, err := d.palyra("agent", "run", "--no-stdin", "-w", d.work, "--", "python3", "-c", inside, string(raw), fmt.Sprint(looks+1)).Output()
	stop()
	<-answered
	if err != nil {
		t.Fatalf("%v\n%s\n%s", err, out, d.log)
	}
	var n tries
	for line := range strings.Lines(string(out)) {
		var said struct {
			Name    string         `json:"name"`
			Looks   int            `json:"looks"`
			Swapped bool           `json:"swapped"`
			Outcome palyra.Outcome `json:"outcome"`
		}
		if err := json.Unmarshal([]byte(line), &said); err != nil {
			t.Fatalf("%v: %s", err, line)
		}
		n.add(t, fmt.Sprintf("%s, look %d", said.Name, said.Looks), said.Swapped, said.Outcome)
	}
	if n.ran+n.refused != (looks+1)*len(files) && !t.Failed() {
		t.Errorf("%s", out)
	}
	n.enough(t)
}

// looksAgain: where a run has no copies of its own, a swap is in the outcome, in the
// attestation and on record as an alert, also one that was taken back.
func (d *daemon) looksAgain(t *testing.T) {
	dir := filepath.Join(d.work, "above")
	const name, linked, text = "above/w/w.sh", "above/l.sh", "echo ready; while [ ! -e go ]; do sleep 0.02; done\n"
	path := d.put(name, text)
	was, err := os.Stat(path)
	if err = errors.Join(err, os.Symlink("w/w.sh", filepath.Join(d.work, linked))); err != nil {
		t.Fatal(err)
	}
	rename := func() error { return errors.Join(os.Rename(path, path+".away"), os.Rename(path+".away", path)) }
	rewrite := func() error {
		text, err := os.ReadFile(path)
		return errors.Join(err, os.WriteFile(path, []byte("echo EVIL\n"), 0o755), os.WriteFile(path, text, 0o755),
			os.Chtimes(path, was.ModTime(), was.ModTime()))
	}
	for where, more := range map[string]map[string]any{"tier b": {"tier": "b"}, "an agent in tier c": {"tier": "c", "agent_socket": true}} {
		for what, swap := range map[string]func() error{
			"nobody": nil, "moved away and back": rename, "rewritten and back": rewrite,
			"a directory above moved away and back": func() error {
				return errors.Join(os.Rename(dir, dir+".away"), os.Mkdir(dir, 0o755), os.Remove(dir), os.Rename(dir+".away", dir))
			},
			"a link moved away and back": func() error {
				link := filepath.Join(d.work, linked)
				return errors.Join(os.Rename(link, link+".away"), os.Rename(link+".away", link))
			},
			"made anew": func() error { return errors.Join(os.Remove(path), os.WriteFile(path, []byte("echo other\n"), 0o755)) },
		} {
			t.Run(where+", "+what, func(t *testing.T) {
				_ = os.Remove(filepath.Join(d.work, "go"))
				d.put(name, text)
				file := name
				if strings.Contains(what, "link") {
					file = linked
				}
				args := map[string]any{"command": "sh", "args": []string{file}}
				maps.Copy(args, more)
				run := d.fedLive(d.client(client.AgentDoor), processRun(d.work, args), palyra.ScopeOnce)
				if swap != nil {
					if err := swap(); err != nil {
						t.Fatal(err)
					}
				}
				d.put("go", "")
				end := <-run.end
				alerts := slices.DeleteFunc(d.lines("alert.raised"), func(l map[string]any) bool { return l["call_id"] != string(run.id) })
				if swap == nil {
					if len(end.out.InputChanged)+len(alerts) > 0 || end.out.ReasonCode != "" {
						t.Errorf("%+v %v", end.out, alerts)
					}
					return
				}
				told := []palyra.PathText{palyra.PathText(file)}
				if end.err != nil || end.out.ReasonCode != palyra.ReasonInputChanged || !slices.Equal(end.out.InputChanged, told) ||
					!slices.Equal(predicate(t, end.out).InputChanged, told) {
					t.Errorf("%+v, %v", end.out, end.err)
				}
				if len(alerts) != 1 || alerts[0]["reason_code"] != string(palyra.ReasonInputChanged) || alerts[0]["path"] != file {
					t.Errorf("alerts: %v", alerts)
				}
			})
		}
	}
}
