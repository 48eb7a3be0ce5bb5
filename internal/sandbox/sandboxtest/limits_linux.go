package sandboxtest

import (
	"os"
	"strconv"
	"strings"
	"testing"
	"time"

	"palyra"
)

// bomb is a program that takes more than it may.
type bomb struct {
	name    string
	argv    string // "probe" is the probe
	lower   func(*palyra.Limits)
	limit   string // that must be named
	refused bool   // or the program may be told that there is no more, and fail by itself
}

var bombs = []bomb{
	{"processes", "probe forkbomb 10", processes40, "processes", false},
	{"processes that flee", "probe hop 60 4000 stay", processes40, "processes", false},
	{"processes that are dead", "probe zombies 1000", processes40, "processes", false},
	{"threads", "probe threadbomb 1000", processes40, "processes", true},
	{"memory", "probe memory 512", memory64, "memory", false},
	{"memory in children", "probe memorytree 8 32", memory64, "memory", false},
	{"memory that is shared", "probe memoryshared 512", memory64, "memory", false},
	{"memory in files that nobody maps", "probe memoryfile 32 16", memory64, "memory", true},
	{"memory in page tables", "probe memorytables 512", memory64, "memory", true},
	{"memory in sockets", "probe memorysockets 256", memory64, "memory", true},
	{"CPU time", "probe burn 10000", cpu300, "cpu", false},
	{"CPU time of threads", "probe burnthreads 10000", cpu300, "cpu", false},
	{"CPU time of children", "probe burntree 10000", cpu300, "cpu", false},
	{"CPU time of children that nobody waits for", "probe burnunseen 10000", cpu300, "cpu", false},
	{"size of a file", "dd if=/dev/zero of=big bs=64k count=200", func(l *palyra.Limits) { l.FileBytes = 1 << 20 }, "file_size", false},
}

func processes40(l *palyra.Limits) { l.Processes = 40 }

func memory64(l *palyra.Limits) { l.MemoryBytes = 64 << 20 }
func cpu300(l *palyra.Limits)   { l.CPUMS = 300 }

// bombPatience is how long a bomb may go on before it counts as not ended.
const bombPatience = 8 * time.Second

// limits: every bomb is ended by its own limit, which is named, and the host
// does not feel it.
func limits(t *testing.T, b *bench) {
	ticks := b.ticker(t)
	for _, bomb := range bombs {
		t.Run(bomb.name, func(t *testing.T) { b.defuse(t, bomb) })
	}
	ticks.steady(t)
	openFiles(t, b)
	if st, err := os.Stat(b.ws + "/big"); err != nil || st.Size() > 1<<20 {
		t.Errorf("the file that was too big: %v, %v", st, err)
	}
}

func (b *bench) defuse(t *testing.T, bomb bomb) {
	l := roomy
	bomb.lower(&l)
	argv := strings.Fields(bomb.argv)
	if argv[0] == "probe" {
		argv[0] = b.probe
	}
	p := b.start(t, order{argv: argv, limits: l})
	enough := time.AfterFunc(bombPatience, func() { p.Stop("it was not ended", 0) })
	e := p.wait(t)
	enough.Stop()
	held := e.Limit == bomb.limit || (bomb.refused && e.Code != 0)
	if why, lacks := b.lacksBound(bomb, e.Enforcement); lacks {
		t.Logf("the tier lacks a bound of %s: %s", bomb.name, why)
		if held {
			t.Errorf("the tier is said to lack this, but it held: limit %q, code %d", e.Limit, e.Code)
		}
	} else if !held {
		t.Errorf("limit %q, want %q; code %d, signal %q, stopped %q: %s", e.Limit, bomb.limit, e.Code, e.Signal, e.Stopped, clip(e.stderr))
	}
	if e.Code == 0 && e.Signal == "" {
		t.Error("it looks like a success")
	}
	if u := e.Usage; e.Limit == "cpu" && (u.CPUMS < 200 || u.CPUMS > 5000) || e.Limit == "memory" && u.PeakMemory < 16<<20 || e.Limit == "processes" && u.Processes < 15 {
		t.Errorf("usage %+v", u)
	}
	if all := left(t, b.mark); len(all) > 0 {
		t.Errorf("%d left: %s", len(all), clip(strings.Join(all, ", ")))
	}
}

// lacksBound looks a bomb up in the tier's lacks: "bound memory in sockets", or,
// with " where polled" behind it, only where the run's limit was kept by looking.
func (b *bench) lacksBound(bomb bomb, held palyra.Enforcement) (string, bool) {
	if why, lacks := b.Lacks["bound "+bomb.name]; lacks {
		return why, true
	}
	why, lacks := b.Lacks["bound "+bomb.name+" where polled"]
	return why, lacks && strings.Contains(held.Limits[bomb.limit], "polled")
}

func openFiles(t *testing.T, b *bench) {
	t.Helper()
	l := roomy
	l.OpenFiles = 64
	e := b.works(t, order{argv: []string{b.probe, "try", "openmax"}, limits: l})
	v := verdicts(t, e.stdout, 1)[0]
	if n, err := strconv.Atoi(v.Got); err != nil || n > 64 || v.Errno != "EMFILE" {
		t.Errorf("open files: got %q, %s", v.Got, v.Errno)
	}
	if n, err := strconv.Atoi(b.outsideAs(t, self(), []string{"openmax"})[0].Got); err != nil || n <= 64 {
		t.Errorf("control: only %d files can be open outside, %v", n, err)
	}
}
