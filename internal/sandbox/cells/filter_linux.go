package cells

import (
	"encoding/binary"
	"fmt"
	"maps"
	"slices"

	seccomp "github.com/elastic/go-seccomp-bpf"
	"github.com/elastic/go-seccomp-bpf/arch"
	"golang.org/x/net/bpf"
	"golang.org/x/sys/unix"
)

// Offsets in struct seccomp_data.
const (
	numberAt = 0
	archAt   = 4
	argsAt   = 16
)

// x32Bit is set in numbers of the x32 ABI, which shares its architecture with amd64.
const x32Bit = 0x40000000

// The answers of the filter.
var (
	answerAllow = uint32(seccomp.ActionAllow)
	answerKill  = uint32(seccomp.ActionKillProcess)
	answerPerm  = uint32(seccomp.ActionErrno) | uint32(unix.EPERM)
	answerNoSys = uint32(seccomp.ActionErrno) | uint32(unix.ENOSYS)
	answerNoSup = uint32(seccomp.ActionErrno) | uint32(unix.EOPNOTSUPP)
	answerDone  = uint32(seccomp.ActionErrno) // nothing is done, and the caller is told that it was
)

// argCheck is a check of one argument of a call. A call is refused at the first guard it does not
// pass, allowed at the first it passes that is enough, and allowed after the last.
type argCheck struct {
	arg    int
	mask   uint32   // bits that are compared; 0: all
	oneOf  []uint32 // passes if it is one of these
	noneOf []uint32 // passes if it is none of these
	null   bool     // passes if all 64 bits are zero
	enough bool
	done   bool // refuses by reporting success without doing anything
}

// answer is what the filter does with a call: a constant, or guards, or guards that depend on a first check.
type answer struct {
	is     uint32
	guards []argCheck
	cases  []branch
}

// branch applies to calls that pass its guard; its own guards alone decide those. A call without a
// branch is refused.
type branch struct {
	when   argCheck
	guards []argCheck
}

func (a answer) constant() bool { return a.guards == nil && a.cases == nil }

// Subject is what a filter depends on besides the architecture.
type Subject struct {
	Owner, Group uint32 // the program's uid and gid, as it sees itself
	Polled       bool   // only polling bounds its memory
	Room         bool   // it has file systems, a network and objects of its own
	Unix         bool   // it may use sockets of the file system
	Watch        bool   // its room bounds file watching, so it may watch
	abi          int    // Landlock's
}

// filter assembles the program for an architecture.
func filter(a *arch.Info, s Subject) ([]bpf.Instruction, error) {
	if len(a.SyscallNames) == 0 {
		return nil, fmt.Errorf("cells: filter: no list of system calls for %s", a.Name)
	}
	return checked(a, search(spans(answers(a, s)))), nil
}

// checked puts the check of the architecture before a program.
func checked(a *arch.Info, tree []bpf.Instruction) []bpf.Instruction {
	prog := []bpf.Instruction{
		bpf.LoadAbsolute{Off: archAt, Size: 4},
		bpf.JumpIf{Cond: bpf.JumpEqual, Val: uint32(a.ID), SkipTrue: 1},
		bpf.RetConstant{Val: answerKill},
		bpf.LoadAbsolute{Off: numberAt, Size: 4},
	}
	if a.ID == arch.X86_64.ID {
		prog = append(prog, bpf.JumpIf{Cond: bpf.JumpBitsNotSet, Val: x32Bit, SkipTrue: 1}, bpf.RetConstant{Val: answerKill})
	}
	return append(prog, tree...)
}

// answers is the answer for each number; a missing number does not exist.
func answers(a *arch.Info, s Subject) map[uint32]answer {
	out := map[uint32]answer{}
	put := func(names []string, is uint32) {
		for _, n := range names {
			if nr, ok := a.SyscallNames[n]; ok {
				out[uint32(nr)] = answer{is: is}
			}
		}
	}
	put(allowed, answerAllow)
	put(truncates, answerAllow)
	if s.abi < landlockTruncate {
		put(truncates, answerPerm)
	}
	put(unmapped, answerAllow)
	if s.Polled {
		put(unmapped, answerNoSys)
	}
	put(refused, answerPerm)
	put(unsupportedCalls, answerNoSup)
	put(absent, answerNoSys)
	for name, gs := range guarded(s.Owner, s.Group) {
		if nr, ok := a.SyscallNames[name]; ok {
			out[uint32(nr)] = answer{guards: gs}
		}
	}
	if s.Room {
		s.own(a, out, put)
	}
	return out
}

// own opens the calls that are harmless in a room.
func (s Subject) own(a *arch.Info, out map[uint32]answer, put func([]string, uint32)) {
	put(roomCalls, answerAllow)
	if s.Watch {
		put(watchCalls, answerAllow)
	}
	if s.Polled {
		put(roomAttributes, answerNoSup)
	} else {
		put(roomAttributes, answerAllow)
		put(roomMemory, answerAllow)
	}
	out[uint32(a.SyscallNames["socket"])] = answer{cases: sockets(s.Unix)}
	if s.Unix {
		out[uint32(a.SyscallNames["socketpair"])] = answer{guards: []argCheck{{arg: 0, oneOf: []uint32{unix.AF_UNIX}}}}
	}
}

// span is a range of numbers with the same answer, up to the next span's start.
type span struct {
	from uint32
	answer
}

func spans(all map[uint32]answer) []span {
	out := []span{{0, answer{is: answerNoSys}}}
	add := func(nr uint32, a answer) {
		last := &out[len(out)-1]
		switch {
		case a.constant() && last.constant() && a.is == last.is:
		case last.from == nr:
			last.answer = a
		default:
			out = append(out, span{nr, a})
		}
	}
	next := uint32(0)
	for _, nr := range slices.Sorted(maps.Keys(all)) {
		if nr > next {
			add(next, answer{is: answerNoSys})
		}
		add(nr, all[nr])
		next = nr + 1
	}
	add(next, answer{is: answerNoSys})
	return out
}

// search emits a binary search, so that no call costs more than a few comparisons; the kernel
// caches constant answers anyway.
func search(ss []span) []bpf.Instruction {
	if len(ss) == 1 {
		return leaf(ss[0].answer)
	}
	mid := len(ss) / 2
	low, high := search(ss[:mid]), search(ss[mid:])
	var prog []bpf.Instruction
	if len(low) <= 255 {
		prog = append(prog, bpf.JumpIf{Cond: bpf.JumpGreaterOrEqual, Val: ss[mid].from, SkipTrue: uint8(len(low))})
	} else { // too far for a conditional jump
		prog = append(prog, bpf.JumpIf{Cond: bpf.JumpLessThan, Val: ss[mid].from, SkipTrue: 1}, bpf.Jump{Skip: uint32(len(low))})
	}
	return append(append(prog, low...), high...)
}

func leaf(a answer) []bpf.Instruction {
	if a.constant() {
		return []bpf.Instruction{bpf.RetConstant{Val: a.is}}
	}
	if a.cases == nil {
		return passing(a.guards)
	}
	rest := []bpf.Instruction{bpf.RetConstant{Val: answerPerm}}
	for _, b := range slices.Backward(a.cases) {
		rest = b.when.code(passing(b.guards), rest)
	}
	return rest
}

// passing emits guards one after the other.
func passing(guards []argCheck) []bpf.Instruction {
	rest := []bpf.Instruction{bpf.RetConstant{Val: answerAllow}}
	for _, g := range slices.Backward(guards) {
		switch {
		case g.enough:
			rest = g.code([]bpf.Instruction{bpf.RetConstant{Val: answerAllow}}, rest)
		case g.done:
			rest = g.code(rest, []bpf.Instruction{bpf.RetConstant{Val: answerDone}})
		default:
			rest = g.code(rest, []bpf.Instruction{bpf.RetConstant{Val: answerPerm}})
		}
	}
	return rest
}

// code emits the guard with the continuations for passing and failing.
func (g argCheck) code(pass, fail []bpf.Instruction) []bpf.Instruction {
	low := uint32(argsAt + 8*g.arg) // both architectures are little-endian
	if g.null {
		skip := uint8(len(pass))
		return slices.Concat([]bpf.Instruction{
			bpf.LoadAbsolute{Off: low, Size: 4},
			bpf.JumpIf{Cond: bpf.JumpNotEqual, Val: 0, SkipTrue: skip + 2},
			bpf.LoadAbsolute{Off: low + 4, Size: 4},
			bpf.JumpIf{Cond: bpf.JumpNotEqual, Val: 0, SkipTrue: skip},
		}, pass, fail)
	}
	prog := []bpf.Instruction{bpf.LoadAbsolute{Off: low, Size: 4}}
	if g.mask != 0 {
		prog = append(prog, bpf.ALUOpConstant{Op: bpf.ALUOpAnd, Val: g.mask})
	}
	values, near, far := g.oneOf, fail, pass
	if len(g.noneOf) > 0 {
		values, near, far = g.noneOf, pass, fail
	}
	for i, v := range values {
		prog = append(prog, bpf.JumpIf{Cond: bpf.JumpEqual, Val: v, SkipTrue: uint8(len(values) - 1 - i + len(near))})
	}
	return slices.Concat(prog, near, far)
}

// raw is the program in the kernel's form: an array of struct sock_filter.
func raw(prog []bpf.Instruction) ([]byte, error) {
	ins, err := bpf.Assemble(prog)
	if err != nil {
		return nil, fmt.Errorf("cells: filter: %w", err)
	}
	if len(ins) > unix.BPF_MAXINSNS {
		return nil, fmt.Errorf("cells: filter: %d instructions, the kernel takes %d", len(ins), unix.BPF_MAXINSNS)
	}
	var out []byte
	for _, i := range ins {
		out = binary.NativeEndian.AppendUint16(out, i.Op)
		out = append(out, i.Jt, i.Jf)
		out = binary.NativeEndian.AppendUint32(out, i.K)
	}
	return out, nil
}
