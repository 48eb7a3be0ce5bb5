package sandboxtest

import (
	"os"
	"os/exec"
	"strings"
	"testing"
	"time"

	"palyra/internal/sandbox"
)

// Factory is a tier to hold to the suite.
type Factory struct {
	// Open returns the backend of a daemon whose state has this id. The suite
	// closes it; opened again with the same id it is the daemon's next life.
	Open func(t *testing.T, state string) sandbox.Backend
	// Lacks are denials that the tier does not give, with the reason.
	Lacks map[string]string
	// Namespaces says that programs have a network and IPC of their own: they may
	// make internet sockets and shared memory, which reach nothing of the host.
	Namespaces bool
}

// classes are the parts of the suite, in order of cost.
var classes = []struct {
	name string
	run  func(*testing.T, *bench)
}{
	{"identity", identity},
	{"descriptors", descriptors},
	{"environment", environment},
	{"files", files},
	{"links", links},
	{"devices", devices},
	{"sockets", sockets},
	{"processes", processes},
	{"signals", signals},
	{"system calls", systemCalls},
	{"foreign ABIs", foreignABIs},
	{"setuid programs", setuidPrograms},
	{"IPC", sharedMemory},
	{"other runs", otherRuns},
	{"everyday work", everydayWork},
	{"failures", failures},
	{"limits", limits},
	{"survivors", survivors},
	{"death of the daemon", daemonDeath},
	{"runner", throughRunner},
}

// Run runs the suite.
func Run(t *testing.T, f Factory) {
	if playDaemon(t, f) {
		return
	}
	probe := Build(t, "palyra/internal/sandbox/sandboxtest/probe")
	if os.Geteuid() != 0 {
		t.Run("as a user", func(t *testing.T) { runClasses(t, f, probe, self()) })
		return
	}
	user := ordinary(t)
	t.Run("root for a user", func(t *testing.T) { runClasses(t, f, probe, user) })
	t.Run("root for root", func(t *testing.T) { runClasses(t, f, probe, self()) })
	t.Run("as a user", func(t *testing.T) { again(t, probe, user) })
}

func runClasses(t *testing.T, f Factory, probe string, who person) {
	for _, c := range classes {
		t.Run(c.name, func(t *testing.T) { c.run(t, newBench(t, f, probe, who)) })
	}
}

// again runs this test in a new process as somebody else.
func again(t *testing.T, probe string, who person) {
	dir := passable(t)
	binary := dir + "/test"
	copyFile(t, "/proc/self/exe", binary, 0o755)
	top, _, _ := strings.Cut(t.Name(), "/")
	cmd := exec.CommandContext(t.Context(), binary, "-test.run=^"+top+"$", "-test.v", "-test.count=1", "-test.timeout=10m")
	cmd.Dir = dir
	cmd.Env = append(os.Environ(), builtVar+"="+builtDir(), "HOME="+who.home, "TMPDIR=")
	cmd.SysProcAttr = who.credential()
	cmd.WaitDelay = 10 * time.Second
	out, err := cmd.CombinedOutput()
	text := string(out)
	if err != nil || !strings.Contains(text, "--- PASS: "+t.Name()) {
		t.Errorf("%v\n%s", err, text)
		return
	}
	for line := range strings.Lines(text) {
		if strings.Contains(line, "UNPROVEN HERE") || strings.Contains(line, "lacks") || strings.Contains(line, "longest gap") {
			t.Log(strings.TrimSpace(line))
		}
	}
}
