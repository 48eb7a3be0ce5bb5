package cell

import (
	"math"
	"reflect"
	"slices"
	"strconv"
	"strings"
	"testing"
)

// good is a Spec with everything in it.
func good() Spec {
	return Spec{
		Version: Version, Path: "/bin/true", Argv: []string{"true", ""}, Env: []string{"A=1"}, Cwd: "/",
		Identity: &Identity{UID: 1000, GID: 1000}, Terminal: true, Rlimits: []Rlimit{{Resource: 7, Value: math.MaxUint64}}, Nice: 5,
		Landlock: Landlock{FS: 1<<16 - 1, Net: 3, Scoped: 3, Rules: []Rule{
			{Path: "/usr", Access: 13},
			{Path: "/opt", Access: 13, Optional: true},
		}},
		Filter: []byte{6, 0, 0, 0, 0, 0, 0xff, 0x7f},
		Watch: Watch{
			EveryMS: 50, Memory: 1 << 30, Processes: 64, CPUMS: 1000, Ceiling: 80, Disk: 1 << 30, Disks: []string{"/w"},
			Counters: Counters{OOM: "/sys/fs/cgroup/x/memory.events"},
		},
	}
}

func TestDecodeSpec(t *testing.T) {
	want := good()
	b := encodeSpec(&want)
	got, err := DecodeSpec(b)
	if err != nil || !reflect.DeepEqual(got, want) {
		t.Errorf("%+v, %v", got, err)
	}
	for n := range b {
		if s, err := DecodeSpec(b[:n]); err == nil {
			t.Errorf("the first %d bytes: %+v", n, s)
		}
	}
	later := want
	later.Version++
	for name, text := range map[string]string{
		"JSON": "{}", "two": string(b) + string(b), "a byte behind it": string(b) + "\x00",
		"another version": string(encodeSpec(&later)), "too much": string(b) + strings.Repeat("\x00", MaxSpec),
		"a length that overflows": string(b[:1]) + strings.Repeat("\xff", 9) + "\x01",
	} {
		if s, err := DecodeSpec([]byte(text)); err == nil {
			t.Errorf("%s: %+v", name, s)
		}
	}
}

// Every field of a Spec travels: one that is forgotten in the walk would silently
// not be applied.
func TestEveryFieldTravels(t *testing.T) {
	var want, got Spec
	fill(reflect.ValueOf(&want).Elem(), 1)
	want.Version = Version
	c := coder{reading: true, in: encodeSpec(&want)}
	c.spec(&got)
	if c.err != nil || len(c.in) != 0 || !reflect.DeepEqual(got, want) {
		t.Errorf("%+v, want %+v, %v", got, want, c.err)
	}
}

// fill puts something other than zero into everything below v.
func fill(v reflect.Value, n int64) int64 {
	switch v.Kind() {
	case reflect.Struct:
		for i := range v.NumField() {
			n = fill(v.Field(i), n)
		}
	case reflect.Pointer:
		v.Set(reflect.New(v.Type().Elem()))
		n = fill(v.Elem(), n)
	case reflect.Slice:
		v.Set(reflect.MakeSlice(v.Type(), 2, 2))
		n = fill(v.Index(1), fill(v.Index(0), n))
	case reflect.String:
		v.SetString(strconv.FormatInt(n, 10))
	case reflect.Bool:
		v.SetBool(true)
	case reflect.Uint8, reflect.Uint16, reflect.Uint64:
		v.SetUint(uint64(n))
	default:
		v.SetInt(-n)
	}
	return n + 1
}

// A Spec that would make a weaker room, or that the kernel would read otherwise
// than it was meant, is refused before anything is tried.
func TestCheck(t *testing.T) {
	for name, change := range map[string]func(*Spec){
		"another version":       func(s *Spec) { s.Version++ },
		"no version":            func(s *Spec) { s.Version = 0 },
		"a relative path":       func(s *Spec) { s.Path = "true" },
		"no path":               func(s *Spec) { s.Path = "" },
		"a relative cwd":        func(s *Spec) { s.Cwd = "." },
		"no argv":               func(s *Spec) { s.Argv = nil },
		"a zero in argv":        func(s *Spec) { s.Argv[1] = "a\x00b" },
		"a zero in env":         func(s *Spec) { s.Env[0] = "A=\x00" },
		"a zero in path":        func(s *Spec) { s.Path = "/bin/true\x00" },
		"a zero in cwd":         func(s *Spec) { s.Cwd = "/\x00" },
		"no filter":             func(s *Spec) { s.Filter = nil },
		"half an instruction":   func(s *Spec) { s.Filter = s.Filter[:4] },
		"too long a filter":     func(s *Spec) { s.Filter = make([]byte, maxFilter+filterSize) },
		"too many rlimits":      func(s *Spec) { s.Rlimits = make([]Rlimit, maxRlimits+1) },
		"no landlock":           func(s *Spec) { s.Landlock = Landlock{} },
		"a relative rule":       func(s *Spec) { s.Landlock.Rules[0].Path = "usr" },
		"a rule with a zero":    func(s *Spec) { s.Landlock.Rules[0].Path = "/usr\x00" },
		"too many rules":        func(s *Spec) { s.Landlock.Rules = make([]Rule, maxRules+1) },
		"no uid":                func(s *Spec) { s.Identity.UID = -1 },
		"the kernel's no uid":   func(s *Spec) { s.Identity.UID = math.MaxUint32 },
		"the kernel's no gid":   func(s *Spec) { s.Identity.GID = math.MaxUint32 },
		"a uid that overflows":  func(s *Spec) { s.Identity.UID = 1 << 32 },
		"a negative step":       func(s *Spec) { s.Watch.EveryMS = -1 },
		"a step of a day":       func(s *Spec) { s.Watch.EveryMS = 86_400_000 },
		"a negative ceiling":    func(s *Spec) { s.Watch.Ceiling = -1 },
		"negative memory":       func(s *Spec) { s.Watch.Memory = -1 },
		"a negative disk":       func(s *Spec) { s.Watch.Disk = -1 },
		"a relative disk":       func(s *Spec) { s.Watch.Disks = []string{"w"} },
		"too many disks":        func(s *Spec) { s.Watch.Disks = slices.Repeat([]string{"/w"}, maxDisks+1) },
		"a counter with a zero": func(s *Spec) { s.Watch.Counters.PidsMax = "/x\x00" },
		"a relative counter":    func(s *Spec) { s.Watch.Counters.CPUNanos = "x" },
	} {
		s := good()
		change(&s)
		if err := s.Check(); err == nil {
			t.Errorf("%s passes", name)
		}
	}
	s := good()
	s.Path, s.Sealed, s.Identity, s.Watch.EveryMS = "", true, nil, 0
	if err := s.Check(); err != nil {
		t.Errorf("a sealed one: %v", err)
	}
}

// Whatever is decoded passes its own check, means the same when sent on, and is
// not larger than what came.
func FuzzSpec(f *testing.F) {
	s := good()
	f.Add(encodeSpec(&s))
	f.Add(encodeSpec(&Spec{Version: Version, Sealed: true, Argv: []string{"x"}, Cwd: "/", Landlock: Landlock{FS: 1}, Filter: make([]byte, 8)}))
	f.Add([]byte{2, 0xff, 0xff, 0xff, 0xff, 0x0f})
	f.Fuzz(func(t *testing.T, b []byte) {
		s, err := DecodeSpec(b)
		if err != nil {
			return
		}
		if s.Version != Version || s.Landlock.FS == 0 || len(s.Filter) == 0 || len(s.Argv) == 0 {
			t.Fatalf("%q passed", b)
		}
		back, err := DecodeSpec(encodeSpec(&s))
		if err != nil || !reflect.DeepEqual(back, s) {
			t.Fatalf("%+v became %+v, %v", s, back, err)
		}
		if len(s.Argv)+len(s.Env)+len(s.Landlock.Rules)+len(s.Rlimits)+len(s.Filter) > len(b) {
			t.Fatalf("%d bytes became %+v", len(b), s)
		}
	})
}

// fullOrder and fullReport have something in every field.
func fullOrder() (o Order) {
	fill(reflect.ValueOf(&o).Elem(), 1)
	return o
}

func fullReport() (r Report) {
	fill(reflect.ValueOf(&r).Elem(), 1)
	return r
}

// Every field of a packet travels, and only whole packets of this version and of the right end are taken.
func TestPackets(t *testing.T) {
	for name, c := range map[string]struct {
		v     any
		empty func() any
		other any
	}{
		"order":  {fullOrder(), func() any { return new(Order) }, new(Report)},
		"report": {fullReport(), func() any { return new(Report) }, new(Order)},
	} {
		b, err := encode(c.v)
		if err != nil {
			t.Fatal(err)
		}
		got := c.empty()
		if err := decode(b, got); err != nil || !reflect.DeepEqual(reflect.ValueOf(got).Elem().Interface(), c.v) {
			t.Errorf("%s: %+v, want %+v, %v", name, got, c.v, err)
		}
		if decode(b, c.other) == nil {
			t.Errorf("%s: taken for the other end's", name)
		}
		for n := range b {
			if decode(b[:n], c.empty()) == nil {
				t.Errorf("%s: its first %d bytes are taken", name, n)
			}
		}
		later := append([]byte{b[0] + 2}, b[1:]...) // numbers of either sign are doubled
		if decode(later, c.empty()) == nil || decode(append(b, 0), c.empty()) == nil {
			t.Errorf("%s: another version, or a byte more, is taken", name)
		}
	}
	if _, err := encode(struct{}{}); err == nil {
		t.Error("anything is a packet")
	}
	wide := coder{out: nil}
	rows := uint64(70_000)
	wide.uint64(&rows)
	narrow := coder{reading: true, in: wide.out}
	var got uint16
	if narrow.uint16(&got); narrow.err == nil {
		t.Errorf("%d rows", got)
	}
}

func FuzzOrder(f *testing.F) {
	for _, o := range []Order{{}, {Kind: OrderStop, Reason: "x", GraceMS: 5}, fullOrder()} {
		b, _ := encode(o)
		f.Add(b)
	}
	f.Fuzz(again[Order])
}

func FuzzReport(f *testing.F) {
	for _, r := range []Report{{}, {Kind: ReportReady, Version: 1, Launcher: 2}, fullReport()} {
		b, _ := encode(r)
		f.Add(b)
	}
	f.Fuzz(again[Report])
}

// again expects that what is taken means the same when it is sent on, and is not larger than what came.
func again[T any](t *testing.T, b []byte) {
	var v, back T
	if decode(b, &v) != nil {
		return
	}
	second, err := encode(v)
	if err == nil {
		err = decode(second, &back)
	}
	if err != nil || !reflect.DeepEqual(v, back) || len(second) > len(b) {
		t.Fatalf("%+v became %+v, %v", v, back, err)
	}
}
