package cells

import (
	"os"
	"testing"

	"golang.org/x/sys/unix"

	"palyra"
	"palyra/internal/cell"
)

func TestRlimits(t *testing.T) {
	find := func(resource int, c Cgroups) (uint64, bool) {
		for _, r := range rlimits(palyra.Limits{CPUMS: 1500, MemoryBytes: 100, Processes: 5, OpenFiles: 7, FileBytes: 9}, 42, c, 11) {
			if r.Resource == resource {
				return r.Value, true
			}
		}
		return 0, false
	}
	for resource, want := range map[int]uint64{
		unix.RLIMIT_CPU: 3, unix.RLIMIT_DATA: 400 + dataSlack, unix.RLIMIT_NOFILE: 7, unix.RLIMIT_FSIZE: 9, unix.RLIMIT_CORE: 1, markLimit: 42,
		unix.RLIMIT_NPROC: 11,
	} {
		if got, ok := find(resource, Cgroups{}); !ok || got != want {
			t.Errorf("%d: %d, want %d", resource, got, want)
		}
	}
	for _, resource := range []int{unix.RLIMIT_NPROC, unix.RLIMIT_DATA} {
		if _, ok := find(resource, Cgroups{Memory: "/m", Pids: "/p"}); ok {
			t.Errorf("a cgroup counts, and so does rlimit %d", resource)
		}
	}
	if got := lowered([]cell.Rlimit{
		{Resource: unix.RLIMIT_NOFILE, Value: 1 << 60},
		{Resource: unix.RLIMIT_CORE, Value: 0},
	}); got[0].Value >= 1<<60 || got[1].Value != 0 {
		t.Errorf("more than the daemon has itself: %+v", got)
	}
	if l := WithDefaults(palyra.Limits{MemoryBytes: 5, CPUMS: -1}); l.MemoryBytes != 5 || l.CPUMS != defaultCPUMS ||
		l.Processes != defaultProcesses {
		t.Errorf("%+v", l)
	}
	if n := tasksOf("/proc", int64(os.Geteuid())); n < 2 {
		t.Errorf("this process alone has more than %d threads", n)
	}
	if n := tasksOf("/nowhere", 0); n != 0 {
		t.Errorf("%d tasks nowhere", n)
	}
}
