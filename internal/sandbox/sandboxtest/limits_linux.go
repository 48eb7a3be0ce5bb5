package sandboxtest

import (
	"os"
	"slices"
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
	{"memory in pipes", "probe memorypipes 256", memory64, "memory", true},
	{"memory in segments", "probe memorysegments 256", memory64, "memory", true},
	{"memory in connections", "probe memoryconnections 256", memory64, "memory", true},
	{"CPU time", "probe burn 10000", cpu150, "cpu", false},
	{"CPU time of threads", "probe burnthreads 10000", cpu150, "cpu", false},
	{"CPU time of children", "probe burntree 10000", cpu150, "cpu", false},
	{"CPU time of children that nobody waits for", "probe burnunseen 10000", cpu150, "cpu", false},
	{"bytes on disk", "probe rewrite 512 rewritten", disk32, "disk", false},
	{"bytes on disk by a mapping", "probe rewritemapped 512 rewritten", disk32, "disk", false},
	{"bytes on disk of children", "sh write.sh", disk32, "disk", false},
	{"size of a file", "dd if=/dev/zero of=big bs=64k count=200", func(l *palyra.Limits) { l.FileBytes = 1 << 20 }, "file_size", false},
}

// placesBomb fills the file systems in memory that a run has for itself.
var placesBomb = bomb{"memory in its own places", "probe fillplaces 40 /tmp /home/agent /dev/shm", memory64, "memory", false}

// plainBombs are one for each limit.
var plainBombs = []string{"processes", "memory", "memory in children", "CPU time", "size of a file", "bytes on disk"}

func processes40(l *palyra.Limits) { l.Processes = 40 }

func memory64(l *palyra.Limits) { l.MemoryBytes = 64 << 20 }
func disk32(l *palyra.Limits)   { l.DiskBytes = 32 << 20 }
func cpu150(l *palyra.Limits)   { l.CPUMS = 150 }

// bombPatience is how long a bomb may go on before it counts as not ended, on a busy
// machine; goesOn how long one is watched that the tier may not end at all.
const (
	bombPatience = time.Minute
	goesOn       = 8 * time.Second
)

// limits: every bomb is ended by its own limit, which is named, without disturbing the host.
func limits(t *testing.T, b *bench) {
	ticks := b.ticker(t)
	b.file(t, "write.sh", "for i in 1 2 3 4 5 6 7 8; do for i in 1 2 3 4 5 6 7 8; do head -c 8388608 /dev/zero > rewritten; done; "+
		"done; sleep 60\n")
	for _, bomb := range bombs {
		if b.who.uid == 0 && !unhurried(t) && !slices.Contains(plainBombs, bomb.name) {
			continue // what holds them is the same for every owner of a daemon that is root
		}
		t.Run(bomb.name, func(t *testing.T) { b.defuse(t, bomb) })
	}
	if b.has(t, ownFiles) {
		t.Run("memory in its own places", func(t *testing.T) { b.defuse(t, placesBomb) })
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
	e := b.enough(t, b.start(t, order{argv: argv, limits: l}), bomb)
	held := e.Limit == bomb.limit || (bomb.refused && e.Code != 0)
	if b.lacksBound(t, bomb, e.Enforcement) {
		if held {
			t.Errorf("the tier is said to lack this, but it held: limit %q, code %d", e.Limit, e.Code)
		}
	} else if !held {
		t.Errorf("limit %q, want %q; code %d, signal %q, stopped %q: %s", e.Limit, bomb.limit, e.Code, e.Signal, e.Stopped, clip(e.stderr))
	}
	if e.Code == 0 && e.Signal == "" {
		t.Error("it looks like a success")
	}
	if u := e.Usage; e.Limit == "cpu" && (u.CPUMS < 100 || u.CPUMS > 5000) || e.Limit == "memory" && u.PeakMemory < 16<<20 ||
		e.Limit == "processes" && u.Processes < 15 {
		t.Errorf("usage %+v", u)
	}
	if all := left(t, b.mark); len(all) > 0 {
		t.Errorf("%d left: %s", len(all), clip(strings.Join(all, ", ")))
	}
}

// enough waits for a program that a limit should end. Those that take memory report when they have
// all they want: a polled limit may come a little later.
func (b *bench) enough(t *testing.T, p *running, bomb bomb) ended {
	t.Helper()
	most := bombPatience
	for what := range b.Lacks {
		if strings.HasPrefix(what, "bound "+bomb.name) {
			most = goesOn
		}
	}
	enough := time.AfterFunc(most, func() { p.Stop("it was not ended", 0) })
	defer enough.Stop()
	over := make(chan struct{})
	defer close(over)
	go func() {
		for tick := time.Tick(20 * time.Millisecond); !strings.HasPrefix(bomb.name, "memory") || !strings.Contains(p.out.String(), "ready\n"); {
			select {
			case <-over:
				return
			case <-tick:
			}
		}
		enough.Reset(most / 8)
	}()
	return p.wait(t)
}

// lacksBound looks up a bomb in the tier's lacks: "bound memory in sockets", or, with " where
// polled" or " where cgroup_v1" behind it, only where the run's limit was kept so.
func (b *bench) lacksBound(t *testing.T, bomb bomb, held palyra.Enforcement) bool {
	t.Helper()
	what := "bound " + bomb.name
	polled := strings.Contains(string(held.Limits[bomb.limit]), "polled")
	old := !polled && slices.Contains(held.Mechanisms, "cgroup_v1")
	return b.lacks(t, what) || (polled && b.lacks(t, what+" where polled")) || (old && b.lacks(t, what+" where cgroup_v1"))
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
