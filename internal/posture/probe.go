package posture

import (
	"fmt"
	"slices"
	"strconv"
	"strings"

	"palyra"
)

// Sizes that the limit probes try. The program takes a multiple of what it may.
const (
	fewProcesses = 32
	manyForks    = 400
	littleMemory = 64 // MiB
	muchMemory   = 256
)

// probe is a row of the table: what is tried, and what counts as held.
type probe struct {
	name    string
	tiers   []palyra.Tier // nil: all
	act     []string      // what the program does; a word that begins with $ stands for something planted
	limit   func(*palyra.Limits)
	seals   []string
	network bool

	refusals []string // errors that are a refusal of this
	ended    string   // the limit that the run may also be ended for
	works    bool     // it is to go well, or to be refused where there are refusals
	ownPIDs  bool     // where processes have numbers of their own, it may hit another one than meant
	sees     sense    // how to see from outside that it went well
	remedy   string
}

// sense is a way to look from outside.
type sense int

// The senses.
const (
	blind      sense = iota // there is nothing to see
	byWork                  // the file that was to be written is there
	byMade                  // a file that was made outside
	byTCP                   // a planted listener was connected to
	byUnix                  // a planted socket was
	byAbstract              // one without a name in the file system
	bySignal                // a signal arrived
	bySealed                // a sealed file is not as it was
	byNewSeal               // a sealed name is there that was not, or was not reported
)

// Errors that are refusals.
var (
	noFile   = []string{"EACCES", "EPERM", "ENOENT", "EROFS", "ENOTDIR", "ELOOP"}
	noSocket = []string{
		"EACCES", "EPERM", "EAFNOSUPPORT", "ECONNREFUSED", "ENETUNREACH", "EHOSTUNREACH", "ENOENT", "EADDRNOTAVAIL",
		"ENETDOWN",
	}
	noCall = []string{"EPERM", "EACCES", "ENOSYS"}
)

// filtered is no limit: the filter may end the program instead of refusing.
const filtered = "seccomp"

const (
	reinstall = "a tier that lets this happen must not be used: set process.posture = \"require\", check that palyrad, palyra-cell " +
		"and bwrap are the ones you installed, and report it"
	strictly = "set egress.mode = \"strict\"; where it is, the guard lets through what nobody granted, and tier C must not be used " +
		"with a network: report it"
	delegate = "give the daemon a cgroup of its own to work in: run it as a systemd service with Delegate=yes, or set process.cgroup " +
		"to a directory that it may write"
)

// probes is the table.
func probes() []probe {
	onlyC := []palyra.Tier{palyra.TierC}
	all := []probe{
		{
			name: "workspace", act: []string{"work", "$token", "$result"}, works: true, sees: byWork,
			remedy: "ordinary work does not go in this tier; see the daemon's log",
		},
		{name: "secret", act: []string{"read", "$secret"}, refusals: noFile},
		{name: "symlink_read", act: []string{"read", "$link"}, refusals: noFile},
		{name: "symlink_write", act: []string{"create", "$through"}, refusals: noFile, sees: byMade},
		{name: "outside_write", act: []string{"create", "$outside"}, refusals: noFile, sees: byMade},
		{name: "loopback", act: []string{"connect", "tcp", "$tcp"}, refusals: noSocket, sees: byTCP, network: true},
		{name: "unix_socket", act: []string{"connect", "unix", "$unix"}, refusals: noSocket, sees: byUnix},
		{name: "abstract_socket", act: []string{"connect", "unix", "$abstract"}, refusals: noSocket, sees: byAbstract},
		{name: "signal", act: []string{"signal", "$pid"}, refusals: []string{"EPERM", "ESRCH"}, sees: bySignal, ownPIDs: true},
		{name: "processes_seen", act: []string{"processes", "$pid", "$cmdline"}, refusals: []string{"ESRCH", "EACCES", "EPERM", "ENOENT"}},
		{
			name: "processes", act: []string{"fork", strconv.Itoa(manyForks)}, refusals: []string{"EAGAIN"}, ended: "processes", remedy: delegate,
			limit: func(l *palyra.Limits) { l.Processes = fewProcesses },
		},
		{
			name: "memory", act: []string{"memory", strconv.Itoa(muchMemory)}, refusals: []string{"ENOMEM"}, ended: "memory", remedy: delegate,
			limit: func(l *palyra.Limits) { l.MemoryBytes = littleMemory << 20 },
		},
		{
			name: "sealed_path", tiers: onlyC, act: []string{"unseal", "$sealed"}, seals: sealed(), sees: bySealed,
			refusals: []string{"EROFS", "EACCES", "EPERM", "EBUSY", "EXDEV"},
		},
		{
			name: "new_sealed_path", tiers: onlyC, act: []string{"create", "$newseal"}, seals: sealed(), sees: byNewSeal, works: true,
			refusals: noFile,
		},
		{
			name: "egress", tiers: onlyC, act: []string{"egress", "$port", "$hosts", "$word"}, refusals: noSocket, sees: byTCP, network: true,
			remedy: strictly,
		},
	}
	for _, name := range []string{"ptrace", "mount", "unshare", "keyctl", "bpf", "io_uring_setup", "userfaultfd", "perf_event_open"} {
		all = append(all, probe{name: "syscall_" + name, act: []string{"syscall", name}, refusals: noCall, ended: filtered})
	}
	for i := range all {
		if all[i].remedy == "" {
			all[i].remedy = reinstall
		}
	}
	return all
}

// sealed are the names that the seal probes go for.
func sealed() []string { return []string{".git/config", ".envrc"} }

// judge judges the program's finding. Effects that are seen outside are judged elsewhere and can only make it
// worse.
func (p probe) judge(tier palyra.Tier, x Exit, f finding, said bool) (held bool, detail string) {
	switch {
	case !said:
		return p.judgeSilence(x)
	case f.Done && p.works:
		return true, "it works"
	case f.Done && p.ownPIDs && tier == palyra.TierC:
		return true, "it met a process of the run's own"
	case f.Done:
		return false, "it worked" + inParentheses(f.Text)
	case !slices.Contains(p.refusals, f.Error):
		return false, "it failed in a way that is not a refusal: " + f.Error + inParentheses(f.Text)
	case p.ended == "processes" && count(f.Text) > 2*fewProcesses:
		return false, fmt.Sprintf("it was refused only after %d processes; the limit was %d", count(f.Text), fewProcesses)
	}
	return true, "refused: " + f.Error + inParentheses(f.Text)
}

// judgeSilence judges a program that said nothing: the tier held only if the program was ended for what it did.
func (p probe) judgeSilence(x Exit) (bool, string) {
	switch {
	case p.ended != "" && x.Limit == p.ended:
		return true, "the run was ended at its limit"
	case p.ended == filtered && x.Signal == "SIGSYS":
		return true, "the filter ended the program"
	}
	return false, fmt.Sprintf("the program said nothing; code %d, signal %q, limit %q", x.Code, x.Signal, x.Limit)
}

func inParentheses(text string) string {
	if text == "" {
		return ""
	}
	return " (" + strings.TrimSpace(text) + ")"
}

// count is the number that a text begins with; without one it is very large.
func count(text string) int {
	first, _, _ := strings.Cut(text, " ")
	n, err := strconv.Atoi(first)
	if err != nil {
		return 1 << 30
	}
	return n
}
