package seatbelt

import (
	"fmt"

	"palyra"
	"palyra/internal/sandbox"
)

// The limits where a plan names none.
const (
	defaultCPUMS     = 10 * 60 * 1000
	defaultProcesses = 512
	defaultFiles     = 1024
	defaultFileBytes = 1 << 30
)

// withDefaults fills in the limits that a plan leaves to the tier.
func withDefaults(l palyra.Limits) palyra.Limits {
	fill := func(p *int64, v int64) {
		if *p <= 0 {
			*p = v
		}
	}
	fill(&l.CPUMS, defaultCPUMS)
	fill(&l.Processes, defaultProcesses)
	fill(&l.OpenFiles, defaultFiles)
	fill(&l.FileBytes, defaultFileBytes)
	return l
}

// readyByte is what the shell writes to descriptor 3 when the profile holds and the limits are set,
// just before it becomes the program.
const readyByte = "r"

// script sets the limits of one process, which its children inherit, and becomes the program. It
// contains numbers of ours and nothing else; the program and its arguments are arguments of the
// shell. File sizes are counted in KiB.
func script(l palyra.Limits) string {
	return fmt.Sprintf(`ulimit -c 0 && ulimit -n %d && ulimit -f %d && ulimit -t %d && printf %s >&3 && exec -a "$0" -- "$@" 3>&-; exit 125`,
		l.OpenFiles, (l.FileBytes+1023)/1024, (l.CPUMS+999)/1000+1, readyByte)
}

// command is the whole command line. The shell ignores what the environment tells shells to do (-p). Under the
// profile, which holds from sandbox-exec on, it becomes the program: the process id stays.
func command(j sandbox.Job, p place) []string {
	argv := []string{sandboxExec, "-f", p.profile(), shell, "-p", "-c", script(j.Limits), j.Argv[0], p.program(j)}
	return append(argv, j.Argv[1:]...)
}
