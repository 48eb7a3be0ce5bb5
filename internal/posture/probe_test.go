package posture

import (
	"encoding/json"
	"strings"
	"testing"

	"palyra"
)

func TestEveryProbeIsComplete(t *testing.T) {
	names := map[string]bool{}
	for _, p := range probes() {
		if names[p.name] || p.name == "" || p.remedy == "" || len(p.act) < 2 {
			t.Errorf("%+v", p)
		}
		names[p.name] = true
		if !p.works && len(p.refusals) == 0 {
			t.Errorf("%s can never be held", p.name)
		}
	}
	for _, want := range []string{
		"secret", "loopback", "unix_socket", "abstract_socket", "processes", "memory", "symlink_read", "signal", "processes_seen", "sealed_path",
		"new_sealed_path", "egress", "syscall_ptrace", "syscall_mount", "syscall_unshare", "syscall_keyctl", "syscall_bpf",
		"syscall_io_uring_setup",
		"syscall_userfaultfd", "syscall_perf_event_open",
	} {
		if !names[want] {
			t.Errorf("%s is not tried", want)
		}
	}
}

func named(t *testing.T, name string) probe {
	t.Helper()
	for _, p := range probes() {
		if p.name == name {
			return p
		}
	}
	t.Fatalf("no probe %s", name)
	return probe{}
}

func TestJudge(t *testing.T) {
	done, refused := finding{Done: true}, func(e string) finding { return finding{Error: e} }
	for _, c := range []struct {
		name, probe string
		exit        Exit
		f           finding
		said, held  bool
	}{
		{"refused", "secret", Exit{}, refused("EACCES"), true, true},
		{"it worked", "secret", Exit{}, done, true, false},
		{"silence", "secret", Exit{}, finding{}, false, false},
		{"killed, nobody knows why", "secret", Exit{Signal: "SIGKILL"}, finding{}, false, false},
		{"killed by a filter that is none of it", "secret", Exit{Signal: "SIGSYS"}, finding{}, false, false},
		{"a failure that is none", "secret", Exit{}, refused("EINVAL"), true, false},
		{"not tried", "secret", Exit{}, refused("untried: no such act"), true, false},
		{"a limit that is not its own", "secret", Exit{Limit: "memory"}, finding{}, false, false},
		{"ended at the limit", "memory", Exit{Limit: "memory", Signal: "SIGKILL"}, finding{}, false, true},
		{"ended at another limit", "memory", Exit{Limit: "cpu", Signal: "SIGKILL"}, finding{}, false, false},
		{"killed without a limit", "memory", Exit{Signal: "SIGKILL"}, finding{}, false, false},
		{"over the limit, and then ended", "memory", Exit{Limit: "memory"}, done, true, false},
		{"few processes", "processes", Exit{}, finding{Error: "EAGAIN", Text: "27 made"}, true, true},
		{"many processes", "processes", Exit{}, finding{Error: "EAGAIN", Text: "300 made"}, true, false},
		{"nobody knows how many", "processes", Exit{}, refused("EAGAIN"), true, false},
		{"the filter killed", "syscall_bpf", Exit{Signal: "SIGSYS"}, finding{}, false, true},
		{"bad arguments reached the kernel", "syscall_bpf", Exit{}, refused("EINVAL"), true, false},
		{"work works", "workspace", Exit{}, done, true, true},
		{"work does not", "workspace", Exit{}, refused("EACCES"), true, false},
		{"a new sealed path could be made", "new_sealed_path", Exit{}, done, true, true},
		{"a new sealed path could not be made", "new_sealed_path", Exit{}, refused("EROFS"), true, true},
	} {
		held, detail := named(t, c.probe).judge(palyra.TierB, c.exit, c.f, c.said)
		if held != c.held || detail == "" {
			t.Errorf("%s: %t %q", c.name, held, detail)
		}
	}
	if held, _ := named(t, "signal").judge(palyra.TierC, Exit{}, done, true); !held {
		t.Error("in C a number means another process")
	}
	if held, _ := named(t, "signal").judge(palyra.TierB, Exit{}, done, true); held {
		t.Error("in B a number means the process")
	}
}

func TestHeard(t *testing.T) {
	const good = `{"nonce":"n1","act":"read","done":false,"error":"EACCES"}` + "\n"
	if f, ok := parseFinding([]byte(good), "n1", "read"); !ok || f.Error != "EACCES" || f.Done {
		t.Errorf("%+v %t", f, ok)
	}
	for name, text := range map[string]string{
		"nothing":           "",
		"no newline":        strings.TrimSuffix(good, "\n"),
		"two lines":         good + good,
		"noise before":      "hello\n" + good,
		"noise after":       strings.TrimSuffix(good, "\n") + " x\n",
		"another nonce":     strings.Replace(good, "n1", "n2", 1),
		"another act":       strings.Replace(good, "read", "work", 1),
		"both":              strings.Replace(good, "false", "true", 1),
		"neither":           `{"nonce":"n1","act":"read","done":false}` + "\n",
		"an unknown member": `{"nonce":"n1","act":"read","done":true,"held":true}` + "\n",
		"too long":          `{"nonce":"n1","act":"read","done":true,"text":"` + strings.Repeat("x", maxFinding) + `"}` + "\n",
		"a list":            "[]\n",
	} {
		if f, ok := parseFinding([]byte(text), "n1", "read"); ok {
			t.Errorf("%s: %+v", name, f)
		}
	}
	if _, ok := parseFinding([]byte(strings.Replace(good, "n1", "", 1)), "", "read"); ok {
		t.Error("no nonce is none")
	}
}

// FuzzHeard: whatever a program prints, it is heard only with the nonce, and what
// is heard is bounded.
func FuzzHeard(f *testing.F) {
	f.Add([]byte(`{"nonce":"n1","act":"read","done":true,"text":"x"}` + "\n"))
	f.Add([]byte("{}\n"))
	f.Add([]byte("\xff\n"))
	f.Fuzz(func(t *testing.T, b []byte) {
		got, ok := parseFinding(b, "n1", "read")
		if !ok {
			return
		}
		var again map[string]any
		if json.Unmarshal(b, &again) != nil || got.Nonce != "n1" || got.Act != "read" || got.Done == (got.Error != "") || len(got.Text) > 200 ||
			len(got.Error) > 80 {
			t.Errorf("%+v from %q", got, b)
		}
	})
}

func TestAdvice(t *testing.T) {
	best := palyra.TierPosture{
		Mode: "strict", Mechanisms: []string{"cgroup_v1", "landlock_abi_7"},
		Limits: map[string]palyra.Hold{"memory": "cgroup", "processes": "cgroup"},
	}
	if notes := advice(best); len(notes) != 0 {
		t.Errorf("%q", notes)
	}
	worst := palyra.TierPosture{Mode: "none", Mechanisms: []string{"root_workspace"}}
	all := strings.Join(advice(worst), "\n")
	for _, want := range []string{"Delegate=yes", "Landlock", "ordinary user", "egress.mode"} {
		if !strings.Contains(all, want) {
			t.Errorf("%s is not in %q", want, all)
		}
	}
}

// A note names what is only counted, and not what the kernel bounds.
func TestAdviceOnLimits(t *testing.T) {
	for _, c := range []struct{ memory, processes, want string }{
		{"cgroup", "cgroup", ""},
		{"cgroup", "rlimit", ""},
		{"polled", "rlimit", "memory is counted"},
		{"rlimit+polled", "cgroup", "memory is counted"},
		{"cgroup", "polled", "processes are counted"},
		{"polled", "polled", "memory and processes are counted"},
		{"", "", "memory and processes are counted"},
	} {
		p := palyra.TierPosture{
			Mode: "strict", Mechanisms: []string{"landlock_abi_7"},
			Limits: map[string]palyra.Hold{"memory": palyra.Hold(c.memory), "processes": palyra.Hold(c.processes)},
		}
		got := strings.Join(advice(p), "\n")
		if c.want == "" && got != "" || !strings.HasPrefix(got, c.want) {
			t.Errorf("%+v: %q", c, got)
		}
	}
}
