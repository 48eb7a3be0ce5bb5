package sandboxtest

import (
	"strconv"
	"strings"
	"testing"

	"palyra"
)

// floods: what the kernel counts for a user, or for the whole machine, cannot be used up from inside, and what a
// run writes to places of its own ends at their size.
func floods(t *testing.T, b *bench) {
	ticks := b.ticker(t)
	for _, h := range hoards {
		t.Run(h.kind, func(t *testing.T) { b.hoarded(t, h) })
	}
	for _, f := range fills {
		t.Run(f.name, func(t *testing.T) { b.filled(t, f) })
	}
	ticks.steady(t)
}

// hoarding is something that a program takes as much of as it can.
type hoarding struct {
	kind string
	most int
}

var hoards = []hoarding{
	{"inotify", 1000},
	{"watches", 200_000},
	{"pipes", 1000},
	{"queues", 1000},
	{"signals", 200_000},
	{"timers", 2000},
	{"ptys", 1000},
	{"locked", 1000},
	{"epolls", 1000},
	{"files", 100_000},
}

// hoarded: while a run holds all it could get, its owner outside still gets some.
func (b *bench) hoarded(t *testing.T, h hoarding) {
	op := "one " + h.kind
	free := b.outsideAs(t, b.who, []string{op})[0]
	if free.Errno != "" {
		t.Logf("UNPROVEN HERE: the owner cannot have any outside: %s", free.Error)
		return
	}
	b.dir(t, b.ws+"/"+h.kind)
	p := b.start(t, order{argv: []string{b.probe, "hoard", h.kind, strconv.Itoa(h.most)}, cwd: "/" + h.kind})
	p.ready(t)
	said, _, _ := strings.Cut(p.out.String(), "\n")
	t.Log(said)
	v := b.outsideAs(t, b.who, []string{op})[0]
	p.Stop("enough", 0)
	e := p.wait(t)
	if b.lacks(t, "leave the owner "+h.kind) {
		if v.Errno == "" && b.who.uid != 0 { // root is never refused
			t.Errorf("the tier is said to lack this, but the owner had some: %s", said)
		}
	} else if v.Errno != "" {
		t.Errorf("the run %s, and its owner outside gets none: %s", said, v.Error)
	}
	if e.Stopped != "enough" {
		t.Errorf("stopped %q, limit %q, signal %q", e.Stopped, e.Limit, e.Signal)
	}
	if v := b.outsideAs(t, b.who, []string{op})[0]; v.Errno != "" {
		t.Errorf("it was not given back: %s", v.Error)
	}
}

// fill is a program that fills a place.
type fill struct {
	name  string
	argv  string // with DIR, and MOST, which is more than there may be
	dirs  []string
	lower func(*palyra.Limits)
}

var fills = []fill{
	{"files in a temporary directory", "fillfs DIR MOST", []string{"$TMPDIR", "$HOME", "/dev/shm", "/run"}, nil},
	{"names in a temporary directory", "fillinodes DIR 100000", []string{"$TMPDIR", "/dev/shm"}, memory64},
	{"attributes in a temporary directory", "fillattributes DIR 128", []string{"$TMPDIR", "$HOME"}, memory64},
}

// filled: a run's own places are memory, so they end at their size or at the run's memory.
func (b *bench) filled(t *testing.T, f fill) {
	if b.lacks(t, ownFiles) {
		return // its places are the host's; a run's disk is not bounded, which the tier's Limits say
	}
	l := roomy
	if f.lower != nil {
		f.lower(&l)
	}
	dirs := f.dirs
	if f.lower != nil && !b.thorough(t) {
		dirs = dirs[:1]
	}
	for _, dir := range dirs {
		most := strconv.FormatInt(3*b.Tmp>>20, 10)
		argv := strings.Fields(strings.NewReplacer("DIR", dir, "MOST", most).Replace(f.argv))
		e := b.enough(t, b.start(t, order{argv: append([]string{b.probe}, argv...), limits: l}), bomb{name: "memory in " + f.name})
		if e.Stopped != "" || (e.Code == 0 && e.Limit == "") {
			t.Errorf("%s: nothing stopped it: stopped %q, code %d, limit %q", dir, e.Stopped, e.Code, e.Limit)
			continue
		}
		if n := refusedAfter(e.stderr); f.lower == nil && n > b.Tmp>>20 {
			t.Errorf("%s: it wrote %d MiB of %d: %s", dir, n, b.Tmp>>20, clip(e.stderr))
		}
	}
}

// refusedAfter is the count in "probe: refused after 31: no space left".
func refusedAfter(text string) int64 {
	_, rest, _ := strings.Cut(text, "refused after ")
	count, _, _ := strings.Cut(rest, ":")
	n, _ := strconv.ParseInt(count, 10, 64)
	return n
}
