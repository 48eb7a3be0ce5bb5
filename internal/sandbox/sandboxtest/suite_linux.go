package sandboxtest

import (
	"os"
	"os/exec"
	"strings"
	"testing"
	"time"

	"palyra/internal/sandbox"
)

// Factory is a tier to be tested by the suite.
type Factory struct {
	// Open returns the backend of a daemon whose state has this id. The suite
	// closes it; opened again with the same id it is the daemon's next life.
	Open func(t *testing.T, state string) sandbox.Backend
	// Lacks are denials, bounds and work that the tier does not give, with the
	// reason: whole features (see lacks_linux.go) or single rows by their names.
	Lacks map[string]string
	// Tmp is how many bytes the backend gives to each of a run's own file systems, where it has any.
	Tmp int64
	// Seals are the names that the backend is told to keep.
	Seals []string
	// Guard returns a strict guard that asks this resolver, for which every name is 127.0.0.1, and
	// may connect there. It is required where the tier has a network.
	Guard func(t *testing.T, resolver string) sandbox.EgressGuard

	ledger *ledger
	hasty  bool // nothing is done thoroughly
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
	{"local places", localPlaces},
	{"room", room},
	{"links", links},
	{"devices", devices},
	{"sockets", sockets},
	{"network", network},
	{"egress", egress},
	{"processes", processes},
	{"signals", signals},
	{"system calls", systemCalls},
	{"foreign ABIs", foreignABIs},
	{"setuid programs", setuidPrograms},
	{"IPC", sharedMemory},
	{"keyrings", keyrings},
	{"seals", seals},
	{"trusted later", trustedLater},
	{"other runs", otherRuns},
	{"everyday work", everydayWork},
	{"failures", failures},
	{"limits", limits},
	{"floods", floods},
	{"survivors", survivors},
	{"death of the daemon", daemonDeath},
	{"runner", throughRunner},
}

// Run runs the suite.
func Run(t *testing.T, f Factory) {
	f.ledger = &ledger{}
	if playDaemon(t, f) {
		return
	}
	probe := Build(t, "palyra/internal/sandbox/sandboxtest/probe")
	seedCache(t, probe)
	if os.Geteuid() != 0 {
		t.Run("as a user", func(t *testing.T) { runClasses(t, f, probe, self()) })
		return
	}
	user := ordinary(t)
	Build(t, "palyra/cmd/palyra-cell") // now: an ordinary user cannot
	cable(t, probe)
	plantLocal(t, user)
	whole := t.Run("root for a user", func(t *testing.T) { runClasses(t, f, probe, user) })
	whole = t.Run("root for root", func(t *testing.T) { runClasses(t, f, probe, self()) }) && whole
	whole = t.Run("as a user", func(t *testing.T) { again(t, f, probe, user) }) && whole
	if whole && everything() {
		f.ledger.complete(t, f.Lacks)
	}
}

// everything reports whether no part was left out on the command line.
func everything() bool {
	for _, arg := range os.Args {
		if strings.HasPrefix(arg, "-test.run") || strings.HasPrefix(arg, "-test.skip") {
			_, pattern, _ := strings.Cut(arg, "=")
			return !strings.Contains(pattern, "/")
		}
	}
	return true
}

func runClasses(t *testing.T, f Factory, probe string, who person) {
	for _, c := range classes {
		t.Run(c.name, func(t *testing.T) { c.run(t, newBench(t, f, probe, who)) })
	}
}

// again runs this test in a new process as somebody else.
func again(t *testing.T, f Factory, probe string, who person) {
	dir := passable(t)
	binary := dir + "/test"
	copyFile(t, "/proc/self/exe", binary, 0o755)
	cmd := exec.CommandContext(t.Context(), binary, "-test.run="+sameParts(t), "-test.v", "-test.count=1", "-test.timeout=10m")
	cmd.Dir = dir
	cmd.Env = append(os.Environ(), builtVar+"="+builtDir(), "HOME="+who.home, "TMPDIR=")
	cmd.SysProcAttr = who.credential()
	cmd.WaitDelay = 10 * time.Second
	out, err := cmd.CombinedOutput()
	text := string(out)
	f.ledger.read(text)
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

// sameParts is the pattern of the command line, for this test.
func sameParts(t *testing.T) string {
	top, _, _ := strings.Cut(t.Name(), "/")
	for _, arg := range os.Args {
		if pattern, ok := strings.CutPrefix(arg, "-test.run="); ok {
			if _, rest, parts := strings.Cut(pattern, "/"); parts {
				return "^" + top + "$/" + rest
			}
		}
	}
	return "^" + top + "$"
}
